package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"limitdb/internal/stats"
)

// Commands on several limits ask the groups that other nodes lead, and reply as one group does.
func TestSeveralNodesTakeTogether(t *testing.T) {
	n := newGroupNodes(t)
	one := newTestServer(t).client()
	for at := range n.nodes {
		for _, direct := range []bool{false, true} {
			key := func(g int) string { return fmt.Sprintf("{%s}%d%v", n.key(g), at, direct) }
			for _, words := range []string{
				"RL.TAKEALL 2 " + key(2) + " " + key(3) + " FIXED 2/h FIRST FIXED 9/h FIRST",
				"RL.TAKEALL 4 " + key(2) + " " + key(3) + " " + key(1) + " " + key(4) + " FIXED 9/h FIRST FIXED 9/h FIRST COST 3 FIXED 9/h FIRST LOG 5/h",
				"RL.TAKEALL 2 " + key(2) + " " + key(3) + " FIXED 9/h FIRST FIXED 9/h FIRST COST 6",
				"RL.TAKEALL 3 " + key(1) + " " + key(3) + " " + key(2) + " FIXED 9/h FIRST FIXED 9/h FIRST COST 2 FIXED 4/h FIRST COST 2",
				"RL.TAKEALL 2 " + key(1) + " " + key(3) + "block FIXED 9/h FIRST FIXED 2/h FIRST BLOCK 5m COST 3",
				"RL.TAKEALL 2 " + key(1) + " " + key(3) + " FIXED 9/h FIRST GCRA 9/h",
				"SET " + key(3) + "value v",
				"RL.TAKEALL 2 " + key(1) + " " + key(3) + "value FIXED 9/h FIRST GCRA 9/h",
				"RL.TAKEALL 2 " + key(1) + " " + key(3) + " FIXED 9/h FIRST FIXED 9/h FIRST CALENDAR DAY",
				"RL.TAKEALL 3 " + key(1) + " " + key(3) + " " + key(3) + " FIXED 9/h FIXED 9/h FIXED 9/h",
				"RL.TAKEALL 2 " + key(2) + "day " + key(3) + "day FIXED 9 CALENDAR DAY TZ Europe/Berlin FIXED 7 CALENDAR MONTH",
			} {
				if got, want := n.ask(at, direct, strings.Fields(words)...), line(one.do(strings.Fields(words)...)); got != want {
					t.Errorf("node %d: %s: %s, in one group %s", at, words, got, want)
				}
			}
		}
	}
	for _, ts := range n.nodes {
		if ts.lines.Kept() == 0 || ts.crossings.Left.Load()+ts.crossings.DeniedLate.Load() > 0 {
			t.Error("it has asked nobody, or something was left")
		}
		if ts.Clients() > 20 {
			t.Errorf("%d streams", ts.Clients())
		}
	}
}

// Checks ask the groups that other nodes lead, wherever the client is: with leases, which are given back, refunds, looks and figures.
func TestSeveralNodesCheck(t *testing.T) {
	n, ts := newGroupNodes(t), newTestServer(t)
	n.rulesAre(crossRules)
	ts.rulesAre(crossRules)
	one := ts.client()
	id := func(text string) string {
		words := strings.Split(text, `"`)
		return words[len(words)-2]
	}
	for i := range 60 {
		at, direct := i%3, i%2 == 1
		words := []string{"RL.CHECK", "n", "3", "u", "u" + strconv.Itoa(i%5), "f", "f" + strconv.Itoa(i%3), "b", "b"}
		tail := []string{}
		switch {
		case i%4 == 3:
			tail = []string{"EXPLAIN"}
		case i%9 == 8:
			tail = []string{"PEEK"}
		}
		got, want := n.ask(at, direct, append(words, tail...)...), line(one.do(append(words, tail...)...))
		if strings.HasSuffix(want, `"]`) && len(id(want)) == 20 {
			if back := n.ask((at+1)%3, direct, append(words, "RELEASE", id(got))...); back != "2" {
				t.Errorf("%s leases were given back", back)
			}
			one.do(append(words, "RELEASE", id(want))...)
			got, want = strings.Replace(got, id(got), "id", 1), strings.Replace(want, id(want), "id", 1)
		}
		if got != want {
			t.Errorf("node %d: %q: %s, in one group %s", at, words, got, want)
		}
	}
	for at := range n.nodes {
		words := []string{"RL.CHECK", "n", "3", "u", "u" + strconv.Itoa(at), "f", "f1", "b", "b", "REFUND"}
		if got, want := n.ask(at, false, words...), line(one.do(words...)); got != want {
			t.Errorf("%s, in one group %s", got, want)
		}
	}
}

// Requests of Envoy's service ask the groups that other nodes lead, for each descriptor or for all of them.
func TestSeveralNodesForEnvoy(t *testing.T) {
	const text = `version: 1
namespaces:
  each: {descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 9}}, {key: b, rate_limit: {unit: day, requests_per_unit: 15}}]}
  all: {all_or_none: true, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 3}}, {key: b, rate_limit: {unit: day, requests_per_unit: 5}}]}
  rules: [{name: caller, key: [a], limit: fixed 5/d first}, {name: all, limit: fixed 12/d first}]
`
	n, ts := newGroupNodes(t), newTestServer(t, "envoy-metrics yes")
	n.rulesAre(text)
	ts.rulesAre(text)
	one := ts.client()
	for _, node := range n.nodes {
		node.client().do("CONFIG", "SET", "envoy-metrics", "yes")
	}
	for i := range 24 { // an ordinary rule for the caller, and one for all
		words := []string{"RL.ENVOY", "rules", "1", "1", "a", "a" + strconv.Itoa(i%3)}
		switch {
		case i%7 == 6:
			words = append(words, "REFUND")
		case i%5 == 4:
			words = append(words, "HITS", "0")
		}
		if got, want := n.ask(i%3, i%4 > 1, words...), line(one.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	for i := range 90 {
		words := []string{"RL.ENVOY", []string{"each", "all"}[i%2], "4", "1", "a", "a" + strconv.Itoa(i%3), "1", "b", "b" + strconv.Itoa(i%5), "1", "b", "b" + strconv.Itoa(i%4), "1", "none", "x"}
		switch i % 10 {
		case 8:
			words = append(words[:6], append([]string{"HITS", "4"}, words[6:]...)...)
		case 4:
			words = append(words[:6], append([]string{"REFUND"}, words[6:]...)...)
		}
		if got, want := n.ask(i%3, i%4 > 1, words...), line(one.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	var timed, once [3]int
	for at := range n.nodes { // each tells its own figures while it leads the first group
		if int(n.led[0].Load()) != at {
			n.move(0, at)
		}
		for i, ns := range []string{"each", "all", "rules"} {
			timed[i] += timedOf(t, n.ask(at, false, "RL.RULES", "STATS", ns))
			once[i] = timedOf(t, line(one.do("RL.RULES", "STATS", ns)))
		}
	}
	if timed != once {
		t.Errorf("%d are timed, in one group %d", timed, once)
	}
	got := map[string]stats.EnvoyLimit{}
	for _, node := range n.nodes {
		for name, c := range node.rules.EnvoyLimits() {
			sum := got[name]
			got[name] = stats.EnvoyLimit{Total: sum.Total + c.Total, Within: sum.Within + c.Within, Near: sum.Near + c.Near, Over: sum.Over + c.Over, Shadow: sum.Shadow + c.Shadow}
		}
	}
	if want := ts.rules.EnvoyLimits(); !maps.Equal(got, want) || len(want) == 0 {
		t.Errorf("%v\nin one group %v", got, want)
	}
}

// timedOf returns how many requests are in the times of the first namespace in a reply of RL.RULES STATS.
func timedOf(t *testing.T, reply string) int {
	t.Helper()
	_, rest, _ := strings.Cut(reply, `"namespace_checks" `)
	text, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(reply)
	}
	return n
}

// Each descriptor in a namespace of ordinary rules is decided in the groups of its limits, whichever nodes lead them.
func TestSeveralNodesForDescriptors(t *testing.T) {
	n, ts := newGroupNodes(t), newTestServer(t)
	n.rulesAre(envoyRules)
	ts.rulesAre(envoyRules)
	one := ts.client()
	for i := range 80 {
		words := envoyRequest(i)
		if got, want := n.ask(i%3, i%4 > 1, words...), line(one.do(words...)); got != want {
			t.Errorf("%q: %s, in one group %s", words, got, want)
		}
	}
	for _, node := range n.nodes {
		if node.crossings.Left.Load()+node.crossings.DeniedLate.Load() > 0 {
			t.Error("something was left")
		}
	}
}

// A command counts once: where it is decided or, if several groups decide, at the node of its client.
func TestWhereCommandsCount(t *testing.T) {
	n := newGroupNodes(t)
	c := n.nodes[0].client()
	a, b := n.key(1), n.key(2)
	c.gets(strings.Repeat("INCR "+b+"\r\n", 3), "1", "2", "3")
	c.send("RL.TAKEALL 2 {"+a+"}t {"+b+"}u GCRA 5/h GCRA 5/h\r\n", 1)
	for at, want := range []struct {
		incr, takeall bool
	}{{false, true}, {true, false}, {false, false}} {
		info := n.nodes[at].client().do("INFO", "commandstats").Text
		if incr := strings.Contains(info, "cmdstat_incr:calls=3,"); incr != want.incr {
			t.Errorf("node %d: INCR counts: %t", at, incr)
		}
		if takeall := strings.Contains(info, "cmdstat_rl.takeall:calls=1,"); takeall != want.takeall {
			t.Errorf("node %d: RL.TAKEALL counts: %t", at, takeall)
		}
	}
}

// All other nodes are asked at once, so that one which takes long does not add to what the next one takes.
func TestNodesAreAskedAtOnce(t *testing.T) {
	n := newGroupNodes(t)
	of := []*primary{n.kept[1][2], n.kept[2][3]}
	for i, words := range []string{"WAIT 1 0", "DBSIZE", "KEYS none*", "FLUSHALL"} {
		c := n.nodes[0].client()
		for _, p := range of {
			p.holds.Store(false)
		}
		c.gets("SET "+n.key(2)+" v\r\nSET "+n.key(3)+" v\r\n", "OK", "OK")
		for _, p := range of {
			p.holds.Store(true)
		}
		c.s.Data([]byte(words + "\r\n"))
		for _, p := range of {
			c.until(p.owes)
		}
		if c.s.pending == nil {
			t.Fatalf("%s does not wait", words)
		}
		of[1].endWaits(nil)
		of[0].endWaits(nil)
		if got, want := c.receive(1)[0], []string{"1", "2", "[]", "OK"}[i]; got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
}

// A request is explained by the groups that have its callers, and nothing changes there.
func TestSeveralNodesExplain(t *testing.T) {
	n, ts := newGroupNodes(t), newTestServer(t)
	n.rulesAre(crossRules)
	ts.rulesAre(crossRules)
	one := ts.client()
	for i := range 36 {
		fields := []string{"n", "3", "u", "u" + strconv.Itoa(i%5), "f", "f" + strconv.Itoa(i%3), "b", "b"}
		if words := append([]string{"RL.CHECK"}, fields...); i%3 != 2 {
			n.ask(i%3, false, words...)
			one.do(words...)
		}
		words := append([]string{"RL.RULES", "EXPLAIN"}, fields...)
		want := line(one.do(words...))
		for at := range n.nodes {
			if got := n.ask(at, i%2 == 1, words...); got != want {
				t.Errorf("node %d: %q:\n%s\nin one group\n%s", at, words, got, want)
			}
		}
	}
	n.follow(3)
	c := n.nodes[1].client()
	c.s.Data(encode("RL.RULES", "EXPLAIN", "n", "3", "u", "u1", "f", "f1", "b", "b"))
	n.lead(3, 0)
	if got := c.receive(1)[0]; !strings.Contains(got, `"decision"`) {
		t.Error(got)
	}
}

// What is known of a caller of a rule is shown and forgotten by any node, wherever it is.
func TestSeveralNodesKnowCallers(t *testing.T) {
	n := newGroupNodes(t)
	n.rulesAre("version: 1\nnamespaces:\n  one:\n    - {name: user, key: [u], limit: 5/h}\n")
	at := map[int32]bool{}
	for u := range 12 {
		user := fmt.Sprintf("u%02d", u)
		key, err := strconv.Unquote(strings.Trim(n.ask(0, false, "RL.RULES", "KEYS", "one", "user", "u", user), "[]"))
		if err != nil {
			t.Fatal(err)
		}
		at[n.led[slices.Index(n.nodes[0].every, n.nodes[0].groupOf([]byte(key)))].Load()] = true
		n.nodes[u%3].client().gets("RL.CHECK one 1 u "+user+"\r\n", `[0 5 4 -1 720000 "user"]`)
		for node := range 3 {
			for _, direct := range []bool{false, true} {
				if got := n.ask(node, direct, "RL.RULES", "INFO", "one", "user", "u", user); got != `["algorithm" "gcra" "state" 1600000720000000000 "level" 720000000000 "resets_in" 720000 "memory" 38]` {
					t.Errorf("%s at node %d: %s", user, node, got)
				}
			}
		}
		knows := n.nodes[u%3].client()
		knows.do("CLUSTER", "SLOTS")
		knows.gets("RL.RULES RESET one user u "+user+"\r\nRL.RULES RESET one user u "+user+"\r\n", "1", "0")
		for node := range 3 {
			if got := n.ask(node, false, "RL.RULES", "INFO", "one", "user", "u", user); got != "nil" {
				t.Errorf("%s at node %d, after a reset: %s", user, node, got)
			}
		}
		n.nodes[0].client().gets("RL.RULES RESET one user u\r\nRL.RULES INFO one none u v\r\n", "-ERR give the fields of the rule's key, each with its value", "-NORULE there is no such rule")
	}
	if len(at) != 3 {
		t.Errorf("the callers are at %v", at)
	}
}
