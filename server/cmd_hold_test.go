package server

import (
	"math"
	"strings"
	"testing"
	"time"

	"limitdb/limit"
	"limitdb/server/request"
)

// A settlement of which nothing is left to be known says so, and does not say that nothing is left.
func TestCommitWithoutLimit(t *testing.T) {
	ts := newTestServer(t)
	ts.client().steps(ts,
		[2]string{"RL.CANCEL early ID a", "0"},
		[2]string{"RL.COMMIT early ID a COST 5", "[0 0 -1 -1 0]"},
		[2]string{"RL.COMMITALL 1 early ID a COST 5", "[[0 0 -1 -1 0]]"},
		[2]string{"RL.HOLD family FIXED 10/h FIRST COST 4 TTL 10s ID a", "[0 10 6 -1 3600000]"},
		[2]string{"RL.TAKE family LOG 10/h REPLACE", "[0 10 9 -1 3600000]"},
		[2]string{"RL.COMMIT family ID a COST 5", "[1 1 -1 -1 0]"},
		[2]string{"RL.COMMIT family ID a COST 5", "[1 1 -1 -1 0]"}, // the first has settled it
	)
}

// Estimates of several windows that are together above what an integer has are told as the most.
func TestHeldDoesNotOverflow(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	const hold = "RL.HOLD k FIXED 9223372036854775807/s FIRST COST 9223372036854775807 TTL 10s ID "
	c.steps(ts, [2]string{hold + "a", "[0 9223372036854775807 0 -1 1000]"}, [2]string{"+1s", ""}, [2]string{hold + "b", "[0 9223372036854775807 0 -1 1000]"})
	if held := c.do("RL.INFO", "k").Elems[:4]; held[1].Int != 2 || held[3].Int != math.MaxInt64 {
		t.Errorf("holds, held: %v", held)
	}
}

func TestHolds(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	const noHold = "-NOHOLD nothing is known of this ID: it was never held, was settled over 30 s ago, or twice its TTL has passed"
	const used = "-HELD this ID is that of another hold, or of one that is over; use a new ID for each request"
	c.steps(ts,
		[2]string{"RL.HOLDS k", "[]"},
		[2]string{"RL.HOLD k FIXED 10/h FIRST COST 4 TTL 10s ID a", "[0 10 6 -1 3600000]"},
		[2]string{"RL.HOLD k FIXED 10/h FIRST TTL 10s ID a COST 4", "[0 10 6 -1 3600000]"}, // sent again: taken once
		[2]string{"RL.HOLD k FIXED 10/h FIRST COST 5 TTL 10s ID a", used},
		[2]string{"rl.hold k fixed 10/h first cost 5 ttl 20000 id b onexpire return", "[0 10 1 -1 3600000]"},
		[2]string{"RL.HOLD k FIXED 10/h FIRST COST 2 TTL 10s ID c", "[1 10 1 3600000 3600000]"},
		[2]string{"RL.HOLDS k", `[["a" "held" 4 10000 "FIXED 10/h FIRST"] ["b" "held" 5 20000 "FIXED 10/h FIRST"]]`},
		[2]string{"RL.HOLDS k COUNT 1", `[["a" "held" 4 10000 "FIXED 10/h FIRST"]]`},
		[2]string{"EXISTS k", "1"},
		[2]string{"DBSIZE", "1"},
		[2]string{"SCAN 0 COUNT 10000", `["0" ["k"]]`},
		[2]string{"TYPE k", "fixed"},
		[2]string{"RL.COMMIT k ID a COST 1", "[-3 0 10 4 3600000]"},
		[2]string{"RL.COMMIT k ID a COST 9", "[-3 0 10 4 3600000]"}, // the first has settled it
		[2]string{"RL.CANCEL k ID a", "3"},
		[2]string{"RL.HOLD k FIXED 10/h FIRST COST 4 TTL 10s ID a", used},
		[2]string{"RL.COMMIT k ID b COST 11", "[6 2 10 0 3600000]"}, // 2 more than there was
		[2]string{"RL.TAKE k FIXED 10/h FIRST", "[1 10 0 3600000 3600000]"},
		[2]string{"RL.HOLDS k", `[["a" "committed" -3 30000 "FIXED 10/h FIRST"] ["b" "committed" 6 30000 "FIXED 10/h FIRST"]]`},
		[2]string{"RL.COMMIT k ID c", noHold},
		[2]string{"RL.COMMIT none ID c", noHold},
		[2]string{"RL.CANCEL k ID c", "0"},
		[2]string{"RL.HOLD k FIXED 10/h FIRST TTL 10s ID c", "-CANCELLED this ID was cancelled before it was held"},
		[2]string{"+30s", ""},
		[2]string{"RL.HOLDS k", "[]"},
		[2]string{"RL.HOLD k FIXED 20/h FIRST COST 5 TTL 10s ID c", "[0 20 3 -1 3570000]"},
		// A time that is over: kept, and given back.
		[2]string{"RL.HOLD k FIXED 20/h FIRST COST 2 TTL 10s ID d ONEXPIRE RETURN", "[0 20 1 -1 3570000]"},
		[2]string{"+10s", ""},
		[2]string{"RL.PEEK k FIXED 20/h FIRST", "[0 20 2 -1 3560000]"},
		[2]string{"RL.HOLDS k", `[["c" "over" 5 10000 "FIXED 20/h FIRST"] ["d" "returned" 0 10000 "FIXED 20/h FIRST"]]`},
		[2]string{"RL.COMMIT k ID c COST 4", "[-1 0 20 4 3560000]"},
		[2]string{"RL.COMMIT k ID d", "[2 0 20 2 3560000]"},
		// Nothing goes back once the key was reset.
		[2]string{"RL.HOLD k FIXED 20/h FIRST COST 2 TTL 10s ID e", "[0 20 0 -1 3560000]"},
		[2]string{"RL.RESET k", "1"},
		[2]string{"RL.TAKE k FIXED 20/h FIRST COST 5", "[0 20 15 -1 3600000]"},
		[2]string{"RL.CANCEL k ID e", "0"},
		[2]string{"RL.TAKE k FIXED 20/h FIRST", "[0 20 14 -1 3600000]"},
		[2]string{"DEL k", "1"},
		[2]string{"RL.LEASE lease 3 10s ID a", "[0 3 2 -1 10000]"},
		[2]string{"RL.HOLD lease GCRA 5/m TTL 10s ID a", "-" + request.WrongType(limit.LEASE, limit.GCRA.Kind())},
		// The window ends before the hold does.
		[2]string{"RL.HOLD w FIXED 10/10s COST 5 TTL 1m ID a", "[0 10 5 -1 10000]"},
		[2]string{"+11s", ""},
		[2]string{"RL.TAKE w FIXED 10/10s COST 10", "[0 10 0 -1 9000]"},
		[2]string{"RL.COMMIT w ID a COST 1", "[0 0 10 0 9000]"},
		[2]string{"RL.TAKE w FIXED 10/10s", "[1 10 0 9000 9000]"},
		[2]string{"FLUSHALL", "OK"},
		[2]string{"RL.HOLDS w", "[]"},
		[2]string{"DBSIZE", "0"},
	)
	info := line(c.do("INFO", "stats"))
	for _, want := range []string{"holds_taken:6", "holds_settled:6", "holds_over:1", "holds_returned:1"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO lacks %s: %s", want, info)
		}
	}
}

// In EXEC, and in a script, holds are part of the step.
func TestHoldsInSteps(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"MULTI", "OK"},
		[2]string{"RL.HOLD a FIXED 10/h FIRST COST 4 TTL 10s ID x", "QUEUED"},
		[2]string{"RL.HOLD b FIXED 10/h FIRST COST 5 TTL 10s ID x", "QUEUED"},
		[2]string{"RL.COMMIT a ID x COST 1", "QUEUED"},
		[2]string{"RL.TAKE a FIXED 10/h FIRST", "QUEUED"},
		[2]string{"EXEC", "[[0 10 6 -1 3600000] [0 10 5 -1 3600000] [-3 0 10 9 3600000] [0 10 8 -1 3600000]]"},
		[2]string{"RL.HOLDS b", `[["x" "held" 5 10000 "FIXED 10/h FIRST"]]`},
		// What is held after a reset goes back, and what was held before it does not.
		[2]string{"MULTI", "OK"},
		[2]string{"RL.RESET b", "QUEUED"},
		[2]string{"RL.HOLD b FIXED 10/h FIRST COST 7 TTL 10s ID y", "QUEUED"},
		[2]string{"RL.CANCEL b ID x", "QUEUED"},
		[2]string{"RL.CANCEL b ID y", "QUEUED"},
		[2]string{"EXEC", "[1 [0 10 3 -1 3600000] 0 7]"},
	)
}

// Holds belong to a name. Other commands neither move a limit with holds away nor copy it. A value under the name of a
// limit that is over goes without its holds.
func TestHoldsStayUnderTheirName(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.HOLD k FIXED 10/10s FIRST COST 4 TTL 1m ID a", "[0 10 6 -1 10000]"},
		[2]string{"+11s", ""},
		[2]string{"SET k v", "OK"},
		[2]string{"RENAME k other", "OK"},
		[2]string{"RL.HOLDS other", "[]"},
		[2]string{"RL.COMMIT other ID a", "-NOHOLD nothing is known of this ID: it was never held, was settled over 30 s ago, or twice its TTL has passed"},
		[2]string{"RL.TAKE k FIXED 10/10s FIRST COST 7", "[0 10 3 -1 10000]"},
		[2]string{"RL.COMMIT k ID a COST 1", "[0 0 10 3 10000]"},
		[2]string{"RL.COMMIT k ID a COST 1", "[0 0 10 3 10000]"},
		[2]string{"GET other", `"v"`},
	)
	for _, command := range []string{"RENAME k x", "RENAMENX k x", "COPY k x", "EXPIRE k 1", "SET k v", "RENAME other k"} {
		if got := line(c.do(strings.Fields(command)...)); !strings.HasPrefix(got, "-WRONGTYPE") && got != "0" {
			t.Errorf("%s: %s", command, got)
		}
	}
	c.steps(ts, [2]string{"RL.HOLDS k COUNT 1", `[["a" "committed" 0 30000 "FIXED 10/10s FIRST"]]`})
}

// A hold that waits is held from when it is granted on, and is granted when an estimate goes back.
func TestHoldsWait(t *testing.T) {
	ts := newTestServer(t)
	c, other := ts.client(), ts.client()
	c.steps(ts, [2]string{"RL.HOLD k FIXED 10/h FIRST COST 8 TTL 10s ID a ONEXPIRE return", "[0 10 2 -1 3600000]"})
	other.saysAfter(ts, "a hold", "RL.HOLD k FIXED 10/h FIRST COST 5 TTL 5s ID b WAIT 1m", 10*time.Second, "[0 10 5 -1 3600000]")
	c.steps(ts, [2]string{"RL.HOLDS k", `[["a" "returned" 0 10000 "FIXED 10/h FIRST"] ["b" "held" 5 5000 "FIXED 10/h FIRST"]]`})
	other.expect("another", other.say("RL.TAKE k FIXED 10/h FIRST COST 6 WAIT 1m"), "")
	c.steps(ts, [2]string{"RL.COMMIT k ID b COST 1", "[-4 0 10 9 3600000]"})
	other.expect("what waits for a commit", other.woken(), "[0 10 3 -1 3600000]")
}

func TestHoldErrorsNameTheArgument(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	long := strings.Repeat("x", 129)
	for _, tt := range [][2]string{
		{"RL.HOLD k FIXED 10/h COST 4 TTL 10s", "-ERR syntax error: RL.HOLD needs ID id"},
		{"RL.HOLD k FIXED 10/h COST 4 ID a WAIT 1s", "-ERR syntax error: RL.HOLD needs TTL time"},
		{"RL.HOLD k FIXED 10/h TTL 61m ID a", "-ERR TTL is above hold-max-ttl, 3600 s"},
		{"RL.HOLD k FIXED 10/h TTL 0 ID a", `-ERR `},
		{"RL.HOLD k FIXED 10/h COST 0 TTL 1m ID a", "-ERR COST must be 1 or more: a hold takes an estimate"},
		{"RL.HOLD k FIXED 10/h TTL 1m ID " + long, "-ERR ID must have 1 to 128 bytes: "},
		{"RL.HOLD k FIXED 10/h TTL 1m ID a ONEXPIRE never", `-ERR ONEXPIRE is keep or return, not "never"`},
		{"RL.HOLD k FIXED 10/h TTL 1m ID a ID b", "-ERR syntax error: ID is given twice"},
		{"RL.HOLD k FIXED 10/h COST 1 COST 2 TTL 1m ID a", "-ERR syntax error: COST is given twice"},
		{"RL.HOLD k FIXED 10/h COST 1 TTL 1m ID a COST 2", "-ERR syntax error: COST is given twice"},
		{"RL.HOLD k FIXED 10/h BURST 4 TTL 1m ID a", "-ERR "},
		{"RL.COMMIT k COST 4", "-ERR syntax error: RL.COMMIT needs ID id"},
		{"RL.COMMIT k ID a COST -1", "-ERR COST is negative"},
		{"RL.COMMIT k ID a LIMIT 1", "-ERR unknown option"},
		{"RL.CANCEL k TOKEN a", `-ERR syntax error: ID id is expected, not "TOKEN"`},
		{"RL.HOLDS k COUNT 0", `-ERR COUNT must be a positive integer: "0"`},
	} {
		if got := line(c.do(strings.Fields(tt[0])...)); !strings.HasPrefix(got, tt[1]) {
			t.Errorf("%.60s: %s, want %s", tt[0], got, tt[1])
		}
	}
}

// RL.INFO says what is held of a key, until it is settled or its time is over.
func TestInfoShowsHolds(t *testing.T) {
	ts := withRules(t, modelRules)
	c := ts.client()
	info := func(key, want string) {
		t.Helper()
		if got := line(c.do("RL.INFO", key)); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	c.do(strings.Fields("RL.HOLD k FIXED 100/d COST 7 TTL 1m ID a")...)
	info("k", `["holds" 1 "held" 7 "algorithm" "fixed" `)
	c.do(strings.Fields("RL.HOLD k FIXED 100/d COST 5 TTL 10s ID b ONEXPIRE return")...)
	c.do(strings.Fields("RL.HOLD k FIXED 100/d COST 2 TTL 2m ID c")...)
	c.do(strings.Fields("RL.TAKE k FIXED 100/d ONCE d")...)
	info("k", `["holds" 3 "held" 14 "algorithm" "fixed" `)
	c.do(strings.Fields("RL.COMMIT k ID a COST 3")...)
	info("k", `["holds" 2 "held" 7 "algorithm" "fixed" `)
	c.steps(ts, [2]string{"+10s", ""}, [2]string{"MULTI", "OK"}, [2]string{"RL.INFO k", "QUEUED"})
	if got := line(c.do("EXEC")); !strings.HasPrefix(got, `[["holds" 1 "held" 2 "algorithm" `) {
		t.Error(got)
	}
	c.steps(ts, [2]string{"+2m", ""})
	info("k", `["algorithm" "fixed" `)
	c.steps(ts,
		[2]string{"RL.CHECK llm 2 tenant a tokens 400 HOLD 1m ID r1", `[0 10 9 -1 3600000 "requests"]`})
	if got := line(c.do(strings.Fields("RL.RULES INFO llm tokens tenant a")...)); !strings.HasPrefix(got, `["holds" 1 "held" 400 "algorithm" "fixed" `) {
		t.Error(got)
	}
}

// FLUSHALL forgets what is known of ids, also in a step, where it removes the keys one by one, and on several nodes.
func TestFlushAllForgetsIDs(t *testing.T) {
	for name, flush := range map[string][]string{
		"alone": {"FLUSHALL"}, "script": {"EVAL", "return redis.call('FLUSHALL')", "0"}, "nodes": {"FLUSHALL"}, "transaction": {"MULTI", "FLUSHALL", "EXEC"},
	} {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t)
			ts.parts.Clustered = name == "nodes"
			c := ts.client()
			c.steps(ts,
				[2]string{"RL.CANCEL nothing ID early", "0"},
				[2]string{"RL.TAKE once FIXED 10/h FIRST ONCE x FOR 1h", "[0 10 9 -1 3600000]"},
				[2]string{"RL.HOLD short FIXED 10/s FIRST TTL 1m ID a", "[0 10 9 -1 1000]"},
				[2]string{"RL.HOLD long FIXED 10/h FIRST TTL 1m ID a ONEXPIRE return", "[0 10 9 -1 3600000]"},
				[2]string{"+2s", ""},
			)
			switch name {
			case "transaction":
				for _, w := range flush {
					c.do(w)
				}
			default:
				c.do(flush...)
			}
			c.steps(ts,
				[2]string{"DBSIZE", "0"},
				[2]string{"RL.TAKE once FIXED 10/h FIRST COST 5 ONCE x FOR 1h", "[0 10 5 -1 3600000]"},
				[2]string{"RL.HOLD nothing FIXED 10/h FIRST COST 2 TTL 1m ID early", "[0 10 8 -1 3600000]"},
				[2]string{"RL.HOLD short FIXED 10/h FIRST COST 2 TTL 1m ID a", "[0 10 8 -1 3600000]"},
				[2]string{"RL.HOLD long FIXED 10/h FIRST COST 3 TTL 2m ID a ONEXPIRE return", "[0 10 7 -1 3600000]"},
				[2]string{"+61s", ""},
				[2]string{"RL.TAKE long FIXED 10/h FIRST", "[0 10 6 -1 3539000]"},
			)
			if live, _ := live(t, ts.states(), ts.clock.Now()); len(live) != 8 {
				t.Errorf("%d records", len(live))
			}
		})
	}
}

// What a step holds and then removes does not go back later.
func TestHoldThatItsStepRemoves(t *testing.T) {
	for _, remove := range []string{"DEL k", "RL.RESET k", "FLUSHALL", "RL.TAKE k GCRA 20/h COST 1 REPLACE", "INCR other"} {
		ts := newTestServer(t)
		c := ts.client()
		c.steps(ts,
			[2]string{"MULTI", "OK"},
			[2]string{"RL.HOLD k FIXED 10/h FIRST COST 4 TTL 10s ID x ONEXPIRE return", "QUEUED"},
			[2]string{remove, "QUEUED"},
			[2]string{"DEL k", "QUEUED"},
			[2]string{"RL.TAKE k FIXED 10/h FIRST COST 9", "QUEUED"},
		)
		c.do("EXEC")
		c.steps(ts,
			[2]string{"+11s", ""},
			[2]string{"RL.TAKE k FIXED 10/h FIRST", "[0 10 0 -1 3589000]"},
		)
	}
}
