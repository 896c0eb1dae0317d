package server

import (
	"regexp"
	"strings"
	"testing"
)

const flightRules = `
version: 1
namespaces:
  n:
    - {name: both, key: [user], limit: fixed 5/h, in_flight: 2, lease: 60s}
  two:
    - {name: caller, key: [user], in_flight: 3, lease: 60s}
    - {name: all, in_flight: 4, lease: 30s}
    - {name: try, in_flight: 1, lease: 60s, mode: shadow}
`

// flights sends checks, and returns the ids in the replies.
type flights struct {
	c   *testClient
	ts  *testServer
	ids []string
}

var idInReply = regexp.MustCompile(`"([A-Za-z0-9_-]{20})"`)

// step sends a command, in which #1 is the first id that was replied, and compares the reply, in which each new id is ID.
func (f *flights) step(t *testing.T, command, want string) {
	t.Helper()
	for i, id := range f.ids {
		command = strings.ReplaceAll(command, "#"+string(rune('1'+i)), id)
	}
	got := line(f.c.do(strings.Fields(command)...))
	got = idInReply.ReplaceAllStringFunc(got, func(id string) string {
		f.ids = append(f.ids, strings.Trim(id, `"`))
		return "ID"
	})
	if got != want {
		t.Errorf("%s\n got %s\nwant %s", command, got, want)
	}
}

// A rate and what is in flight are decided in one step: what one denies takes nothing from the other.
func TestCheckInFlight(t *testing.T) {
	ts := withRules(t, flightRules)
	f := &flights{c: ts.client(), ts: ts}
	const in = "RL.CHECK n 1 user u"
	f.step(t, in+" PEEK", `[0 2 1 -1 60000 "both" ""]`)
	f.step(t, in, `[0 2 1 -1 60000 "both" ID]`)
	f.step(t, in, `[0 2 0 -1 60000 "both" ID]`)
	f.step(t, in+" EXPLAIN", `[1 2 0 60000 60000 "both" [["both" "enforce" "FIXED 5/h" 1 [0 5 3 -1 2000000]] ["both" "enforce" "2 in flight, each for 60s at most" 1 [1 2 0 60000 60000]]] ""]`)
	f.step(t, in+" COST 0", `[0 5 3 -1 2000000 "both"]`) // the denial took nothing
	f.step(t, in+" RELEASE #1", `1`)
	f.step(t, in+" RELEASE #1", `0`)
	f.step(t, "RL.CHECK n 1 user other RELEASE #2", `0`)
	f.step(t, in+" COST 4", `[1 5 3 2000000 2000000 "both" ""]`) // by the rate, so no lease is taken
	f.step(t, in, `[0 2 0 -1 60000 "both" ID]`)
	f.step(t, in+" REFUND", `[0 2 0 -1 60000 "both" ""]`) // the leases stay
	f.step(t, in+" RELEASE #2", `1`)
	f.step(t, in, `[0 2 0 -1 60000 "both" ID]`)
	ts.clock.Advance(60_000_000_001)
	f.step(t, in+" RELEASE #3", `0`) // its time is over
	f.step(t, in+" COST 2", `[0 5 0 -1 1940000 "both" ID]`)
	f.step(t, "RL.RULES RESET n both user u", `2`)
	f.step(t, "RL.RULES LIST n", `[["name" "both" "mode" "enforce" "limit" "FIXED 5/h" "key" ["user"] "candidate" "" "match" [] "except" [] "plans" [] "overrides" 0 "cost" "" "weights" [] "limit_from" "" "at_most" "" "in_flight" "2 in flight, each for 60s at most"]]`)
	for _, c := range [][2]string{
		{" RELEASE", `-ERR syntax error: a value is missing after "RELEASE"`},
		{" RELEASE " + strings.Repeat("x", 256), `-ERR ID must have 1 to 255 bytes: "` + strings.Repeat("x", 128) + `"...`},
		{" RELEASE a RELEASE b", `-ERR syntax error: "RELEASE" is given twice, or with what excludes it`},
		{" PEEK RELEASE a", `-ERR syntax error: "RELEASE" is given twice, or with what excludes it`},
		{" RELEASE a PEEK", `-ERR syntax error: "PEEK" is given twice, or with what excludes it`},
		{" RELEASE a EXPLAIN", `-ERR syntax error: EXPLAIN is for a check that decides`},
		{" ONCE a", `-ERR ONCE does not go with rules that have in_flight: a repetition would not hold the lease of the first`},
		{" RELEASE a ONCE b", `-ERR syntax error: ONCE is for a check that takes`},
		{" RELEASE a WAIT 5s", `-ERR syntax error: WAIT is for a check that takes`},
	} {
		f.step(t, in+c[0], c[1])
	}
}

// Several rules give one id. A rule in shadow mode denies nobody.
func TestCheckInFlightOfSeveralRules(t *testing.T) {
	ts := withRules(t, flightRules)
	f := &flights{c: ts.client(), ts: ts}
	f.step(t, "RL.CHECK two 1 user u", `[0 3 2 -1 60000 "caller" ID]`)
	f.step(t, "RL.CHECK two 1 user u", `[0 3 1 -1 60000 "caller" ID]`)
	f.step(t, "RL.CHECK two 1 user v", `[0 4 1 -1 30000 "all" ID]`)
	f.step(t, "RL.CHECK two 1 user u", `[0 3 0 -1 60000 "caller" ID]`)
	f.step(t, "RL.CHECK two 1 user v", `[1 4 0 30000 30000 "all" ""]`)
	f.step(t, "RL.CHECK two 1 user u RELEASE #1", `3`) // one of them is that of the rule in shadow mode
	f.step(t, "RL.CHECK two 1 user u RELEASE #2", `2`)
	f.step(t, "MULTI", "OK")
	f.step(t, "RL.CHECK two 1 user v", "QUEUED")
	f.step(t, "RL.CHECK two 1 user v RELEASE #3", "QUEUED")
	f.step(t, "RL.CHECK two 1 user u RELEASE #4", "QUEUED")
	f.step(t, "EXEC", `[[0 3 1 -1 60000 "caller" ID] 2 2]`)
	f.step(t, "RL.CHECK two 1 user v RELEASE #5", `3`)
}

// A check with WAIT waits for a lease to be given back.
func TestCheckWaitsForALease(t *testing.T) {
	ts := withRules(t, flightRules)
	f := &flights{c: ts.client(), ts: ts}
	f.step(t, "RL.CHECK n 1 user u", `[0 2 1 -1 60000 "both" ID]`)
	f.step(t, "RL.CHECK n 1 user u", `[0 2 0 -1 60000 "both" ID]`)
	waiting := ts.client()
	waiting.expect("the wait", waiting.say("RL.CHECK n 1 user u WAIT 30s"), "")
	f.step(t, "RL.CHECK n 1 user u RELEASE #1", `1`)
	if got := waiting.woken(); !strings.HasPrefix(got, `[0 2 0 -1 60000 "both" "`) {
		t.Error(got)
	}
	waiting.expect("the wait", waiting.say("RL.CHECK n 1 user u WAIT 30s"), "")
	ts.pass(30_000_000_000)
	waiting.expect("in vain", waiting.woken(), `[1 2 0 30000 30000 "both" ""]`)
	waiting.expect("the wait", waiting.say("RL.CHECK n 1 user u WAIT 1h"), "")
	ts.pass(30_000_000_000)
	if got := waiting.woken(); !strings.HasPrefix(got, `[0 5 1 -1 1940000 "both" "`) {
		t.Error(got)
	}
	f.step(t, "RL.CHECK n 1 user u COST 0", `[0 5 1 -1 1940000 "both"]`)
}
