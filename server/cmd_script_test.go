package server

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/script"
	"limitdb/server/scripts"
	"limitdb/server/spec"
)

// eval runs a script with one key and returns the reply on one line.
func (c *testClient) eval(source string, words ...string) string {
	c.t.Helper()
	return line(c.do(append([]string{"EVAL", source}, words...)...))
}

func TestScripts(t *testing.T) {
	c := newTestServer(t).client()
	for _, tt := range [][]string{
		{"return redis.call('SET', KEYS[1], ARGV[1])", "1 k v", "OK"},
		{"return {redis.call('GET', KEYS[1]), redis.call('TTL', KEYS[1]), redis.call('TYPE', 'cell').ok}", "1 k", `["v" -1 "none"]`},
		{"return redis.call('CL.THROTTLE', KEYS[1], 1, 2, 60)", "1 cell", "[0 2 1 -1 30]"},
		{"return redis.call('RL.TAKE', 'undeclared', 'GCRA', '5/m')", "0", "[0 5 4 -1 12000]"},
		{"redis.call('INCR', 'n') redis.call('EXPIRE', 'n', 10) return redis.call('PTTL', 'n')", "0", "10000"},
		{"redis.call('SET', 'kept', 1) return redis.call('INCR', 'cell')", "0", "-WRONGTYPE Operation against a key holding the wrong kind of value: it holds GCRA"},
		{"return redis.call('GET', 'kept')", "0", `"1"`},
		{"return redis.pcall('INCR', 'cell').err", "0", `"WRONGTYPE`},
		{"local t = redis.call('TIME') return t[1]", "0", `"1600000000"`},
		{"return redis.call('WAIT', 1, 1000)", "0", "0"},
		{"return redis.call('KEYS', 'k*')", "0", `["`},
		{"return #redis.call('SCAN', 0, 'TYPE', 'string')[2]", "0", "3"},
		{"redis.call('SET', 'k9', 1) redis.call('DEL', 'k') return {redis.call('DBSIZE'), redis.call('EXISTS', 'k', 'k9')}", "0", "[5 1]"},
		{"for _, k in ipairs(redis.call('KEYS', 'k*')) do redis.call('DEL', k) end return redis.call('DBSIZE')", "0", "3"},
		{"redis.call('FLUSHALL') redis.call('SET', 'only', 1) return redis.call('KEYS', '*')", "0", `["only"]`},
		{"return redis.call('RANDOMKEY')", "0", `"only"`},
		{"return redis.call('NOSUCH')", "0", "-ERR Unknown Redis command called from script"},
		{"return redis.call('GET')", "0", "-ERR Wrong number of args calling Redis command from script"},
		{"return redis.call('MULTI')", "0", "-ERR This Redis command is not allowed from script"},
		{"return redis.call('SUBSCRIBE', 'a')", "0", "-ERR This Redis command is not allowed from script"},
		{"return redis.call('INFO')", "0", "-ERR This Redis command is not allowed from script"},
		{"return redis.call('EVAL', 'return 1', 0)", "0", "-ERR This Redis command is not allowed from script"},
		{"return redis.sha1hex('')", "0", `"da39a3ee5e6b4b0d3255bfef95601890afd80709"`},
		{"this is not lua", "0", "-ERR Error compiling script"},
		{"return 1", "x", "-" + spec.ErrNotInt},
		{"return 1", "2 a", "-ERR Number of keys can't be greater than number of args"},
		{"return 1", "-1", "-ERR Number of keys can't be negative"},
	} {
		if got := c.eval(tt[0], strings.Fields(tt[1])...); !strings.HasPrefix(got, tt[2]) {
			t.Errorf("%s\n got %s\nwant %s", tt[0], got, tt[2])
		}
	}
	for _, call := range []string{"'SET', 'a', 1", "'PUBLISH', 'news', 'x'"} {
		if got := line(c.do("EVAL_RO", "return redis.call("+call+")", "0")); !strings.HasPrefix(got, "-ERR Write commands are not allowed from read-only scripts.") {
			t.Errorf("%s: %s", call, got)
		}
	}
	if got := line(c.do("EVAL_RO", "return redis.call('GET', 'only')", "0")); got != `"1"` {
		t.Error(got)
	}
}

// A client's script cannot change what the scripts of other clients call.
func TestScriptsOfOthersStay(t *testing.T) {
	ts := newTestServer(t)
	attacker, victim := ts.client(), ts.client()
	for _, eval := range []string{"EVAL", "EVAL_RO"} {
		for _, module := range []string{"redis", "math", "string", "cjson", "_G"} {
			got := line(attacker.do(eval, "setmetatable({}, {__newindex = "+module+"}).call = function() return 0 end", "0"))
			if !strings.Contains(got, "Attempt to modify a readonly table") {
				t.Errorf("%s of %s: %s", eval, module, got)
			}
		}
		if got := victim.eval("return {redis.call('INCRBY', KEYS[1], 2), type(math.call), type(string.call)}", "1", "a"+eval); got != `[2 "nil" "nil"]` {
			t.Error(got)
		}
	}
}

// The commands that a script runs count as those that clients send, once even if the script begins again for a key that it has
// not named.
func TestCommandsOfScriptsAreCounted(t *testing.T) {
	c := newTestServer(t).client()
	c.eval("redis.call('SET', KEYS[1], 1) for i = 1, 3 do redis.call('GET', KEYS[1]) end redis.pcall('HGET', KEYS[1], 'x') redis.call('GET', 'undeclared')", "1", "a")
	c.do("MULTI")
	c.do("EVAL", "return redis.call('GET', KEYS[1])", "1", "a")
	c.do("EXEC")
	c.eval("redis.call('SET', KEYS[1], 1) while true do redis.call('INCR', KEYS[1]) local s = string.rep('x', 1e7) end", "1", "a")
	got := c.do("INFO", "commandstats").Text
	for _, want := range []string{"set:calls=2,", "get:calls=5,", "hget:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1", "eval:calls=3,"} {
		if !strings.Contains(got, "cmdstat_"+want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// What a step counts, it counts once, even if it begins again for a key that a script has not named; and also if it is not stored.
func TestAStepCountsOnce(t *testing.T) {
	const nine = "for _, w in ipairs({'GET', 'STRLEN', 'TTL', 'PTTL', 'TYPE', 'EXISTS', 'INCR', 'DECR', 'PERSIST'}) do redis.call(w, KEYS[1]) end "
	for _, tt := range []struct {
		name   string
		steps  [][]string
		counts []string // lines of INFO
	}{
		{
			"a script that begins again",
			[][]string{{"EVAL", nine + "redis.pcall('HGET', KEYS[1], 'x') return redis.call('GET', 'undeclared')", "1", "k"}},
			[]string{"cmdstat_get:calls=2,", "cmdstat_type:calls=1,", "cmdstat_hget:calls=1,", "errorstat_WRONGTYPE:count=1\r", "total_error_replies:1\r"},
		},
		{
			"EXEC that begins again after a script",
			[][]string{
				{"SET", "k", "v"},
				{"MULTI"},
				{"HGET", "k", "x"},
				{"EVAL", "redis.pcall('INCR', KEYS[1]) return redis.call('STRLEN', KEYS[1])", "1", "k"},
				{"EVAL", "return redis.call('TYPE', 'undeclared')", "0"},
				{"EXEC"},
			},
			[]string{"cmdstat_hget:calls=1,", "cmdstat_incr:calls=1,", "cmdstat_strlen:calls=1,", "cmdstat_type:calls=1,", "cmdstat_eval:calls=2,", "errorstat_ERR:count=1\r", "errorstat_WRONGTYPE:count=1\r", "total_error_replies:2\r"},
		},
		{
			"a script that the server ends",
			[][]string{{"EVAL", "redis.call('SET', KEYS[1], 'v') redis.pcall('INCR', KEYS[1]) while true do end", "1", "k"}},
			[]string{"cmdstat_set:calls=1,", "cmdstat_incr:calls=1,", "errorstat_ERR:count=2\r", "total_error_replies:2\r"},
		},
		{
			"errors one after the other",
			[][]string{{"SET", "k", "v"}, {"INCR", "k"}, {"HGET", "k", "x"}, {"INCR", "k"}},
			[]string{"cmdstat_incr:calls=2,", "errorstat_ERR:count=2\r", "errorstat_WRONGTYPE:count=1\r", "total_error_replies:3\r"},
		},
	} {
		ts := newTestServer(t)
		ts.bounds.Steps = 10_000
		c := ts.client()
		for _, words := range tt.steps {
			c.do(words...)
		}
		got := c.do("INFO", "everything").Text
		for _, want := range tt.counts {
			if !strings.Contains(got, "\n"+want) {
				t.Errorf("%s: no %q in %s", tt.name, want, got)
			}
		}
	}
}

func TestScriptCache(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	const one = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db" // return 1
	for _, step := range [][2]string{
		{"EVALSHA " + one + " 0", "-NOSCRIPT No matching script. Please use EVAL."},
		{"EVAL return\x001 0", "1"},
		{"EVALSHA " + strings.ToUpper(one) + " 0", "1"},
		{"EVALSHA_RO " + one + " 0", "1"},
		{"SCRIPT EXISTS " + one + " abc", "[1 0]"},
		{"SCRIPT FLUSH", "OK"},
		{"SCRIPT EXISTS " + one, "[0]"},
		{"SCRIPT LOAD return\x001", `"` + one + `"`},
		{"SCRIPT LOAD return\x00(", "-ERR Error compiling script"},
		{"SCRIPT KILL", "-NOTBUSY No scripts in execution right now."},
		{"CONFIG SET scripts known", "OK"},
		{"EVALSHA " + one + " 0", "-" + errUnknownScript},
		{"SCRIPT LOAD return\x002", "-" + errUnknownScript},
		{"CONFIG SET scripts no", "OK"},
		{"EVAL return\x001 0", "-ERR scripts are turned off by the directive scripts"},
	} {
		words := strings.Fields(step[0])
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "\x00", " ")
		}
		if got := line(c.do(words...)); !strings.HasPrefix(got, step[1]) {
			t.Errorf("%q: %s, not %s", step[0], got, step[1])
		}
	}
	c.do("CONFIG", "SET", "scripts", "yes")
	for i := range scripts.MaxScripts + 100 {
		c.eval("return "+strconv.Itoa(i), "0")
	}
	memory := c.do("INFO", "memory").Text
	if !strings.Contains(memory, "number_of_cached_scripts:1000\r\n") || strings.Contains(memory, "used_memory_scripts:0\r\n") {
		t.Error(memory)
	}
	if n, _, _ := ts.scripts.Sizes(); n != scripts.MaxScripts {
		t.Errorf("%d scripts are cached", n)
	}
}

// A script that is stopped leaves no changes, alone or in a transaction.
func TestScriptThatIsEnded(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	const endless = "redis.call('SET', 'a', 1) while true do end"
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() { // the housekeeper, with a clock that has gone on
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				ts.scripts.Expire(testStart + 1)
			}
		}
	}()
	for _, undeclared := range []string{"", "redis.call('GET', 'x') "} {
		if got := c.eval(undeclared+endless, "1", "a"); got != "-ERR Script ended: it has run for longer than script-time-limit" {
			t.Error(got)
		}
	}
	c.do("MULTI")
	c.do("SET", "b", "1")
	c.do("EVAL", endless, "1", "a")
	if got := line(c.do("EXEC")); !strings.HasPrefix(got, "-ERR Script ended") {
		t.Error(got)
	}
	close(stop)
	<-ended
	if got := line(c.do("EXISTS", "a", "b")); got != "0" {
		t.Errorf("%s keys are left", got)
	}
	if got := c.eval("redis.call('SET', 'a', 1) local s = 'x' while true do s = s .. s end", "1", "a"); got != "-ERR "+script.ErrMemory.Error() {
		t.Error(got)
	}
	if got := line(c.do("EXISTS", "a")); got != "0" {
		t.Error("the script left a key")
	}
}

// A client whose script has taken long lets the others go first with its next command.
func TestLongScriptsTakeTurns(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	go func() {
		for n := 0; n == 0; _, _, n = ts.scripts.Sizes() {
			runtime.Gosched()
		}
		ts.clock.Advance(time.Second)
		ts.scripts.Kill()
	}()
	if got := c.eval("while true do end", "0"); !strings.HasPrefix(got, "-ERR Script killed") {
		t.Fatal(got)
	}
	if got := c.raw("PING\r\n"); got != "" || c.conn.yields != 1 {
		t.Errorf("it did not wait: %q", got)
	}
	c.s.Resume()
	if got := string(c.conn.take()); got != "+PONG\r\n" {
		t.Errorf("in its turn: %q", got)
	}
	if got := c.raw("PING\r\n"); got != "+PONG\r\n" || c.conn.yields != 1 {
		t.Errorf("once more: %q", got)
	}
}

// MONITOR shows what a script calls behind the script, once even if the script begins again.
func TestMonitorShowsCommandsOfScripts(t *testing.T) {
	ts := newTestServer(t)
	m, c := ts.client(), ts.client()
	m.do("MONITOR")
	from := func(who, words string) string { return "+1600000000.000000 [0 " + who + "] " + words + "\r\n" }
	const script = "redis.call('set', KEYS[1], 'v') return redis.call('GET', 'other')"
	calls := from("lua", `"set" "k" "v"`) + from("lua", `"GET" "other"`)
	eval := from("127.0.0.1:40000", `"EVAL" "`+script+`" "1" "k"`)
	c.do("EVAL", script, "1", "k")
	if got := string(m.conn.take()); got != eval+calls {
		t.Errorf("%q, not %q", got, eval+calls)
	}
	c.do("PING")
	if got, want := string(m.conn.take()), from("127.0.0.1:40000", `"PING"`); got != want {
		t.Errorf("the next command: %q, not %q", got, want)
	}
	c.do("EVAL", "for i = 1, 10000 do redis.call('ECHO', ('x'):rep(100)) end", "0")
	if got := m.conn.take(); len(got) < maxCalled || len(got) > 2*maxCalled {
		t.Errorf("%d bytes of a script that calls much", len(got))
	}
	c.do("MULTI")
	c.do("EVAL", script, "1", "k")
	c.do("INCR", "n")
	m.conn.take()
	c.do("EXEC")
	if got, want := string(m.conn.take()), eval+calls+from("127.0.0.1:40000", `"INCR" "n"`); !strings.HasPrefix(got, want) {
		t.Errorf("in EXEC: %q, not %q", got, want)
	}
}

// Scripts work in a transaction, and see its writes.
func TestScriptInMulti(t *testing.T) {
	c := newTestServer(t).client()
	for _, words := range [][]string{{"MULTI"}, {"SET", "a", "1"}, {"EVAL", "return redis.call('INCR', KEYS[1])", "1", "a"}, {"EVAL", "return redis.call('GET', 'a')", "0"}, {"DBSIZE"}, {"KEYS", "*"}, {"FLUSHALL"}, {"GET", "a"}} {
		c.do(words...)
	}
	if got := line(c.do("EXEC")); got != `[OK 2 "2" 1 ["a"] OK nil]` {
		t.Error(got)
	}
}
