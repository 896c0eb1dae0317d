package server

import (
	"strings"
	"testing"
	"time"

	"limitdb/transport"
)

func TestDebugSleep(t *testing.T) {
	ts := newTestServer(t, "slowlog-log-slower-than 5000")
	c, other := ts.client(), ts.client()
	if got := c.raw(string(encode("DEBUG", "SLEEP", "0.01")) + string(encode("ECHO", "after"))); got != "" {
		t.Errorf("%q at once", got)
	}
	if !c.s.pub.Parked() {
		t.Error("the session is not parked")
	}
	if got := line(other.do("PING")); got != "PONG" { // and others go on
		t.Error(got)
	}
	if got := c.resume(); got != "+OK\r\n$5\r\nafter\r\n" {
		t.Errorf("%q", got)
	}
	if c.s.pub.Parked() {
		t.Error("the session is still parked")
	}
	if got := line(c.do("SLOWLOG", "GET")); !strings.Contains(got, ` 10000 ["DEBUG" "SLEEP" "0.01"] `) {
		t.Error(got)
	}
}

// A wake-up for another reason changes nothing.
func TestDebugSleepGoesOn(t *testing.T) {
	c := newTestServer(t).client()
	c.raw(string(encode("DEBUG", "SLEEP", "3600")))
	c.s.Resume()
	if got := c.conn.take(); len(got) > 0 || !c.s.pub.Parked() {
		t.Errorf("%q, parked: %v", got, c.s.pub.Parked())
	}
}

// A sleep ends with its client.
func TestDebugSleepOfAClientThatLeaves(t *testing.T) {
	c := newTestServer(t).client()
	c.raw(string(encode("DEBUG", "SLEEP", "3600")))
	c.hangUp(transport.ErrPeerClosed)
	select {
	case <-c.conn.woken:
	case <-time.After(2 * time.Minute):
		t.Fatal("it sleeps on")
	}
}

func TestDebugSleepSilent(t *testing.T) {
	c := newTestServer(t).client()
	if got := c.raw(string(encode("CLIENT", "REPLY", "SKIP")) + string(encode("DEBUG", "SLEEP", "0"))); got != "" {
		t.Errorf("%q", got)
	}
	if got := c.resume(); got != "" {
		t.Errorf("a reply that was to be skipped: %q", got)
	}
	if got := line(c.do("PING")); got != "PONG" {
		t.Error(got)
	}
}

func TestDebugErrors(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, bad := range []string{"x", "-1", "-0.001", "nan", "inf", "3600.1", "1e9", ""} {
		if got := line(c.do("DEBUG", "SLEEP", bad)); got != "-ERR DEBUG SLEEP takes seconds from 0 to 3600" {
			t.Errorf("%q: %s", bad, got)
		}
	}
	c.steps(ts,
		[2]string{"DEBUG SLEEP", "-ERR wrong number of arguments for 'debug|sleep' command"},
		[2]string{"DEBUG SLEEP 0 0", "-ERR wrong number of arguments for 'debug|sleep' command"},
		[2]string{"DEBUG SEGFAULT", "-ERR unknown subcommand 'SEGFAULT'. Try DEBUG HELP."},
		[2]string{"DEBUG", "-ERR wrong number of arguments for 'debug' command"},
	)
}

func TestModuleFunctionLolwut(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"MODULE LIST", "[]"},
		[2]string{"MODULE LOAD /x.so", "-ERR limitdb loads no modules"},
		[2]string{"MODULE UNLOAD x", "-ERR limitdb loads no modules"},
		[2]string{"FUNCTION FLUSH", "OK"},
		[2]string{"FUNCTION FLUSH async", "OK"},
		[2]string{"FUNCTION FLUSH never", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option"},
		[2]string{"FUNCTION LIST", "[]"},
		[2]string{"FUNCTION LIST LIBRARYNAME x* WITHCODE", "[]"},
		[2]string{"FUNCTION LIST LIBRARYNAME", "-ERR Unknown argument LIBRARYNAME"},
		[2]string{"FUNCTION STATS", `["running_script" nil "engines" []]`},
	)
	art := c.do("LOLWUT").Text
	if c.do("LOLWUT", "VERSION", "5", "1").Text != art || !strings.Contains(art, "limitdb ver. test") || !strings.Contains(art, "Redis ver. 7.4.0") {
		t.Errorf("%s", art)
	}
	// The surface sinks row by row, and a new minute starts full.
	for row := range bucketRows {
		ts.clock.Set(testStart - testStart%60e9 + int64(row)*10e9)
		if lines := strings.Split(c.do("LOLWUT").Text, "\n"); !strings.Contains(lines[row], `\~~`) {
			t.Errorf("row %d: %q", row, lines[row])
		}
	}
}

func TestACL(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"ACL WHOAMI", `"default"`},
		[2]string{"ACL USERS", `["default"]`},
		[2]string{"ACL LIST", `["user default on nopass ~* &* +@all"]`},
		[2]string{"ACL GETUSER default", `["flags" ["on" "nopass"] "passwords" [] "commands" "+@all" "keys" "~*" "channels" "&*" "selectors" []]`},
		[2]string{"ACL GETUSER nobody", "nil"},
		[2]string{"ACL CAT", `["limit" "write" "fast" "blocking" "read" "slow" "rules" "admin" "dangerous" "keyspace" "string" "sortedset" "hash" "set" "list" "transaction" "scripting" "connection" "raft" "pubsub"]`},
		[2]string{"ACL CAT keyspace", `["copy" "del" "exists" "expire" "expireat" "expiretime" "keys" "object" "object|encoding" "object|freq" "object|idletime" "object|refcount" "object|help" "persist" "pexpire" "pexpireat" "pexpiretime" "pttl" "randomkey" "rename" "renamenx" "scan" "touch" "ttl" "type" "unlink"]`},
		[2]string{"ACL CAT nosuch", "-ERR Unknown category 'nosuch'"},
		[2]string{"ACL LOG", "[]"},
		[2]string{"ACL LOG RESET", "OK"},
		[2]string{"CONFIG SET requirepass hunter2", "OK"},
		[2]string{"ACL LIST", `["user default on #(redacted) ~* &* +@all"]`},
		[2]string{"ACL GETUSER default", `["flags" ["on"] "passwords" ["(redacted)"] "commands" "+@all" "keys" "~*" "channels" "&*" "selectors" []]`},
	)
}
