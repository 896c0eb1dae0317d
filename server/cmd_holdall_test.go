package server

import (
	"strings"
	"testing"
)

// Several keys are held in one step: all or none.
func TestHoldAll(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	const a, b = "FIXED 10/h FIRST", "FIXED 20/h FIRST"
	const used = "-HELD this ID is that of another hold, or of one that is over; use a new ID for each request: "
	const noHold = "-NOHOLD nothing is known of this ID: it was never held, was settled over 30 s ago, or twice its TTL has passed: "
	c.steps(ts,
		[2]string{"RL.HOLDALL 2 a b " + a + " COST 4 " + b + " COST 15 TTL 10s ID x", "[0 -1 [0 10 6 -1 3600000] [0 20 5 -1 3600000]]"},
		// Sent again, also with other words for the same, it takes nothing.
		[2]string{"rl.holdall 2 a b fixed 10/h first cost 4 " + b + " COST 15 ONEXPIRE keep ID x TTL 10000", "[0 -1 [0 10 6 -1 3600000] [0 20 5 -1 3600000]]"},
		[2]string{"RL.HOLDALL 2 a b " + a + " COST 5 " + b + " COST 15 TTL 10s ID x", used + `"a"`},
		[2]string{"RL.HOLDALL 3 c a b " + a + " " + a + " COST 4 " + b + " COST 15 TTL 10s ID x", used + `"a"`},
		[2]string{"RL.HOLDALL 1 a " + a + " COST 4 TTL 10s ID x ONEXPIRE return", used + `"a"`},
		// What one key denies is held on none.
		[2]string{"RL.HOLDALL 2 a b " + a + " " + b + " COST 6 TTL 10s ID y", "[1 1 [0 10 6 -1 3600000] [1 20 5 3600000 3600000]]"},
		[2]string{"RL.HOLDS a", `[["x" "held" 4 10000 "FIXED 10/h FIRST"]]`},
		[2]string{"RL.HOLDS c", "[]"},
		[2]string{"EXISTS c", "0"},
		// What is known of the id on one key is held on none.
		[2]string{"RL.CANCEL b ID z", "0"},
		[2]string{"RL.HOLDALL 2 a b " + a + " " + b + " TTL 10s ID z", `-CANCELLED this ID was cancelled before it was held: "b"`},
		[2]string{"RL.COMMITALL 2 a c ID x COST 1", noHold + `"c"`},
		[2]string{"RL.COMMITALL 2 a a ID x COST 1", `-ERR a key is given twice: "a"`},
		[2]string{"RL.HOLDS a", `[["x" "held" 4 10000 "FIXED 10/h FIRST"]]`},
		[2]string{"RL.COMMITALL 2 a b COST 1 17 ID x", "[[-3 0 10 9 3600000] [2 0 20 3 3600000]]"},
		[2]string{"RL.COMMITALL 2 b a ID x COST 5", "[[2 0 20 3 3600000] [-3 0 10 9 3600000]]"},
		[2]string{"RL.CANCELALL 2 a b ID x", "[3 0]"},
		// One cost for all, the estimates, and nothing.
		[2]string{"RL.HOLDALL 2 a b " + a + " COST 2 " + b + " COST 3 TTL 10s ID 1 ONEXPIRE return", "[0 -1 [0 10 7 -1 3600000] [0 20 0 -1 3600000]]"},
		[2]string{"RL.COMMITALL 2 a b ID 1 COST 2", "[[0 0 10 7 3600000] [-1 0 20 1 3600000]]"},
		[2]string{"RL.HOLDALL 2 a b " + a + " COST 2 " + b + " TTL 10s ID 2", "[0 -1 [0 10 5 -1 3600000] [0 20 0 -1 3600000]]"},
		[2]string{"RL.COMMITALL 2 a b ID 2", "[[0 0 10 5 3600000] [0 0 20 0 3600000]]"},
		[2]string{"RL.HOLDALL 1 a " + a + " COST 2 TTL 10s ID 3", "[0 -1 [0 10 3 -1 3600000]]"},
		[2]string{"RL.CANCELALL 2 a b ID 3", "[2 0]"},
		[2]string{"RL.HOLD b " + b + " TTL 10s ID 3", "-CANCELLED this ID was cancelled before it was held"},
		// A time that is over.
		[2]string{"RL.HOLDALL 2 a b " + a + " COST 5 GCRA 1/s TTL 10s ID 4 ONEXPIRE return", "-WRONGTYPE Operation against a key holding the wrong kind of value: it holds FIXED, not GCRA; RL.RESET forgets it: \"b\""},
		[2]string{"RL.HOLDALL 2 a g " + a + " COST 5 GCRA 1/s TTL 10s ID 4 ONEXPIRE return", "[0 -1 [0 10 0 -1 3600000] [0 1 0 -1 1000]]"},
		[2]string{"+10s", ""},
		[2]string{"RL.PEEK a " + a, "[0 10 4 -1 3590000]"},
		[2]string{"RL.COMMITALL 2 a g ID 4", "[[5 0 10 0 3590000] [0 0 1 1 0]]"},
		// A charge that one limit cannot count is taken from none.
		[2]string{"RL.HOLDALL 2 p q " + a + " GCRA 1/h TTL 10s ID x", "[0 -1 [0 10 9 -1 3600000] [0 1 0 -1 3600000]]"},
		[2]string{"RL.COMMITALL 2 p q ID x COST 9223372036854775807", "-ERR out of range: period, burst and cost must stay within 292 years of nanoseconds; the hold stays, and can be committed at a lower cost: \"q\""},
		[2]string{"RL.HOLDS p", `[["x" "held" 1 10000 "FIXED 10/h FIRST"]]`},
		[2]string{"RL.PEEK p " + a, "[0 10 8 -1 3600000]"},
		// In a step with others.
		[2]string{"MULTI", "OK"},
		[2]string{"RL.HOLDALL 2 m n " + a + " " + a + " COST 2 TTL 10s ID x", "QUEUED"},
		[2]string{"RL.TAKE m " + a, "QUEUED"},
		[2]string{"RL.COMMITALL 2 m n ID x COST 3 4", "QUEUED"},
		[2]string{"RL.HOLDALL 1 m " + a + " TTL 10s ID y", "QUEUED"},
		[2]string{"RL.CANCELALL 1 m ID y", "QUEUED"},
		[2]string{"EXEC", "[[0 -1 [0 10 9 -1 3600000] [0 10 8 -1 3600000]] [0 10 8 -1 3600000] [[2 0 10 6 3600000] [2 0 10 6 3600000]] [0 -1 [0 10 5 -1 3600000]] [1]]"},
		[2]string{"COMMAND GETKEYS RL.HOLDALL 2 a b " + a + " " + b + " TTL 1s ID x", `["a" "b"]`},
		[2]string{"COMMAND GETKEYS RL.COMMITALL 2 a b ID x COST 1", `["a" "b"]`},
		[2]string{"COMMAND GETKEYS RL.CANCELALL 1 a ID x", `["a"]`},
	)
}

func TestHoldAllErrorsNameTheArgument(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, tt := range [][2]string{
		{"RL.HOLDALL 2 a b GCRA 1/s GCRA 1/s TTL 1s ONEXPIRE keep", "-ERR syntax error: RL.HOLDALL needs ID id"},
		{"RL.HOLDALL 2 a b GCRA 1/s GCRA 1/s ID x", "-ERR syntax error: RL.HOLDALL needs TTL time"},
		{"RL.HOLDALL 2 a b GCRA 1/s GCRA 1/s TTL 2h ID x", "-ERR TTL is above hold-max-ttl, 3600 s"},
		{"RL.HOLDALL 2 a b GCRA 1/s TTL 1s ID x", "-ERR 2 keys and 1 limit: give as many limits as keys"},
		{"RL.HOLDALL 1 a GCRA 1/s GCRA 1/s TTL 1s ID x", `-ERR 1 key and one more limit: give as many limits as keys: "GCRA"`},
		{"RL.HOLDALL 1 a GCRA 1/s COST 0 TTL 1s ID x", "-ERR limit 1 of 1: COST must be 1 or more: a hold takes an estimate"},
		{"RL.HOLDALL 1 a GCRA 1/s TTL 1s ID x COST 1", `-ERR unknown option "COST" for RL.HOLDALL`},
		{"RL.HOLDALL 1 a GCRA 1/s NOSUCH TTL 1s ID x", `-ERR limit 1 of 1: unknown option "NOSUCH" for GCRA`},
		{"RL.HOLDALL 1 a GCRA 1/s TTL 1s ID x ID y", "-ERR syntax error: ID is given twice"},
		{"RL.HOLDALL 2 a a GCRA 1/s GCRA 1/s TTL 1s ID x", `-ERR a key is given twice: "a"`},
		{"RL.HOLDALL 200 a a GCRA 1/s GCRA 1/s TTL 1s ID x", "-ERR numkeys must be an integer from 1 to 128"},
		{"RL.COMMITALL 3 a b c ID x COST 1 2", "-ERR 3 keys and 2 costs: give one cost for all keys, or one for each"},
		{"RL.COMMITALL 1 a ID x COST 1 2", "-ERR 1 key and 2 costs: give one cost for all keys, or one for each"},
		{"RL.COMMITALL 1 a ID x COST -1", "-ERR COST is negative"},
		{"RL.COMMITALL 1 a ID x COST x", "-ERR COST must be an integer"},
		{"RL.COMMITALL 1 a ID x COST", "-ERR syntax error: a value is missing after \"COST\""},
		{"RL.COMMITALL 1 a ID x ID y", "-ERR syntax error: ID is given twice"},
		{"RL.COMMITALL 1 a COST 1", "-ERR syntax error: RL.COMMITALL needs ID id"},
		{"RL.COMMITALL 1 a ID x MORE", `-ERR unknown option "MORE" for RL.COMMITALL`},
		{"RL.CANCELALL 1 a ID x COST 1", `-ERR syntax error: nothing follows ID id: "COST"`},
		{"RL.CANCELALL 1 a ID " + strings.Repeat("x", 129), "-ERR ID must have 1 to 128 bytes: "},
		{"RL.CANCELALL 2 a ID x", `-ERR `},
	} {
		if got := line(c.do(strings.Fields(tt[0])...)); !strings.HasPrefix(got, tt[1]) {
			t.Errorf("%.70s: %s, want %s", tt[0], got, tt[1])
		}
	}
	if got := line(c.do("DBSIZE")); got != "0" {
		t.Errorf("%s keys", got)
	}
}
