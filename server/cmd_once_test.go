package server

import (
	"strings"
	"testing"
	"time"
)

const usedID = "-IDUSED this ID is that of another request; use a new ID for each request, and the same only to send it again"

// A request that is sent again under its id counts once; a denial is decided anew.
func TestOnce(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 4 ONCE a", "[0 10 6 -1 3600000]"},
		[2]string{"+10s", ""},
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 4 ONCE a", "[0 10 6 -1 3590000]"},
		[2]string{"rl.take k fixed 10/h once a for 5s cost 4 first", "[0 10 6 -1 3590000]"}, // in any order, also for another time
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 5 ONCE a", usedID},
		[2]string{"RL.TAKE k FIXED 20/h FIRST COST 4 ONCE a", usedID},
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 4 PARTIAL ONCE a", usedID},
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 7 ONCE b", "[1 10 6 3590000 3590000]"},
		[2]string{"RL.REFUND k FIXED 10/h FIRST COST 1", "[0 10 7 -1 3590000]"},
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 7 ONCE b", "[0 10 0 -1 3590000]"}, // the denial left no id
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 7 ONCE b", "[0 10 0 -1 3590000]"},
		[2]string{"RL.TAKE k FIXED 10/h FIRST ONCE c", "[1 10 0 3590000 3590000]"},
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 0 ONCE d", "[0 10 0 -1 3590000]"}, // nor does what takes nothing
		[2]string{"RL.HOLDS k", `[["a" "once" 4 50000 ""] ["b" "once" 7 60000 ""]]`},
		[2]string{"RL.HOLD k FIXED 10/h FIRST TTL 1s ID a", usedID},
		[2]string{"RL.COMMIT k ID a", usedID},
		[2]string{"RL.CANCEL k ID a", usedID},
		[2]string{"RL.TAKE other FIXED 10/h FIRST COST 4 ONCE a", "[0 10 6 -1 3600000]"}, // an id is one of its key
		// After a reset, and until the time is over.
		[2]string{"RL.RESET k", "1"},
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 4 ONCE a", "[0 10 10 -1 0]"},
		[2]string{"+50s", ""},
		[2]string{"RL.HOLDS k", `[["b" "once" 7 10000 ""]]`},
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 5 ONCE a FOR 1h", "[0 10 5 -1 3600000]"},
		[2]string{"+1h", ""},
		[2]string{"RL.TAKE k FIXED 10/h FIRST COST 6 ONCE a", "[0 10 4 -1 3600000]"},
		// The id of a hold is that of another request.
		[2]string{"RL.HOLD h FIXED 10/h FIRST TTL 1m ID a", "[0 10 9 -1 3600000]"},
		[2]string{"RL.TAKE h FIXED 10/h FIRST ONCE a", usedID},
		// A part is granted again as it was.
		[2]string{"RL.TAKE p FIXED 10/h FIRST COST 30 PARTIAL ONCE a", "[0 10 0 -1 3600000 10]"},
		[2]string{"RL.TAKE p FIXED 10/h FIRST COST 30 PARTIAL ONCE a", "[0 10 0 -1 3600000 10]"},
		// What goes ahead later still waits for its turn.
		[2]string{"RL.RESERVE r GCRA 10/s COST 25 ONCE a", "[0 10 0 -1 2500]"},
		[2]string{"RL.RESERVE r GCRA 10/s ONCE b", "[0 10 0 1500 2600]"},
		[2]string{"+500ms", ""},
		[2]string{"RL.RESERVE r GCRA 10/s ONCE b", "[0 10 0 1000 2100]"},
		[2]string{"RL.TAKE r GCRA 10/s ONCE b", usedID},
		[2]string{"+2s", ""},
		[2]string{"RL.RESERVE r GCRA 10/s ONCE b MAXWAIT 1s", "[0 10 9 -1 100]"},
		// A key that starts afresh.
		[2]string{"RL.TAKE p GCRA 10/s ONCE b", "-WRONGTYPE Operation against a key holding the wrong kind of value: it holds FIXED, not GCRA; RL.RESET forgets it"},
		[2]string{"RL.TAKE p GCRA 10/s REPLACE ONCE b", "[0 10 9 -1 100]"},
		[2]string{"RL.TAKE p GCRA 10/s REPLACE ONCE b", "[0 10 9 -1 100]"},
		[2]string{"FLUSHALL", "OK"},
		[2]string{"RL.TAKE p GCRA 10/s ONCE b", "[0 10 9 -1 100]"},
		[2]string{"RL.TAKE p GCRA 10/s", "[0 10 8 -1 200]"},
	)
	if info := line(c.do("INFO", "stats")); !strings.Contains(info, "once_repeated:8") {
		t.Errorf("INFO lacks once_repeated: %s", info)
	}
}

// In EXEC, in a script, and in a pipeline.
func TestOnceInSteps(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"MULTI", "OK"},
		[2]string{"RL.TAKE a FIXED 10/h FIRST ONCE x", "QUEUED"},
		[2]string{"RL.TAKE a FIXED 10/h FIRST ONCE x", "QUEUED"},
		[2]string{"RL.TAKE b FIXED 10/h FIRST ONCE x", "QUEUED"},
		[2]string{"RL.TAKE a FIXED 10/h FIRST ONCE y", "QUEUED"},
		[2]string{"EXEC", "[[0 10 9 -1 3600000] [0 10 9 -1 3600000] [0 10 9 -1 3600000] [0 10 8 -1 3600000]]"},
	)
	if got := line(c.do("EVAL", "return redis.call('RL.TAKE', KEYS[1], 'FIXED', '10/h', 'FIRST', 'ONCE', 'x')", "1", "a")); got != "[0 10 8 -1 3600000]" {
		t.Error(got)
	}
}

// A request that waits counts once, whichever of its copies is granted first, and a copy of one that was granted waits for nobody.
func TestOnceWaits(t *testing.T) {
	ts := newTestServer(t)
	c, one, two := ts.client(), ts.client(), ts.client()
	c.steps(ts, [2]string{"RL.TAKE k GCRA 10/s COST 10 ONCE first", "[0 10 0 -1 1000]"})
	one.expect("one", one.say("RL.TAKE k GCRA 10/s COST 3 ONCE a WAIT 1m"), "")
	two.expect("two", two.say("RL.TAKE k GCRA 10/s COST 3 ONCE a WAIT 1m"), "")
	c.steps(ts, [2]string{"RL.TAKE k GCRA 10/s COST 10 ONCE first", "[0 10 0 -1 1000]"})
	ts.pass(300 * time.Millisecond)
	one.expect("one", one.woken(), "[0 10 0 -1 1000]")
	two.expect("two", two.woken(), "[0 10 0 -1 1000]")
}

func TestOnceErrorsNameTheArgument(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	long := strings.Repeat("x", 129)
	for _, tt := range [][2]string{
		{"RL.TAKE k FIXED 10/h ONCE", "-ERR syntax error: a value is missing after \"ONCE\""},
		{"RL.TAKE k FIXED 10/h ONCE a FOR", "-ERR syntax error: a value is missing after \"FOR\""},
		{"RL.TAKE k FIXED 10/h ONCE a ONCE b", "-ERR syntax error: ONCE is given twice"},
		{"RL.TAKE k FIXED 10/h ONCE " + long, "-ERR ID must have 1 to 128 bytes: "},
		{"RL.TAKE k FIXED 10/h ONCE a FOR 0", `-ERR FOR must be above 0 and at most 1 hour: "0"`},
		{"RL.TAKE k FIXED 10/h ONCE a FOR 61m", `-ERR FOR must be above 0 and at most 1 hour: "61m"`},
		{"RL.TAKE k FIXED 10/h ONCE a FOR x", "-ERR FOR: "},
		{"RL.TAKE k FIXED 10/h FOR 1m ONCE a", `-ERR unknown option "FOR" for FIXED`},
		{"RL.PEEK k FIXED 10/h ONCE a", `-ERR unknown option "ONCE" for FIXED`},
		{"RL.REFUND k FIXED 10/h ONCE a", `-ERR unknown option "ONCE" for FIXED`},
	} {
		if got := line(c.do(strings.Fields(tt[0])...)); !strings.HasPrefix(got, tt[1]) {
			t.Errorf("%.60s: %s, want %s", tt[0], got, tt[1])
		}
	}
}

// RL.TAKEALL counts once as a whole: the first key has the id.
func TestOnceTakeAll(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	const all = "RL.TAKEALL 2 a b FIXED 10/h FIRST COST 4 FIXED 5/h FIRST ONCE x"
	c.steps(ts,
		[2]string{all + " FOR 10s", "[0 -1 [0 10 6 -1 3600000] [0 5 4 -1 3600000]]"},
		[2]string{"RL.TAKE b FIXED 5/h FIRST COST 4", "[0 5 0 -1 3600000]"},
		[2]string{all, "[0 -1 [0 10 6 -1 3600000] [0 5 0 -1 3600000]]"},
		[2]string{"RL.TAKEALL 2 a b FIXED 10/h FIRST COST 3 FIXED 5/h FIRST ONCE x", usedID},
		[2]string{"RL.TAKEALL 2 a c FIXED 10/h FIRST COST 4 FIXED 5/h FIRST ONCE x", usedID},
		[2]string{"RL.TAKEALL 1 a FIXED 10/h FIRST COST 4 ONCE x", usedID},
		[2]string{"RL.TAKE a FIXED 10/h FIRST COST 4 ONCE x", usedID},
		[2]string{"RL.HOLDS a", `[["x" "once" 4 10000 ""]]`},
		[2]string{"RL.HOLDS b", "[]"},
		[2]string{"RL.RESET b", "1"},
		[2]string{all, "[0 -1 [0 10 6 -1 3600000] [0 5 5 -1 0]]"},
		[2]string{"+10s", ""},
		[2]string{all, "[0 -1 [0 10 2 -1 3590000] [0 5 4 -1 3600000]]"},
		[2]string{"RL.TAKEALL 2 b a FIXED 5/h FIRST FIXED 10/h FIRST COST 4 ONCE y", "[1 1 [0 5 4 -1 3600000] [1 10 2 3590000 3590000]]"},
		[2]string{"RL.HOLDS b", "[]"},
		[2]string{"RL.TAKEALL 2 a b FIXED 10/h ONCE x FIXED 5/h", `-ERR limit 1 of 2: unknown option "ONCE" for FIXED`},
		[2]string{"MULTI", "OK"},
		[2]string{"RL.TAKEALL 2 e f FIXED 10/h FIRST FIXED 5/h FIRST ONCE x", "QUEUED"},
		[2]string{"RL.TAKEALL 2 e f FIXED 10/h FIRST FIXED 5/h FIRST ONCE x", "QUEUED"},
		[2]string{"EXEC", "[[0 -1 [0 10 9 -1 3600000] [0 5 4 -1 3600000]] [0 -1 [0 10 9 -1 3600000] [0 5 4 -1 3600000]]]"},
	)
}

// A check counts once by its namespace, its fields and its cost, whatever the rules say by now.
func TestOnceCheck(t *testing.T) {
	ts := withRules(t, waitRules)
	c := ts.client()
	const user = "RL.CHECK shop 2 user u path /x ONCE x"
	c.steps(ts,
		[2]string{user, `[0 1 0 -1 1000 "user"]`},
		[2]string{"RL.CHECK shop 2 path /x user u ONCE x FOR 10s", `[0 1 0 -1 1000 "user"]`}, // fields in any order
		[2]string{"RL.CHECK shop 2 user u path /x COST 0", `[0 1 0 -1 1000 "user"]`},
		[2]string{"RL.CHECK shop 2 user u path /y ONCE x", usedID},
		[2]string{"RL.CHECK shop 2 user path u /x ONCE x", usedID},
		[2]string{"RL.CHECK shop 2 user u path /x COST 2 ONCE x", usedID},
		[2]string{"RL.CHECK shop 1 user u ONCE x", usedID},
		[2]string{"RL.CHECK shop 2 user u path /x ONCE y", `[1 1 0 1000 1000 "user"]`},
		[2]string{"+1s", ""},
		[2]string{user + " EXPLAIN", `[0 1 1 -1 0 "user" [["all" "enforce" "GCRA 10/s BURST 2" 1 [0 2 2 -1 0]] ["user" "enforce" "GCRA 1/s" 1 [0 1 1 -1 0]] ["trial" "shadow" "GCRA 1/h" 1 [0 1 0 -1 3599000]]]]`},
		[2]string{"RL.CHECK shop 2 user u path /x ONCE y", `[0 1 0 -1 1000 "user"]`},
		[2]string{"RL.CHECK shop 2 user free path /x ONCE z", `[0 2 0 -1 200 "all"]`},
		[2]string{"RL.CHECK shop 1 user u ONCE x PEEK", "-ERR syntax error: ONCE is for a check that takes"},
		[2]string{"RL.CHECK shop 1 user u REFUND ONCE x", "-ERR syntax error: ONCE is for a check that takes"},
		[2]string{"+1s", ""},
		[2]string{"MULTI", "OK"},
		[2]string{"RL.CHECK shop 1 user m ONCE m", "QUEUED"},
		[2]string{"RL.CHECK shop 1 user m ONCE m", "QUEUED"},
		[2]string{"EXEC", `[[0 1 0 -1 1000 "user"] [0 1 0 -1 1000 "user"]]`},
	)
	if _, err := ts.rules.Load([]byte("version: 1\nnamespaces:\n  shop:\n    - {name: path, key: [path], limit: 5/s}\n    - {name: user, key: [user], limit: 1/s}\n")); err != nil {
		t.Fatal(err)
	}
	c.steps(ts,
		[2]string{user, `[0 1 1 -1 0 "user"]`},
		[2]string{"RL.CHECK shop 2 user u path /x COST 0", `[0 1 1 -1 0 "user"]`},
		[2]string{"RL.CHECK shop 1 path /x COST 0", `[0 5 5 -1 0 "path"]`},
		[2]string{"+58s", ""},
		[2]string{user, `[0 1 0 -1 1000 "user"]`}, // the time is over
		[2]string{"RL.CHECK shop 1 path /x COST 0", `[0 5 4 -1 200 "path"]`},
		[2]string{"KEYS *once*", "[]"},
	)
}

// A check that waits counts once, whichever of its copies is granted first.
func TestOnceCheckWaits(t *testing.T) {
	ts := withRules(t, waitRules)
	c, one, two := ts.client(), ts.client(), ts.client()
	c.steps(ts, [2]string{"RL.CHECK shop 1 user u", `[0 1 0 -1 1000 "user"]`})
	one.expect("one", one.say("RL.CHECK shop 1 user u WAIT 1m ONCE a"), "")
	two.expect("two", two.say("RL.CHECK shop 1 user u WAIT 1m ONCE a"), "")
	ts.pass(time.Second)
	one.expect("one", one.woken(), `[0 1 0 -1 1000 "user"]`)
	two.expect("two", two.woken(), `[0 1 0 -1 1000 "user"]`)
	c.steps(ts, [2]string{"RL.CHECK shop 1 user u ONCE a", `[0 1 0 -1 1000 "user"]`})
}
