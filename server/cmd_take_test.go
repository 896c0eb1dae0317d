package server

import (
	"bytes"
	"strings"
	"testing"

	"limitdb/limit"
	"limitdb/server/request"
	"limitdb/server/spec"
)

func TestTakePeekRefund(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.PEEK k GCRA 5/m", "[0 5 4 -1 12000]"}, // as RL.TAKE would
		[2]string{"RL.PEEK k GCRA 5/m COST 0", "[0 5 5 -1 0]"},
		[2]string{"EXISTS k", "0"},
		[2]string{"RL.TAKE k GCRA 5/m COST 3", "[0 5 2 -1 36000]"},
		[2]string{"rl.take k gcra 5 60000 burst 5", "[0 5 1 -1 48000]"},
		[2]string{"RL.TAKE k COST", "-" + ts.table.find([]byte("RL.TAKE")).WrongArity()},
		[2]string{"RL.TAKE k GCRA 5/m COST 2", "[1 5 1 12000 48000]"},
		[2]string{"RL.PEEK k GCRA 5/m COST 2", "[1 5 1 12000 48000]"},
		[2]string{"RL.TAKE k GCRA 5/m COST 6", "[1 5 1 -1 48000]"},
		[2]string{"RL.TAKE k GCRA 5/m COST 0", "[0 5 1 -1 48000]"},
		[2]string{"+12s", ""},
		[2]string{"RL.TAKE k COST 2 GCRA 5/m", "-ERR unknown algorithm: \"COST\"; there are GCRA, TOKEN, LEAKY, QUEUE, WARMUP, FIXED, SLIDING, SEGMENTED, LOG"},
		[2]string{"RL.TAKE k GCRA 5/m COST 2", "[0 5 0 -1 60000]"},
		[2]string{"RL.REFUND k GCRA 5/m COST 2", "[0 5 2 -1 36000]"},
		[2]string{"RL.REFUND k GCRA 5/m COST 50", "[0 5 5 -1 0]"},
		[2]string{"EXISTS k", "0"},
		[2]string{"RL.TAKE none GCRA 0 60000", "[1 0 0 -1 0]"},
		[2]string{"CL.THROTTLE shared 4 5 60", "[0 5 4 -1 12]"},
		[2]string{"RL.TAKE shared GCRA 5/m", "[0 5 3 -1 24000]"},
		[2]string{"GCRA shared 4 5 60", "[0 5 2 -1 36]"},
		[2]string{"GCRA shared 4 5 60.0 TOKENS 2", "[0 5 0 -1 60]"},
		[2]string{"GCRA shared 4 5 6e1 NUM_REQUESTS 1", "[1 5 0 12 60]"},
		[2]string{"RL.RESET shared k nobody", "1"},
	)
}

// The server's clock begins at 2020-09-13 12:26:40 UTC, a Sunday.
func TestTakeFixed(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.TAKE k FIXED 2/m", "[0 2 1 -1 20000]"},
		[2]string{"RL.TAKE k fixed 2 60000 COST 2", "[1 2 1 20000 20000]"},
		[2]string{"RL.TAKE k fixed 2/m countdenied COST 2", "[1 2 0 20000 20000]"},
		[2]string{"RL.PEEK k FIXED 9/m", "[0 9 5 -1 20000]"},
		[2]string{"RL.TAKE k GCRA 2/m", "-" + request.WrongType(limit.FIXED.Kind(), limit.GCRA.Kind())},
		[2]string{"TYPE k", "fixed"},
		[2]string{"RL.REFUND k FIXED 2/m COST 2", "[0 2 1 -1 20000]"},
		[2]string{"RL.REFUND k FIXED 2/m COST 2", "[0 2 2 -1 0]"},
		[2]string{"EXISTS k", "0"},
		[2]string{"RL.TAKE first FIXED 2/m FIRST", "[0 2 1 -1 60000]"},
		[2]string{"RL.TAKE day FIXED 2 CALENDAR day", "[0 2 1 -1 41600000]"},
		[2]string{"RL.TAKE berlin FIXED 2 CALENDAR day TZ Europe/Berlin", "[0 2 1 -1 34400000]"},
		[2]string{"RL.TAKE berlin FIXED 2 CALENDAR day TZ Europe/Berlin", "[0 2 0 -1 34400000]"},
		[2]string{"RL.TAKE berlin FIXED 2 CALENDAR day TZ Asia/Kolkata", "[1 2 0 21800000 21800000]"},
		[2]string{"RL.TAKE kolkata FIXED 2 CALENDAR day TZ Asia/Kolkata", "[0 2 1 -1 21800000]"},
		[2]string{"RL.TAKE week FIXED 2 CALENDAR week TZ Europe/Berlin", "[0 2 1 -1 34400000]"},
		[2]string{"+20s", ""},
		[2]string{"RL.TAKE k FIXED 2/m COST 2", "[0 2 0 -1 60000]"},
	)
}

// The clock begins 40 s into a minute, and later is 30 s into the next.
func TestTakeSliding(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.TAKE k SLIDING 8/m COST 8", "[0 8 0 -1 80000]"},
		[2]string{"RL.TAKE k SLIDING 8/m", "[1 8 0 27500 80000]"},
		[2]string{"+50s", ""},
		[2]string{"RL.PEEK k SLIDING 8/m COST 0", "[0 8 4 -1 30000]"},
		[2]string{"RL.TAKE k sliding 8 60000 COUNTDENIED COST 5", "[1 8 0 54000 90000]"},
		[2]string{"TYPE k", "sliding"},
		[2]string{"RL.TAKE k FIXED 8/m", "-" + request.WrongType(limit.SLIDING.Kind(), limit.FIXED.Kind())},
	)
	if got := line(c.do("RL.INFO", "k")); !strings.HasPrefix(got, `["algorithm" "sliding" "state" 1600000140000000000 "level" 9 "resets_in" 90000 "memory" `) {
		t.Errorf("got %s", got)
	}
}

func TestTakeSegmented(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.TAKE k SEGMENTED 4/3s SEGMENTS 3 COST 3", "[0 4 1 -1 3000]"},
		[2]string{"+1s", ""},
		[2]string{"RL.TAKE k segmented 4 3000 segments 3", "[0 4 0 -1 3000]"},
		[2]string{"RL.TAKE k SEGMENTED 4/3s SEGMENTS 3", "[1 4 0 2000 3000]"},
		[2]string{"RL.REFUND k SEGMENTED 4/3s SEGMENTS 3 COST 2", "[0 4 2 -1 2000]"},
		[2]string{"TYPE k", "segmented"},
		[2]string{"RL.TAKE k SLIDING 4/3s", "-" + request.WrongType(limit.SEGMENTED.Kind(), limit.SLIDING.Kind())},
	)
	if got := line(c.do("RL.INFO", "k")); !strings.HasPrefix(got, `["algorithm" "segmented" "state" 1600000003000000000 "level" 2 "resets_in" 2000 "memory" `) {
		t.Errorf("got %s", got)
	}
}

// A time zone is loaded once for all clients, so limits that name it are equal.
func TestZonesAreKept(t *testing.T) {
	srv := newTestServer(t).Server
	words := bytes.Fields([]byte("FIXED 9 CALENDAR day TZ Asia/Tokyo"))
	var a, b request.Args
	for _, args := range []*request.Args{&a, &b} {
		if n, text := request.ParseLimit(&srv.parts.Zones, words, 0, args); n != len(words) || text != "" {
			t.Fatal(n, text)
		}
	}
	if a.Limit.Zone == nil || a.Limit != b.Limit {
		t.Errorf("the zones are loaded twice: %p and %p", a.Limit.Zone, b.Limit.Zone)
	}
}

func TestLimitErrorsNameTheArgument(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, test := range []struct{ in, names string }{
		{"RL.TAKE k NOSUCH 5/m", `"NOSUCH"`},
		{"RL.TAKE k GCRA x 60000", `"x"`},
		{"RL.TAKE k GCRA 5 10q", `"10q"`},
		{"RL.TAKE k GCRA -1 60000", `"-1"`},
		{"RL.TAKE k GCRA 5/m BURST", "BURST"},
		{"RL.TAKE k GCRA 5/m BURST x", `"x"`},
		{"RL.TAKE k GCRA 5/m BURST 0", `"0"`},
		{"RL.TAKE k GCRA 5/m BURST 5 BURST 6", "BURST"},
		{"RL.TAKE k GCRA 5/m COST -1", "COST"},
		{"RL.TAKE k GCRA 5/m COST x", `"x"`},
		{"RL.TAKE k GCRA 5/m COST 1 COST 2", "COST"},
		{"RL.TAKE k GCRA 5/m COST", "COST"},
		{"RL.TAKE k GCRA 5/m SEGMENTS 3", `"SEGMENTS"`},
		{"RL.TAKE k SEGMENTED 5/m", "SEGMENTS"},
		{"RL.TAKE k SEGMENTED 5/m SEGMENTS 1", `"1"`},
		{"RL.TAKE k SEGMENTED 5/m SEGMENTS", `"SEGMENTS"`},
		{"RL.TAKE k SLIDING 5/100y", `"100y"`},
		{"RL.TAKE k SLIDING 5/40000d", "at most 30 years"},
		{"RL.TAKE k FIXED 5/m BURST 3", `"BURST"`},
		{"RL.TAKE k FIXED 5 CALENDAR", `"CALENDAR"`},
		{"RL.TAKE k FIXED 5 CALENDAR era", `"era"`},
		{"RL.TAKE k FIXED 5 CALENDAR day TZ", `"TZ"`},
		{"RL.TAKE k FIXED 5 CALENDAR day TZ Mars/Olympus", `unknown time zone: "Mars/Olympus"`},
		{"RL.TAKE k FIXED 5/m TZ Europe/Berlin", `"TZ"`},
		{"RL.TAKE k FIXED 5 CALENDAR day FIRST", `"FIRST"`},
		{"RL.TAKE k GCRA 5/m PARTIAL PARTIAL", "PARTIAL"},
		{"RL.TAKE k GCRA 5/m MAXWAIT 3", `"MAXWAIT"`},
		{"RL.RESERVE k GCRA 5/m PARTIAL", `"PARTIAL"`},
		{"RL.RESERVE k FIXED 5/m", "FIXED does not reserve: only GCRA, TOKEN, WARMUP and QUEUE can be reserved"},
		{"RL.RESERVE k GCRA 5/m MAXWAIT", "MAXWAIT"},
		{"RL.RESERVE k GCRA 5/m MAXWAIT 1 maxwait 1", "MAXWAIT"},
		{"RL.RESERVE k GCRA 5/m MAXWAIT -1", `MAXWAIT: a time must be 0 or more milliseconds, or have a unit (ms s m h d w): "-1"`},
		{"RL.RESERVE k GCRA 5/m MAXWAIT 99999999w", `"99999999w"`},
		{"RL.RESERVE k GCRA 5/m COST 9223372036854775807", "range"},
		{"GCRA k 1 0 1", "rate"},
		{"GCRA k -1 1 1", "max_burst"},
		{"GCRA k 1 1 0", "period"},
		{"GCRA k 1 1 1e12", "period"},
		{"GCRA k 1 1 nan", "period"},
		{"GCRA k 1 1 1 TOKENS 0", "TOKENS"},
		{"GCRA k 1 1 1 NOSUCH 1", "syntax"},
	} {
		got := line(c.do(strings.Fields(test.in)...))
		if !strings.HasPrefix(got, "-ERR ") || !strings.Contains(strings.ToLower(got), strings.ToLower(test.names)) {
			t.Errorf("%s: %s, should name %s", test.in, got, test.names)
		}
	}
	if got := line(c.do("DBSIZE")); got != "0" {
		t.Errorf("errors left %s keys", got)
	}
}

func TestTakePartial(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.TAKE k GCRA 5/m COST 3 PARTIAL", "[0 5 2 -1 36000 3]"},
		[2]string{"RL.TAKE k partial GCRA 5/m", "-ERR unknown algorithm: \"partial\"; there are GCRA, TOKEN, LEAKY, QUEUE, WARMUP, FIXED, SLIDING, SEGMENTED, LOG"},
		[2]string{"RL.TAKE k GCRA 5/m partial cost 9", "[0 5 0 -1 60000 2]"},
		[2]string{"RL.TAKE k GCRA 5/m COST 9 PARTIAL", "[1 5 0 12000 60000 0]"},
		[2]string{"+11999ms", ""},
		[2]string{"RL.TAKE k GCRA 5/m PARTIAL", "[1 5 0 1 48001 0]"},
		[2]string{"+1ms", ""},
		[2]string{"RL.TAKE k GCRA 5/m COST 9 PARTIAL", "[0 5 0 -1 60000 1]"},
		[2]string{"RL.TAKE k GCRA 5/m COST 0 PARTIAL", "[0 5 0 -1 60000 0]"},
		[2]string{"RL.TAKE k GCRA 0/m PARTIAL", "[1 0 0 -1 60000 0]"},
		[2]string{"RL.PEEK k GCRA 5/m PARTIAL", "-ERR unknown option \"PARTIAL\" for GCRA"},
	)
}

func TestReserve(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"RL.RESERVE k GCRA 5/s COST 10", "[0 5 0 -1 2000]"},
		[2]string{"RL.RESERVE k GCRA 5/s MAXWAIT 999", "[1 5 0 1 2000]"},
		[2]string{"RL.RESERVE k GCRA 5/s MAXWAIT 0", "[1 5 0 1000 2000]"},
		[2]string{"RL.TAKE k GCRA 5/s", "[1 5 0 1200 2000]"},
		[2]string{"rl.reserve k gcra 5/s maxwait 1s", "[0 5 0 1000 2200]"},
		[2]string{"RL.RESERVE k GCRA 5/s COST 5", "[0 5 0 1200 3200]"},
		[2]string{"+3200ms", ""},
		[2]string{"RL.RESERVE k GCRA 5/s COST 0", "[0 5 5 -1 0]"},
		[2]string{"RL.RESERVE none GCRA 0/s", "[1 0 0 -1 0]"},
		[2]string{"DBSIZE", "0"},
	)
}

func TestRLInfo(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	if got := line(c.do("RL.INFO", "k")); got != "nil" {
		t.Errorf("absent: %s", got)
	}
	c.do("RL.TAKE", "k", "GCRA", "5/m")
	got := line(c.do("RL.INFO", "k"))
	if !strings.HasPrefix(got, `["algorithm" "gcra" "state" 1600000012000000000 "level" 12000000000 "resets_in" 12000 "memory" `) {
		t.Errorf("got %s", got)
	}
}

// REPLACE starts anew only if the key holds a state of another family.
func TestTakeReplace(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	ask := func(want string, words ...string) {
		t.Helper()
		if got := line(c.do(words...)); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", words, got, want)
		}
	}
	c.do("RL.TAKE", "k", "FIXED", "5/h", "COST", "3")
	ask("-"+spec.ErrWrongType, "RL.TAKE", "k", "LOG", "5/h")
	ask("[0 5 1 -1 ", "RL.TAKE", "k", "FIXED", "5/h", "REPLACE")
	ask("[0 5 4 -1 ", "RL.TAKE", "k", "LOG", "5/h", "replace")
	ask("[0 5 0 -1 3600000 5]", "RL.TAKE", "k", "GCRA", "5/h", "COST", "9", "PARTIAL", "REPLACE")
	ask("[0 5 3 -1 ", "RL.TAKE", "k", "LOG", "5/h", "COST", "2", "REPLACE", "WAIT", "1s")
	ask("-ERR syntax error: REPLACE is given twice", "RL.TAKE", "k", "LOG", "5/h", "REPLACE", "REPLACE")
	ask("-ERR unknown option", "RL.PEEK", "k", "LOG", "5/h", "REPLACE")
}
