package server

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

const crossRules = `version: 1
namespaces:
  n:
    - {name: user, key: [u], limit: fixed 5/h first}
    - {name: all, limit: fixed 400/h first}
    - {name: flight, key: [u, f], in_flight: 2, lease: 1m}
    - {name: busy, key: [b], in_flight: 1, lease: 1m}
`

// Commands on several limits ask every group that has one of them, and reply as one group does.
func TestSeveralGroupsTakeTogether(t *testing.T) {
	ts := newGroups(t, 4)
	ts.rulesAre(crossRules)
	k1, k2, k3 := ts.keyIn(1), ts.keyIn(2), ts.keyIn(3)
	c := ts.client()
	take := "RL.TAKEALL 3 " + k1 + " " + k2 + " " + k3 + " FIXED 2/h FIRST FIXED 9/h FIRST FIXED 9/h FIRST COST 2"
	one := newTestServer(t)
	one.rulesAre(crossRules)
	of := one.client()
	id := func(v resp.Value) string { return v.Elems[len(v.Elems)-1].Text }
	for _, words := range []string{
		take, take, take, take + " ONCE", // an error of the syntax
		"RL.TAKEALL 2 " + k1 + " " + k2 + " FIXED 2/h FIRST FIXED 9/h FIRST",
		"RL.TAKE " + k2 + " FIXED 9/h FIRST",
		"RL.TAKEALL 2 " + k3 + " " + k2 + " FIXED 9/h FIRST COST 4 FIXED 9/h FIRST",
		"SET " + k3 + "{" + k3 + "} v", "RL.TAKEALL 2 " + k1 + " " + k3 + "{" + k3 + "} FIXED 9/h FIXED 9/h",
	} {
		if got, want := line(c.do(strings.Fields(words)...)), line(of.do(strings.Fields(words)...)); got != want {
			t.Errorf("%s: %s, in one group %s", words, got, want)
		}
	}
	for i := range 30 {
		words := []string{"RL.CHECK", "n", "3", "u", "u" + strconv.Itoa(i%5), "f", "f" + strconv.Itoa(i%3), "b", "b"}
		if i%4 == 3 {
			words = append(words, "EXPLAIN")
		}
		if i%9 == 8 {
			words = append(words, "PEEK")
		}
		got, want := c.do(words...), of.do(words...)
		if given := id(got); given != "" {
			if n := c.do(append(append([]string{}, words[:9]...), "RELEASE", given)...); n.Int != 2 {
				t.Errorf("%s leases were given back", line(n))
			}
			of.do(append(append([]string{}, words[:9]...), "RELEASE", id(want))...)
			got.Elems[len(got.Elems)-1].Text, want.Elems[len(want.Elems)-1].Text = "id", "id"
		}
		if line(got) != line(want) {
			t.Errorf("%q: %s, in one group %s", words, line(got), line(want))
		}
	}
	if got, want := line(c.do("RL.RULES", "STATS", "n")), line(of.do("RL.RULES", "STATS", "n")); withoutTimes(got) != withoutTimes(want) {
		t.Errorf("%s\n%s", got, want)
	}
	if ts.crossings.Requests.Load() < 30 || ts.crossings.Left.Load()+ts.crossings.DeniedLate.Load() > 0 {
		t.Error("they are not counted")
	}
	if got, want := line(c.do("RL.CHECK", "n", "1", "u", "u0", "REFUND")), line(of.do("RL.CHECK", "n", "1", "u", "u0", "REFUND")); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	crosses := 0
	for i := range 20 {
		if got := line(c.do("RL.CHECK", "n", "1", "u", "v"+strconv.Itoa(i), "ONCE", "x")); got == "-"+handler.ErrOneSlot("ONCE") {
			crosses++
		}
	}
	if crosses == 0 {
		t.Error("no ONCE is refused")
	}
	if got, _ := ts.Do(context.Background(), toBytes(strings.Fields(take))...); string(got) != "*5\r\n:1\r\n:0\r\n" && !strings.HasPrefix(string(got), "*5\r\n:1\r\n:0\r\n*5\r\n") {
		t.Errorf("%q", got)
	}
}

// Requests of Envoy's service ask each group for the descriptors whose limits it has.
func TestSeveralGroupsForEnvoy(t *testing.T) {
	const text = `version: 1
namespaces:
  each: {descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3}}, {key: b, rate_limit: {unit: day, requests_per_unit: 5}}]}
  all: {all_or_none: true, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3}}, {key: b, rate_limit: {unit: day, requests_per_unit: 5, algorithm: fixed block 5m}}]}
  barred: {descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3, algorithm: fixed block 5m}}, {key: b, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 5, algorithm: fixed block 5m}}]}
`
	ts, one := newGroups(t, 4), newTestServer(t)
	ts.rulesAre(text)
	one.rulesAre(text)
	c, of := ts.client(), one.client()
	for i := range 60 {
		words := []string{"RL.ENVOY", []string{"each", "all", "barred"}[i%3], "3", "1", "a", "a" + strconv.Itoa(i%4), "1", "b", "b" + strconv.Itoa(i%5), "1", "none", "x"}
		if i%11 == 10 {
			words = append(words, "HITS", "0")
		}
		if got, want := line(c.do(words...)), line(of.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	for i := range 12 { // nothing of these can be denied, so all is given back
		words := []string{"RL.ENVOY", []string{"each", "all"}[i%2], "2", "1", "a", "a" + strconv.Itoa(i%3), "REFUND", "1", "b", "b" + strconv.Itoa(i%5), "REFUND"}
		if got, want := line(c.do(words...)), line(of.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	refused := 0
	for i := range 12 {
		words := []string{"RL.ENVOY", "all", "2", "1", "a", "c" + strconv.Itoa(i), "1", "b", "d" + strconv.Itoa(i), "REFUND"}
		got := line(c.do(words...))
		if got[0] == '-' {
			if refused++; got != "-CROSSSLOT a request that takes and gives back in a domain with all_or_none needs all keys in one slot: give back in another request" {
				t.Error(got)
			}
		} else if want := line(of.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	if refused == 0 {
		t.Error("none is refused")
	}
	if ts.crossings.Requests.Load() < 20 {
		t.Errorf("%d requests had limits in several groups", ts.crossings.Requests.Load())
	}
	if got, want := withoutTimes(line(c.do("RL.RULES", "STATS"))), withoutTimes(line(of.do("RL.RULES", "STATS"))); got != want {
		t.Errorf("%s\n%s", got, want)
	}
}

// envoyRules has ordinary rules: for a caller, for all callers, with a block, in shadow mode, and by another field.
const envoyRules = `version: 1
namespaces:
  rules:
    - {name: caller, key: [a], limit: fixed 5/d first}
    - {name: all, limit: fixed 70/d first}
    - {name: quiet, key: [b], limit: fixed 3/d first, mode: shadow}
    - {name: barred, key: [b], limit: fixed 6/d first, block: 5m}
    - {name: open, match: {b: b9}, unlimited: true}
  apart: [{name: caller, key: [a], limit: fixed 5/d first}]
`

// envoyRequest returns a request of Envoy's service with several descriptors in these namespaces, the same for a number.
func envoyRequest(i int) (words []string) {
	words = []string{"RL.ENVOY", []string{"rules", "apart", "rules"}[i%3], "4"}
	for j := range 4 {
		n := i*7 + j
		switch d := "a a" + strconv.Itoa(n%5); j {
		case 1:
			words = append(words, strings.Fields("1 "+d)...)
		case 2: // the same caller once more, or no caller
			words = append(words, strings.Fields([]string{"0", "1 a a" + strconv.Itoa((n-1)%5)}[i%2])...)
		default:
			words = append(words, strings.Fields("2 "+d+" b b"+strconv.Itoa(n%11))...)
		}
		switch n % 9 {
		case 2:
			words = append(words, "HITS", "2", "REFUND")
		case 4:
			words = append(words, "HITS", "0")
		case 7:
			words = append(words, "HITS", "3")
		}
	}
	return words
}

// Each descriptor in a namespace of ordinary rules is decided as if they were alone, in their order.
func TestSeveralGroupsForDescriptors(t *testing.T) {
	ts, one := newGroups(t, 4), newTestServer(t)
	ts.rulesAre(envoyRules)
	one.rulesAre(envoyRules)
	c, of := ts.client(), one.client()
	for i := range 80 {
		words := envoyRequest(i)
		if got, want := line(c.do(words...)), line(of.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	if ts.crossings.Requests.Load() < 80 {
		t.Errorf("%d requests had limits in several groups", ts.crossings.Requests.Load())
	}
	if got, want := withoutTimes(line(c.do("RL.RULES", "STATS", "rules"))), withoutTimes(line(of.do("RL.RULES", "STATS", "rules"))); got != want {
		t.Errorf("%s\n%s", got, want)
	}
}

// withoutTimes returns the reply of RL.RULES STATS without what differs between two servers: how long checks took.
func withoutTimes(text string) string {
	for _, name := range []string{`"namespace_p50_usec" `, `"namespace_p99_usec" `} {
		for at := 0; ; {
			i := strings.Index(text[at:], name)
			if i < 0 {
				break
			}
			at += i + len(name)
			end := at
			for end < len(text) && text[end] >= '0' && text[end] <= '9' {
				end++
			}
			text = text[:at] + text[end:]
		}
	}
	return text
}

// A reply that several groups have decided on waits until it is durable in all of them. What one has lost is given back by the others.
func TestSeveralGroupsAreDurable(t *testing.T) {
	ts, of := newGroupsKept(t, 3, alone)
	k1, k2 := ts.keyIn(1), ts.keyIn(2)
	take := "RL.TAKEALL 2 " + k1 + " " + k2 + " FIXED 9/h FIRST FIXED 9/h FIRST\r\n"
	c := ts.client()
	end := func(p *primary, err error) {
		for !p.owes() {
			runtime.Gosched()
		}
		p.endWaits(err)
	}
	if got := c.raw(take + "PING\r\n"); got != "" {
		t.Fatalf("%q", got)
	}
	end(of[1], nil)
	if got := c.resume(); got != "" {
		t.Fatalf("%q before the second group", got)
	}
	end(of[2], nil)
	if got := c.resume(); got != "*4\r\n:0\r\n:-1\r\n"+strings.Repeat("*5\r\n:0\r\n:9\r\n:8\r\n:-1\r\n:3600000\r\n", 2)+"+PONG\r\n" {
		t.Fatalf("%q", got)
	}
	if got := c.raw(take); got != "" {
		t.Fatalf("%q", got)
	}
	end(of[1], nil)
	c.resume()
	end(of[2], errors.New("lost"))
	if got := c.resume(); got != unknown {
		t.Fatalf("%q", got)
	}
	for _, p := range of {
		p.holds.Store(false)
	}
	if got := c.raw("RL.PEEK " + k1 + " FIXED 9/h FIRST\r\n"); !strings.HasPrefix(got, "*5\r\n:0\r\n:9\r\n:7\r\n") {
		t.Errorf("%q: it was not given back", got)
	}
	ts.every[2].Follow()
	if got := c.raw(take); got != "" {
		t.Errorf("%q", got)
	}
	ts.clock.Advance(leaderWait)
	ts.LeaderChanged()
	if got := c.resume(); got != "-"+spec.ErrNoLeader+"\r\n" {
		t.Errorf("%q", got)
	}
	info := c.raw("INFO limiter\r\n")
	for _, want := range []string{"s:3", "s_granted:1", "s_denied:0", "s_denied_late:0", "s_failed:0", "s_leaderless:1", "s_unknown:1"} {
		if !strings.Contains(info, "\r\ndecisions_across_group"+want+"\r\n") {
			t.Errorf("INFO has no …%s", want)
		}
	}
	if got := ts.Figures().Crossings.Results; len(got) != 5 || got[0] != (stats.Count{Name: "granted", N: 1}) || got[4] != (stats.Count{Name: "unknown", N: 1}) {
		t.Errorf("%v", got)
	}
}

// A client that goes away while groups decide leaves nothing half done.
func TestClientLeavesSeveralGroups(t *testing.T) {
	ts, of := newGroupsKept(t, 2, alone)
	k1, k2 := ts.keyIn(1), ts.keyIn(2)
	c := ts.client()
	if got := c.raw("RL.TAKEALL 2 " + k1 + " " + k2 + " FIXED 9/h FIRST FIXED 9/h FIRST\r\n"); got != "" {
		t.Fatalf("%q", got)
	}
	c.hangUp(errors.New("gone"))
	of[1].endWaits(errors.New("lost"))
	of[1].holds.Store(false)
	of[2].endWaits(nil)
	for ts.crossings.GivenBack.Load() < 1 { // the second group's
		of[2].endWaits(nil)
		runtime.Gosched()
	}
	left := limitLeft(t, ts.every[2].Engine.Load(), ts.clock.Now(), k2)
	if left != 9 {
		t.Errorf("%d are left", left)
	}
}

// limitLeft returns what is left of FIXED 9/h FIRST on a key.
func limitLeft(t *testing.T, e *engine.Engine, now int64, key string) int64 {
	t.Helper()
	l, err := (&limit.Parser{}).Parse("FIXED 9/h FIRST")
	if err != nil {
		t.Fatal(err)
	}
	r := engine.Together{Keys: toBytes([]string{key}), Limits: []limit.Limit{l}, Costs: []int64{0}, Decisions: make([]limit.Decision, 1), Peek: true}
	if err := e.UpdateAt(0, now, r.Keys, func(t *engine.Txn) error { _, err := t.Together(&r); return err }); err != nil {
		t.Fatal(err)
	}
	return r.Decisions[0].Remaining
}
