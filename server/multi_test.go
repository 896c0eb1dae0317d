package server

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/limit"
	"limitdb/server/spec"
)

func TestMulti(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"EXEC", "-ERR EXEC without MULTI"},
		[2]string{"DISCARD", "-ERR DISCARD without MULTI"},
		[2]string{"MULTI", "OK"},
		[2]string{"MULTI", "-ERR MULTI calls can not be nested"},
		[2]string{"SET a 1", "QUEUED"},
		[2]string{"WATCH a", "-ERR WATCH inside MULTI is not allowed"},
		[2]string{"INCR a", "QUEUED"},
		[2]string{"PING", "QUEUED"},
		[2]string{"WAIT 1 1000", "QUEUED"},
		[2]string{"CL.THROTTLE cell 1 2 60", "QUEUED"},
		[2]string{"RL.TAKE k FIXED 2/m COST 5 PARTIAL", "QUEUED"},
		[2]string{"RL.TAKE k FIXED 2/m WAIT 1h", "QUEUED"},
		[2]string{"RL.TAKEALL 2 x y GCRA 5/m GCRA 5/m", "QUEUED"},
		[2]string{"RL.LEASE jobs 1 30s ID me", "QUEUED"},
		[2]string{"RL.RELEASE jobs ID me", "QUEUED"},
		[2]string{"HSET a f v", "QUEUED"},
		[2]string{"DEL a k", "QUEUED"},
		[2]string{"EXISTS a", "QUEUED"},
		[2]string{"EXEC", `[OK 2 PONG 0 [0 2 1 -1 30] [0 2 0 -1 20000 2] [1 2 0 20000 20000] [0 -1 [0 5 4 -1 12000] [0 5 4 -1 12000]] ` +
			`[0 1 0 -1 30000] 1 -WRONGTYPE Operation against a key holding the wrong kind of value 2 0]`},
		[2]string{"EXEC", "-ERR EXEC without MULTI"},
		[2]string{"RL.PEEK x GCRA 5/m COST 0", "[0 5 4 -1 12000]"},
		[2]string{"MULTI", "OK"},
		[2]string{"SET a 1", "QUEUED"},
		[2]string{"DISCARD", "OK"},
		[2]string{"GET a", "nil"},
		[2]string{"MULTI", "OK"},
		[2]string{"EXEC", "[]"},
	)
}

// INFO counts the commands of a transaction, whether they have to do with keys or not, and their errors.
func TestMultiIsCounted(t *testing.T) {
	c := newTestServer(t).client()
	for _, words := range []string{"SET a x", "MULTI", "INCR a", "INCR b", "PING", "CONFIG GET nosuch", "EXEC"} {
		c.do(strings.Fields(words)...)
	}
	got := c.do("INFO", "commandstats").Text
	for _, want := range []string{"cmdstat_incr:calls=2,", "rejected_calls=0,failed_calls=1", "cmdstat_ping:calls=1,", "cmdstat_exec:calls=1,", "cmdstat_config|get:calls=1,"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// A command that cannot be queued makes EXEC run none.
func TestMultiBreaks(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, bad := range []string{"NOSUCH", "GET", "RL.TOP", "SHUTDOWN", "DEBUG SLEEP 1", "SAVE"} {
		c.do("MULTI")
		c.do("SET", "a", "1")
		if got := line(c.do(strings.Fields(bad)...)); got[0] != '-' {
			t.Errorf("%s: %s", bad, got)
		}
		if got := line(c.do("EXEC")); got != "-EXECABORT Transaction discarded because of previous errors." {
			t.Errorf("%s: EXEC: %s", bad, got)
		}
		if got := line(c.do("GET", "a")); got != "nil" {
			t.Errorf("%s: a is %s", bad, got)
		}
	}
	c.do("MULTI")
	for range 20 {
		if v := c.do("SET", "a", strings.Repeat("x", 60<<10)); v.Kind == '-' {
			if got := line(c.do("EXEC")); !strings.HasPrefix(got, "-EXECABORT") || c.s.pub.MultiMemory.Load() != 0 {
				t.Errorf("EXEC: %s", got)
			}
			return
		}
	}
	t.Error("the queue has no bound")
}

func TestWatch(t *testing.T) {
	ts := newTestServer(t)
	a, b := ts.client(), ts.client()
	for _, tt := range []struct {
		before, change string
		runs           bool
	}{
		{"SET k 1", "", true},
		{"SET k 1", "SET other 1", true},
		{"SET k 1", "GET k", true},
		{"SET k 1", "SET k 1", false},
		{"SET k 1", "INCRBY k 0", false},
		{"DEL k", "DEL k", true},
		{"DEL k", "SET k 1", false},
		{"SET k 1", "DEL k", false},
		{"SET k 1", "FLUSHALL", false},
		{"DEL k", "FLUSHALL", true},
		{"SET k 1 PX 100", "+50ms", true},
		{"SET k 1 PX 100", "+100ms", false},
		{"SET k 1 EX 100", "PERSIST k", false},
		{"HSET k f v", "HSET k f v", false},
		{"HSET k f v", "HDEL k g", true},
		{"RPUSH k v", "LTRIM k 0 -1", false},
		{"CL.THROTTLE k 1 1 60", "CL.THROTTLE k 1 1 60", false},
		{"CL.THROTTLE k 1 1 60", "CL.THROTTLE k 1 1 60 9", true}, // denied
		{"SET k 1", "RENAME k other", false},
		{"SET k 1", "COPY k other REPLACE", true},
	} {
		a.do("DEL", "k", "other")
		a.do(strings.Fields(tt.before)...)
		a.do("WATCH", "k")
		a.do("MULTI")
		a.do("SET", "done", "1")
		if tt.change != "" {
			if strings.HasPrefix(tt.change, "+") {
				b.steps(ts, [2]string{tt.change}) // time passes
			} else {
				b.do(strings.Fields(tt.change)...)
			}
		}
		if got := line(a.do("EXEC")); (got == "[OK]") != tt.runs || got != "[OK]" && got != "nil" {
			t.Errorf("%s, %s: %s", tt.before, tt.change, got)
		}
	}
	a.steps(ts,
		[2]string{"WATCH k", "OK"}, [2]string{"SET k 2", "OK"}, [2]string{"UNWATCH", "OK"}, [2]string{"MULTI", "OK"}, [2]string{"GET k", "QUEUED"}, [2]string{"EXEC", `["2"]`},
		[2]string{"WATCH k", "OK"}, [2]string{"SET k 3", "OK"}, [2]string{"MULTI", "OK"}, [2]string{"GET k", "QUEUED"}, [2]string{"EXEC", "nil"},
		[2]string{"MULTI", "OK"}, [2]string{"GET k", "QUEUED"}, [2]string{"EXEC", `["3"]`}, // EXEC forgets what was watched
	)
}

// An EXEC that finds no room replies with that error and changes nothing.
func TestExecWithoutRoom(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("SET", "counter", "1")
	ts.engine.SetMaxMemory(1, 0)
	c.steps(ts,
		[2]string{"MULTI", "OK"}, [2]string{"INCR counter", "QUEUED"}, [2]string{"SET new 1", "QUEUED"},
		[2]string{"EXEC", "-" + spec.ErrOOM}, [2]string{"GET counter", `"1"`})
}

// A denial in a transaction or a script counts under COUNTDENIED.
func TestCountDeniedInMulti(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	const take = "RL.TAKE %s LOG 1/m COUNTDENIED"
	words := func(key string) []string { return strings.Fields(fmt.Sprintf(take, key)) }
	script := "return redis.call('RL.TAKE', KEYS[1], 'LOG', '1/m', 'COUNTDENIED')"
	for range 2 { // the second is denied
		c.do(words("alone")...)
		c.do("MULTI")
		c.do(words("multi")...)
		c.do("EXEC")
		c.do("EVAL", script, "1", "script")
		ts.clock.Advance(40 * time.Second)
	}
	// The first request has left the window; the denial has not.
	want := line(c.do(words("alone")...))
	c.do("MULTI")
	c.do(words("multi")...)
	if got := line(c.do("EXEC")); got != "["+want+"]" {
		t.Errorf("EXEC: %s, want %s", got, want)
	}
	if got := line(c.do("EVAL", script, "1", "script")); got != want || !strings.HasPrefix(got, "[1 ") {
		t.Errorf("EVAL: %s, want %s", got, want)
	}
}

// TestExecIsBounded checks that the replies of EXEC are bounded by the client's output limit, and its time by that of
// a script.
func TestExecIsBounded(t *testing.T) {
	ts := newTestServer(t, "client-output-buffer-limit 1mb")
	c := ts.client()
	c.do("SET", "long", strings.Repeat("x", 60_000))
	const tooLong = "-ERR the reply would be over client-output-buffer-limit or 512 MB"
	queue := func(n int, words ...string) string {
		t.Helper()
		c.do("MULTI")
		c.do("INCR", "n")
		for range n {
			if got := line(c.do(words...)); got != "QUEUED" {
				t.Fatalf("%q: %s", words, got)
			}
		}
		return line(c.do("EXEC"))
	}
	long := []string{"MGET"}
	for range 18 {
		long = append(long, "long")
	}
	if got := line(c.do(long...)); got != tooLong {
		t.Errorf("MGET: %.100s", got)
	}
	c.do("HSET", "hash", "long", strings.Repeat("x", 60_000))
	fields := append([]string{"HMGET", "hash"}, long[1:]...)
	if got := line(c.do(fields...)); got != tooLong {
		t.Errorf("HMGET: %.100s", got)
	}
	if got := queue(18, "GET", "long"); got != tooLong {
		t.Errorf("GET in EXEC: %.100s", got)
	}
	if got := queue(1, long...); got != tooLong {
		t.Errorf("MGET in EXEC: %.100s", got)
	}
	if got := line(c.do("EVAL", "redis.call('INCR', 'n') return #redis.call('MGET', "+strings.Repeat("'long',", 18)+"'n')", "0")); !strings.Contains(got, tooLong[5:]) {
		t.Errorf("MGET in EVAL: %.100s", got)
	}
	if got := line(c.do("GET", "n")); got != "nil" {
		t.Errorf("a transaction that was ended has counted: %s", got)
	}
	if got := line(c.do(long[:17]...)); strings.Count(got, "x") != 16*60_000 {
		t.Errorf("16 strings: %.100s", got)
	}

	ts.Server.clock = &tiring{Fake: ts.clock, step: 20 * time.Millisecond} // script-time-limit is 1 s
	for words, want := range map[string]string{
		"DBSIZE":           "-ERR the transaction has ended: it has run for longer than script-time-limit",
		"KEYS x":           "-ERR the transaction has ended: it has run for longer than script-time-limit",
		"EVAL return{} 0":  "-ERR the transaction has ended: it has run for longer than script-time-limit",
		"PING":             "[1 PONG",
		"LRANGE list 0 -1": "-ERR the transaction has ended: it has run for longer than script-time-limit",
	} {
		c.do("DEL", "n")
		if got := queue(100, strings.Fields(words)...); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %.200s", words, got)
		} else if words == "PING" && !strings.HasSuffix(got, " -ERR ping has not run: the transaction was over script-time-limit, or its replies over client-output-buffer-limit]") {
			t.Errorf("PING: %s", got)
		}
	}
	if got := queue(1000, "GET", "n"); got[0] != '-' {
		t.Errorf("1000 GETs: %.200s", got)
	}
}

// A FLUSHALL that is too large for a transaction ends with the first key too many.
func TestFlushInExecIsBounded(t *testing.T) {
	ts := newTestServer(t)
	const keys = 3 * engine.MaxTxn
	hourly, d := limit.Limit{Algorithm: limit.GCRA, Max: 1, Burst: 1, Period: int64(time.Hour)}, limit.Decision{}
	for i := range keys {
		if err := ts.engine.TakeAt(0, testStart, strconv.AppendInt(nil, int64(i), 10), &hourly, 1, &d); err != nil {
			t.Fatal(err)
		}
	}
	c := ts.client()
	var before, after runtime.MemStats
	c.do("MULTI")
	c.do("FLUSHALL")
	runtime.ReadMemStats(&before)
	if got := line(c.do("EXEC")); !strings.HasPrefix(got, "-ERR a transaction or script takes up to 16384 keys") {
		t.Error(got)
	}
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > keys/2 {
		t.Errorf("%d allocations", n)
	}
	if got := line(c.do("DBSIZE")); got != strconv.Itoa(keys) {
		t.Errorf("%s keys are left", got)
	}
}

// Each command of a transaction counts with its own time, also in the slow log.
func TestExecTimesItsCommands(t *testing.T) {
	ts := newTestServer(t, "slowlog-log-slower-than 5000")
	c := ts.client()
	c.do("MULTI")
	for _, words := range []string{"SET k v", "GET k", "PING", "LLEN k"} {
		c.do(strings.Fields(words)...)
	}
	ts.Server.clock = &tiring{Fake: ts.clock, step: 8 * time.Millisecond}
	c.do("EXEC")
	ts.Server.clock = ts.clock
	got := c.do("INFO", "commandstats").Text
	for _, want := range []string{"set:calls=1,usec=8000,", "get:calls=1,usec=8000,", "ping:calls=1,usec=8000,", "llen:calls=1,usec=8000,"} {
		if !strings.Contains(got, "cmdstat_"+want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if got := line(c.do("SLOWLOG", "GET")); !strings.Contains(got, `["GET" "k"]`) || !strings.Contains(got, `["EXEC"]`) {
		t.Errorf("the slow log: %s", got)
	}
}

// CLIENT LIST shows what MULTI and WATCH have begun, and MONITOR the commands of a transaction when they run.
func TestMultiIsShown(t *testing.T) {
	ts := newTestServer(t)
	c, m := ts.client(), ts.client()
	m.do("MONITOR")
	shows := func(want string) {
		t.Helper()
		got := string(c.s.pub.AppendLine(nil, 0))
		for _, field := range strings.Fields(want) {
			if !strings.Contains(got, " "+field+" ") {
				t.Errorf("no %s in %s", field, got)
			}
		}
	}
	shows("flags=N multi=-1 watch=0 multi-mem=0")
	c.do("WATCH", "a", "b")
	shows("flags=N multi=-1 watch=2")
	c.do("MULTI")
	shows("flags=x multi=0 watch=2")
	c.do("SET", "k", "v")
	shows("flags=x multi=1 watch=2")
	m.conn.take()
	c.do("PING")
	shows("flags=x multi=2 watch=2")
	writes := m.conn.writes
	c.do("EXEC")
	if n := m.conn.writes - writes; n != 2 { // one for all commands of the transaction, so that a turn ends in time
		t.Errorf("%d writes to the monitor", n)
	}
	shows("flags=N multi=-1 watch=0 multi-mem=0")
	got := ""
	for _, line := range strings.Split(strings.TrimSpace(string(m.conn.take())), "\r\n") {
		got += line[strings.Index(line, "]")+1:]
	}
	if want := ` "SET" "k" "v" "PING" "EXEC"`; got != want {
		t.Errorf("MONITOR shows %s, want %s", got, want)
	}
	c.do("WATCH", "a")
	c.do("UNWATCH")
	shows("flags=N multi=-1 watch=0 multi-mem=0")
}

// tiring is a clock that advances whenever it is read.
type tiring struct {
	*clock.Fake
	step time.Duration
}

func (c *tiring) Now() int64 {
	c.Advance(c.step)
	return c.Fake.Now()
}
