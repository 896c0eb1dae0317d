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
	f.step(t, "RL.RULES LIST n", `[["name" "both" "mode" "enforce" "limit" "FIXED 5/h" "key" ["user"] "candidate" "" "match" [] "except" [] "plans" [] "overrides" 0 "cost" "" "weights" [] "limit_from" "" "at_most" "" "in_flight" "2 in flight, each for 60s at most" "shard_by" ""]]`)
	for _, c := range [][2]string{
		{" RELEASE", `-ERR syntax error: a value is missing after "RELEASE"`},
		{" RELEASE " + strings.Repeat("x", 256), `-ERR ID must have 1 to 255 bytes: "` + strings.Repeat("x", 128) + `"...`},
		{" RELEASE a RELEASE b", `-ERR syntax error: "RELEASE" is given twice, or with what excludes it`},
		{" PEEK RELEASE a", `-ERR syntax error: "RELEASE" is given twice, or with what excludes it`},
		{" RELEASE a PEEK", `-ERR syntax error: "PEEK" is given twice, or with what excludes it`},
		{" RELEASE a EXPLAIN", `-ERR syntax error: EXPLAIN is for a check that decides`},
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

// A check that holds, or counts once, takes its lease in the same step. Sent again it has the same lease, whose id is its own; settled,
// it has none.
func TestCheckInFlightHeld(t *testing.T) {
	const used = "-HELD this ID is that of another hold, or of one that is over; use a new ID for each request"
	const idUsed = "-IDUSED this ID is that of another request; use a new ID for each request, and the same only to send it again"
	ts := withRules(t, flightRules)
	c := ts.client()
	const in = "RL.CHECK n 1 user u "
	c.steps(ts,
		[2]string{in + "HOLD 30s ID a", `[0 2 1 -1 60000 "both" "a"]`},
		[2]string{in + "HOLD 30s ID a", `[0 2 1 -1 60000 "both" "a"]`}, // sent again
		[2]string{in + "PEEK EXPLAIN", `[0 2 0 -1 60000 "both" [["both" "enforce" "FIXED 5/h" 1 [0 5 3 -1 2000000]] ["both" "enforce" "2 in flight, each for 60s at most" 1 [0 2 0 -1 60000]]] ""]`},
		[2]string{in + "ONCE b", `[0 2 0 -1 60000 "both" "b"]`},
		[2]string{in + "ONCE b", `[0 2 0 -1 60000 "both" "b"]`},
		[2]string{in + "HOLD 30s ID c", `[1 2 0 60000 60000 "both" ""]`},
		[2]string{in + "ONCE c", `[1 2 0 60000 60000 "both" ""]`},
		[2]string{in + "COST 0", `[0 5 3 -1 2000000 "both"]`}, // the denials took nothing
		[2]string{"RL.RULES STATS n OVER 1h", `[["namespace" "n" "name" "both" "mode" "enforce" "allowed" 2 "near_limit" 0 "limited" 2 "shadow_limited" 0 "candidate_limited" 0 "blocks" 0 "blocked" 0 "since" 1599996420 "namespace_allowed" 2 "namespace_limited" 2 "namespace_checks" 8 "namespace_p50_usec" 1 "namespace_p99_usec" 1]]`},
		// A commit gives the lease back; so does a cancel.
		[2]string{"RL.CHECK n 0 COMMIT a COST 2 EXPLAIN", `[1 0 5 2 2000000 "both" [[1 0 5 2 2000000 "both"]]]`},
		[2]string{"RL.CHECK n 0 COMMIT a", `[1 0 5 2 2000000 "both"]`},
		[2]string{in + "HOLD 30s ID c", `[0 2 0 -1 60000 "both" "c"]`},
		[2]string{"RL.CHECK n 0 CANCEL c", `[-1 0 5 2 2000000 "both"]`},
		[2]string{in + "RELEASE a", "0"},
		[2]string{in + "RELEASE b", "1"},
		[2]string{in + "ONCE b", `[0 5 2 -1 2000000 "both" "b"]`}, // granted again; what was given back stays so
		[2]string{in + "RELEASE b", "0"},
		// Given back early, the hold stays. A commit gives back no lease of others.
		[2]string{in + "HOLD 30s ID d", `[0 5 1 -1 2000000 "both" "d"]`},
		[2]string{in + "RELEASE d", "1"},
		[2]string{in + "ONCE e", `[0 5 0 -1 2000000 "both" "e"]`},
		[2]string{"RL.CHECK n 0 COMMIT d COST 0", `[-1 0 5 1 2000000 "both"]`},
		[2]string{in + "RELEASE e", "1"},
	)
	// An id that is forgotten before its lease is over is not used for another request meanwhile.
	const v = "RL.CHECK n 1 user v "
	c.steps(ts,
		[2]string{v + "ONCE a FOR 1s", `[0 2 1 -1 60000 "both" "a"]`},
		[2]string{v + "HOLD 1s ID b", `[0 2 0 -1 60000 "both" "b"]`},
		[2]string{v + "HOLD 1s ID a", used},
		[2]string{"+2s", ""},
		[2]string{v + "ONCE a FOR 1s", idUsed},
		[2]string{v + "ONCE b FOR 1s", idUsed},
		[2]string{v + "HOLD 1s ID b", used},
		[2]string{"RL.CHECK n 0 COMMIT b", "-NOHOLD nothing is known of this ID: it was never held, was settled over 30 s ago, or twice its TTL has passed"},
		[2]string{v + "COST 0", `[0 5 3 -1 1998000 "both"]`},
		[2]string{v + "RELEASE a", "1"},
		[2]string{v + "RELEASE b", "1"},
		[2]string{v + "ONCE a FOR 1s", `[0 2 1 -1 60000 "both" "a"]`},
	)
}

// Of several rules each gives its lease, also the one in shadow mode, and a commit ends them all. In a transaction and by a wait it is the same.
func TestCheckInFlightHeldBySeveralRules(t *testing.T) {
	ts := withRules(t, flightRules)
	c, other := ts.client(), ts.client()
	c.steps(ts,
		[2]string{"RL.CHECK two 1 user u HOLD 1m ID a", `[0 3 2 -1 60000 "caller" "a"]`},
		[2]string{"RL.CHECK two 1 user u HOLD 1m ID b", `[0 3 1 -1 60000 "caller" "b"]`},
		[2]string{"RL.CHECK two 1 user u HOLD 1m ID b", `[0 3 1 -1 60000 "caller" "b"]`},
		[2]string{"RL.CHECK two 1 user u ONCE c", `[0 3 0 -1 60000 "caller" "c"]`},
		[2]string{"RL.CHECK two 1 user v ONCE d", `[0 4 0 -1 30000 "all" "d"]`},
	)
	other.expect("the wait", other.say("RL.CHECK two 1 user w HOLD 1m ID e WAIT 1m"), "")
	c.steps(ts,
		[2]string{"RL.CHECK two 0 COMMIT b", `[0 0 -1 -1 0 ""]`},
	)
	other.expect("the wait", other.woken(), `[0 4 0 -1 30000 "all" "e"]`)
	c.steps(ts,
		[2]string{"RL.CHECK two 1 user u RELEASE b", "0"},
		[2]string{"RL.CHECK two 0 CANCEL a EXPLAIN", `[0 0 -1 -1 0 "" []]`},
		[2]string{"RL.CHECK two 1 user u RELEASE a", "0"},
		[2]string{"MULTI", "OK"},
		[2]string{"RL.CHECK two 1 user x HOLD 1m ID f", "QUEUED"},
		[2]string{"RL.CHECK two 1 user x HOLD 1m ID f", "QUEUED"},
		[2]string{"RL.CHECK two 0 COMMIT f", "QUEUED"},
		[2]string{"RL.CHECK two 1 user x ONCE g", "QUEUED"},
		[2]string{"RL.CHECK two 1 user x ONCE g", "QUEUED"},
		[2]string{"EXEC", `[[0 4 0 -1 30000 "all" "f"] [0 4 0 -1 30000 "all" "f"] [0 0 -1 -1 0 ""] [0 4 0 -1 30000 "all" "g"] [0 4 0 -1 30000 "all" "g"]]`},
		[2]string{"RL.CHECK two 1 user x RELEASE g", "3"},
	)
}
