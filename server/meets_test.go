package server

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"limitdb/limit"
	"limitdb/script"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// kinds returns a command that makes a key of each kind, and the kind's name.
func kinds() map[string]string {
	of := map[string]string{
		"SET K 5": "string", "SET K text": "string", "RPUSH K a b": "list", "SADD K a": "set", "HSET K f v": "hash", "ZADD K 1 m": "zset",
		"RL.LEASE K 2 30s ID me": "lease",
	}
	for _, a := range limit.Algorithms() {
		options := ""
		if a == limit.SEGMENTED {
			options = " SEGMENTS 6"
		}
		of["RL.TAKE K "+a.String()+" 5/m"+options] = strings.ToLower(a.String())
	}
	return of
}

// mutators are commands that would forget, lengthen or double a quota. K is the key.
const mutators = `SET K 1;SET K 1 KEEPTTL GET;SETEX K 5 1;PSETEX K 5 1;GETSET K 1;GETDEL K;GETEX K EX 5;MSET a 1 K 1;APPEND K 1;SETRANGE K 0 x;INCR K;DECRBY K 2;INCRBYFLOAT K 1;INCREX K;
EXPIRE K 1000;PEXPIRE K 1;EXPIREAT K 1;PEXPIREAT K 1;EXPIRE K 1 GT;PERSIST K;RENAME K other;RENAMENX K other;COPY K other;RENAME s K;COPY s K REPLACE;
ZADD K 1 m;ZREMRANGEBYRANK K 0 -1;HSET K f v;HDEL K f;LPUSH K v;LTRIM K 1 0;LPOP K;SADD K m;SREM K m`

func splitCommands(list, key string) (out [][]string) {
	for _, command := range strings.Split(list, ";") {
		words := strings.Fields(command)
		for i, w := range words {
			if w == "K" {
				words[i] = key
			}
		}
		out = append(out, words)
	}
	return out
}

// Every command that describes a key knows every kind. No command that changes values changes a limit or a lease, alone, in a
// transaction or in a script.
func TestKeysOfEveryKind(t *testing.T) {
	for create, name := range kinds() {
		ts := newTestServer(t)
		c := ts.client()
		c.do("SET", "s", "1")
		if got := c.do(strings.Fields(strings.Replace(create, " K ", " key ", 1))...); got.Err() != nil {
			t.Fatalf("%s: %v", create, got.Err())
		}
		c.steps(ts, [2]string{"TYPE key", name}, [2]string{"EXISTS key", "1"}, [2]string{"OBJECT REFCOUNT key", "1"})
		if name != "string" {
			c.steps(ts, [2]string{"SCAN 0 TYPE " + name + " COUNT 1000000", `["0" ["key"]]`})
		}
		if got := line(c.do("OBJECT", "ENCODING", "key")); got == "nil" || got[0] == '-' {
			t.Errorf("%s: OBJECT ENCODING: %s", create, got)
		}
		if got := c.do("MEMORY", "USAGE", "key").Int; got < 5 {
			t.Errorf("%s: MEMORY USAGE: %d", create, got)
		}
		value := strings.Contains("string list set hash zset", name)
		state := func() string {
			if value {
				return heldBy(c, "key")
			}
			return line(c.do("RL.INFO", "key")) + line(c.do("PTTL", "key"))
		}
		before := state()
		for _, words := range splitCommands(mutators, "key") {
			if value {
				break
			}
			if got := line(c.do(words...)); !strings.HasPrefix(got, "-WRONGTYPE") {
				t.Errorf("%s, %q: %s", create, words, got)
			}
			c.do("MULTI")
			c.do(words...)
			if got := line(c.do("EXEC")); !strings.HasPrefix(got, "[-WRONGTYPE") {
				t.Errorf("%s, %q in a transaction: %s", create, words, got)
			}
			if got := c.eval("return redis.call(unpack(ARGV))", append([]string{"1", "key"}, words...)...); !strings.HasPrefix(got, "-WRONGTYPE") {
				t.Errorf("%s, %q in a script: %s", create, words, got)
			}
		}
		if after := state(); after != before {
			t.Errorf("%s: changed %s to %s", create, before, after)
		}
		c.steps(ts, [2]string{"EXISTS other a", "0"}, [2]string{"DEL key", "1"}, [2]string{"TYPE key", "none"})
	}
}

// A key that has expired is absent for every command, even before it is swept.
func TestExpiredKeys(t *testing.T) {
	steps := [][2]string{
		{"TYPE K", "none"},
		{"EXISTS K", "0"},
		{"TTL K", "-2"},
		{"PEXPIRETIME K", "-2"},
		{"GET K", "nil"},
		{"GETDEL K", "nil"},
		{"EXPIRE K 100", "0"},
		{"PERSIST K", "0"},
		{"RENAME K other", "-ERR no such key"},
		{"COPY K other", "0"},
		{"OBJECT ENCODING K", "nil"},
		{"MEMORY USAGE K", "nil"},
		{"SCAN 0 COUNT 1000000", `["0" []]`},
		{"KEYS *", "[]"},
		{"DEL K", "0"},
		{"RANDOMKEY", "nil"},
		{"TOUCH K", "0"},
		{"STRLEN K", "0"},
		{"LLEN K", "0"},
		{"ZCARD K", "0"},
		{"SMEMBERS K", "[]"},
		{"HGETALL K", "[]"},
		{"RL.INFO K", "nil"},
		{"RL.HOLDERS K", "[]"},
		{"SET K 1", "OK"},
		{"SETNX K 1", "1"},
		{"INCR K", "1"},
		{"APPEND K ab", "2"},
		{"LPUSH K a", "1"},
		{"SADD K a", "1"},
		{"ZADD K 1 a", "1"},
		{"HSET K f v", "1"},
		{"RL.TAKE K GCRA 5/m", "[0 5 4 -1 12000]"},
		{"RL.TAKE K LOG 5/m", "[0 5 4 -1 60000]"},
		{"RL.LEASE K 1 1s ID you", "[0 1 0 -1 1000]"},
	}
	for create, name := range kinds() {
		ts := newTestServer(t)
		c := ts.client()
		for i := range steps {
			key := fmt.Sprint("key", i)
			c.do(splitCommands(create, key)[0]...)
			if strings.Contains("string list set hash zset", name) {
				c.do("PEXPIRE", key, "1000")
			}
		}
		ts.clock.Advance(time.Hour)
		for i, tt := range steps {
			if got := line(c.do(splitCommands(tt[0], fmt.Sprint("key", i))[0]...)); got != tt[1] {
				t.Errorf("%s, %s: %s, want %s", create, tt[0], got, tt[1])
			}
		}
	}
}

// Commands on values change a key for which a client waits.
func TestValuesAtWaiters(t *testing.T) {
	for _, tt := range []struct{ take, wait, granted string }{
		{"RL.TAKE key GCRA 1/m", "RL.TAKE key GCRA 1/m WAIT 1h", "[0 1 0 -1 60000]"},
		{"RL.TAKE key LOG 1/m", "RL.TAKE key LOG 1/m WAIT 1h", "[0 1 0 -1 60000]"},
		{"RL.TAKE key QUEUE 1/m BURST 5", "RL.TAKE key QUEUE 1/m BURST 5 WAIT 1h", "[0 6 5 -1 60000]"},
		{"RL.LEASE key 1 1m ID a", "RL.LEASE key 1 1m ID b WAIT 1h", "[0 1 0 -1 60000]"},
	} {
		ts := newTestServer(t)
		waiter, c := ts.client(), ts.client()
		c.do("SET", "s", "1")
		c.do(strings.Fields(tt.take)...)
		if got := waiter.say(tt.wait); got != "" {
			t.Fatalf("%s does not wait: %s", tt.wait, got)
		}
		for _, words := range splitCommands(mutators, "key") {
			if got := line(c.do(words...)); !strings.HasPrefix(got, "-WRONGTYPE") {
				t.Errorf("%s, %q: %s", tt.wait, words, got)
			}
			if got := waiter.woken(); got != "" {
				t.Fatalf("%s, %q: the waiter gets %s", tt.wait, words, got)
			}
		}
		ts.pass(time.Minute)
		if got := waiter.woken(); got != tt.granted {
			t.Errorf("%s: %s, want %s", tt.wait, got, tt.granted)
		}
	}
	// A value that replaces the limit ends the wait, whichever command stores it.
	for _, change := range []string{"DEL key;SET key 1", "DEL key;RENAME s key", "RL.RESET key;COPY s key", "FLUSHALL;HSET key f v"} {
		ts := newTestServer(t)
		waiter, c := ts.client(), ts.client()
		c.do("SET", "s", "1")
		c.do("RL.TAKE", "key", "GCRA", "1/m")
		if got := waiter.say("RL.TAKE key GCRA 1/m WAIT 1h"); got != "" {
			t.Fatal(got)
		}
		c.do("MULTI")
		for _, words := range splitCommands(change, "key") {
			if got := line(c.do(words...)); got != "QUEUED" {
				t.Errorf("%q: %s", words, got)
			}
		}
		if got := c.do("EXEC"); got.Err() != nil {
			t.Errorf("%s: %v", change, got.Err())
		}
		ts.engine.Wake(ts.clock.Now())
		if got := waiter.woken(); !strings.HasPrefix(got, "-WRONGTYPE") {
			t.Errorf("%s: the waiter gets %q", change, got)
		}
	}
}

// Every command on the keys of limits and leases can run in a transaction, in a script, and in a script in a
// transaction. No request waits there.
func TestLimitsInTransactionsAndScripts(t *testing.T) {
	const call = "return redis.call(unpack(ARGV))"
	for _, tt := range [][2]string{
		{"RL.TAKE full GCRA 1/m WAIT 1h", "[1 1 0 60000 60000]"},
		{"RL.TAKE k FIXED 5/m FIRST COST 2", "[0 5 3 -1 60000]"},
		{"RL.PEEK full GCRA 1/m", "[1 1 0 60000 60000]"},
		{"RL.RESERVE full GCRA 1/m MAXWAIT 2m", "[0 1 0 -1 120000]"},
		{"RL.REFUND full GCRA 1/m", "[0 1 1 -1 0]"},
		{"RL.RESET full", "1"},
		{"RL.TAKEALL 2 k full GCRA 5/m GCRA 1/m", "[1 1 [0 5 5 -1 0] [1 1 0 60000 60000]]"},
		{"RL.TAKE q QUEUE 1/m BURST 5 WAIT 1h", "[0 6 5 -1 60000]"},
		{"RL.LEASE held 1 1m ID me WAIT 1h", "[1 1 0 60000 60000]"},
		{"RL.LEASE jobs 1 1m ID me", "[0 1 0 -1 60000]"},
		{"RL.RENEW held ID you 2m", "1"},
		{"RL.RELEASE held ID you", "1"},
		{"RL.HOLDERS held", `[["you" 1 60000]]`},
		{"CL.THROTTLE k 1 1 60", "[0 2 1 -1 60]"},
		{"GCRA k 1 1 60", "[0 2 1 -1 60]"},
		{"WAIT 1 1000", "0"},
	} {
		words := strings.Fields(tt[0])
		for way, do := range map[string]func(c *testClient){
			"MULTI": func(c *testClient) { c.do("MULTI"); c.do(words...) },
			"alone": func(*testClient) {},
			"EVAL":  func(c *testClient) { c.do("MULTI"); c.do(append([]string{"EVAL", call, "0"}, words...)...) },
		} {
			ts := newTestServer(t)
			c := ts.client()
			c.do("RL.TAKE", "full", "GCRA", "1/m")
			c.do("RL.LEASE", "held", "1", "1m", "ID", "you")
			do(c)
			if way == "alone" {
				if !strings.Contains(tt[0], "WAIT 1h") {
					c.expect(tt[0], line(c.do(words...)), tt[1])
				}
				continue
			}
			if got := line(c.do("EXEC")); got != "["+tt[1]+"]" {
				t.Errorf("%s in %s: %s, want [%s]", tt[0], way, got, tt[1])
			}
		}
	}
	for _, cmd := range newTestServer(t).table.rows {
		if strings.HasPrefix(cmd.Name, "RL.") && cmd.HasKeys() && !cmd.InStep() {
			t.Errorf("%s cannot be in a transaction", cmd.Name)
		}
	}
}

// The errors for commands that a transaction or a script may not run are Redis'.
func TestNotInTransactionsAndScripts(t *testing.T) {
	c := newTestServer(t).client()
	for _, command := range []string{"SHUTDOWN NOSAVE", "SAVE", "DEBUG SLEEP 0"} {
		c.do("MULTI")
		if got := line(c.do(strings.Fields(command)...)); got != "-ERR Command not allowed inside a transaction" {
			t.Errorf("%s: %s", command, got)
		}
		if got := line(c.do("EXEC")); !strings.HasPrefix(got, "-EXECABORT") {
			t.Errorf("%s: EXEC: %s", command, got)
		}
	}
	c.do("MULTI")
	c.do("MONITOR")
	c.do("SET", "a", "1")
	if got, want := line(c.do("EXEC")), "[-ERR MONITOR isn't allowed for DENY BLOCKING client OK]"; got != want {
		t.Errorf("EXEC: %s, want %s", got, want)
	}
	for _, command := range []string{
		"SUBSCRIBE a", "UNSUBSCRIBE", "PSUBSCRIBE a", "SSUBSCRIBE a", "MONITOR", "SHUTDOWN", "MULTI", "EXEC", "DISCARD", "WATCH a", "UNWATCH", "EVAL x 0", "EVALSHA x 0", "SCRIPT FLUSH", "CONFIG GET x",
		"CLIENT ID", "DEBUG SLEEP 0", "SAVE", "BGSAVE", "AUTH x", "HELLO", "RESET", "QUIT", "INFO", "WAITAOF 0 0 0",
	} {
		if got := c.eval("return redis.call(unpack(ARGV))", append([]string{"0"}, strings.Fields(command)...)...); !strings.HasPrefix(got, "-ERR This Redis command is not allowed from script") {
			t.Errorf("%s: %s", command, got)
		}
	}
}

// A script or a transaction that finds no room replies with that error, and has changed nothing, whatever it did before.
func TestNoRoomInAScript(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts, [2]string{"SET counter 1", "OK"}, [2]string{"RL.TAKE cell GCRA 5/m", "[0 5 4 -1 12000]"})
	ts.engine.SetMaxMemory(1, 0)
	for _, source := range []string{
		"redis.call('INCR', 'counter') redis.call('RL.TAKE', 'cell', 'GCRA', '5/m') redis.call('SET', 'new', 1)",
		"redis.call('INCR', 'counter') redis.pcall('SET', 'new', 1) return 'caught'",
		"redis.call('INCR', 'counter') redis.pcall('RL.TAKE', 'other', 'GCRA', '5/m') return 'caught'",
	} {
		if got := c.eval(source, "1", "counter"); got != "-"+spec.ErrOOM {
			t.Errorf("%s: %s", source, got)
		}
	}
	c.steps(ts, [2]string{"GET counter", `"1"`}, [2]string{"RL.PEEK cell GCRA 5/m COST 0", "[0 5 4 -1 12000]"}, [2]string{"EXISTS new other", "0"})
}

// One step takes a limited number of keys; more are an error.
//
//test:norace
func TestKeysOfAScriptAreBounded(t *testing.T) {
	c := newTestServer(t).client()
	const fill = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'k' .. i, i) end return redis.call('DBSIZE')"
	if got := c.eval(fill, "0", "16385"); got != "-"+spec.ErrTooMany {
		t.Error(got)
	}
	if got := line(c.do("DBSIZE")); got != "0" {
		t.Errorf("%s keys are left", got)
	}
	if got := c.eval(fill, "0", "16384"); got != "16384" {
		t.Error(got)
	}
	// clear_keys of the Python package limits finds them by a pattern.
	if got := c.eval("local keys = redis.call('KEYS', 'k*') local n = 0 for i = 1, #keys, 5000 do n = n + redis.call('DEL', unpack(keys, i, math.min(i + 4999, #keys))) end return n", "0"); got != "16384" {
		t.Error(got)
	}
}

// A script that needs a key which it has not declared begins again. SCRIPT KILL ends it even if it comes just before that.
func TestScriptKillAsTheScriptBeginsAgain(t *testing.T) {
	ts := newTestServer(t)
	set := ts.table.find([]byte("SET"))
	do, runs := set.Do, 0
	set.Do = func(c *call, txn *handler.Txn) {
		do(c, txn)
		if runs++; runs == 1 && !ts.scripts.Kill() {
			t.Error("no script runs")
		}
	}
	c := ts.client()
	if got := c.eval("return redis.call('SET', 'undeclared', 1)", "0"); got != "-ERR Script killed by user with SCRIPT KILL." || runs != 1 {
		t.Errorf("%s after %d runs", got, runs)
	}
	c.steps(ts, [2]string{"EXISTS undeclared", "0"})
}

// SCRIPT KILL ends another client's script even if it has written, and none of its writes is kept.
func TestScriptKill(t *testing.T) {
	ts := newTestServer(t)
	// A busy machine may run the script for long before it runs the client that kills it.
	ts.bounds = script.Bounds{Steps: math.MaxInt64, Memory: math.MaxInt64}
	c, other := ts.client(), ts.client()
	for _, source := range []string{
		"redis.call('SET', KEYS[1], 1) while true do end",
		"redis.call('SET', KEYS[1], 1) while true do pcall(function() while true do end end) end",
		"redis.call('SET', KEYS[1], 1) return ('a'):rep(5000):find(('a*'):rep(30) .. 'b')",
		"redis.call('SET', KEYS[1], 1) while true do redis.call('PING') end",
		"redis.call('SET', 'undeclared', 1) while true do redis.pcall('GET', 'k' .. math.random(100)) end",
		"local t = {1} for i = 1, 90 do t = {t, t} end redis.call('SET', KEYS[1], 1) return t",
	} {
		killed := make(chan string)
		go func() {
			for {
				if got := line(other.do("SCRIPT", "KILL")); got == "OK" {
					killed <- got
					return
				}
			}
		}()
		if got := c.eval(source, "1", "a"); !strings.HasPrefix(got, "-ERR Script killed by user with SCRIPT KILL") {
			t.Errorf("%s: %s", source, got)
		}
		<-killed
		if got := line(c.do("EXISTS", "a", "undeclared")); got != "0" {
			t.Errorf("%s: %s keys are left", source, got)
		}
	}
	if _, _, got := ts.scripts.Sizes(); got != 0 {
		t.Errorf("%d scripts run", got)
	}
}
