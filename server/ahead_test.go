package server

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The server may read commands of a pipeline before it has run the commands in front of them. The replies
// are the same as for commands that are sent one by one.
func TestPipelineEqualsOneByOne(t *testing.T) {
	lines := pipelineLines()
	rapid.Check(t, func(rt *rapid.T) {
		pipeline := rapid.SliceOfN(rapid.SampledFrom(lines), 1, 200).Draw(rt, "pipeline")
		password := rapid.SampledFrom([]string{"requirepass secret", "timeout 0"}).Draw(rt, "password")
		ts := newTestServer(t, password)
		whole := ts.patient(ts.client(), strings.Join(pipeline, "\r\n")+"\r\n")
		ts = newTestServer(t, password)
		single := ts.client()
		var want strings.Builder
		for _, l := range pipeline {
			want.WriteString(ts.patient(single, l+"\r\n"))
		}
		if whole != want.String() {
			rt.Fatalf("pipeline  %q\none by one %q", whole, want.String())
		}
	})
}

// pipelineLines are commands that differ only in their keys, and others; valid and invalid ones; and commands
// that change the meaning of those behind them.
func pipelineLines() []string {
	return []string{
		"CL.THROTTLE a 5 30 60", "cl.throttle b 5 30 60 2", "CL.THROTTLE a 5 30 60 -1", "CL.THROTTLE a x 1 1", "CL.THROTTLE a 1",
		"RL.TAKE a GCRA 5/m", "RL.TAKE b GCRA 5/m COST 3", "RL.PEEK a GCRA 5/m", "RL.REFUND b GCRA 5/m", "RL.TAKE a NOSUCH 5/m",
		"RL.TAKE b GCRA 5/m COST 3 PARTIAL", "RL.RESERVE a GCRA 5/m COST 4", "RL.RESERVE b GCRA 5/m MAXWAIT 10s",
		"RL.TAKEALL 2 a b GCRA 5/m GCRA 5/m COST 2", "RL.TAKEALL 2 b b GCRA 5/m GCRA 5/m", "RL.TAKEALL 1 a GCRA 5/m COST 6", "RL.TOP", "RL.TOP BY REQUESTS COUNT 3",
		"GCRA a 1 1 1", "RL.INFO a", "TTL a", "DEL a", "RL.RESET a b", "EXISTS a b", "DBSIZE", "PING", "ECHO x", "NOSUCH", "TYPE b",
		"CLIENT REPLY SKIP", "CLIENT REPLY OFF", "CLIENT REPLY ON", "AUTH secret", "AUTH wrong", "RESET", "HELLO 3", "HELLO 2",
		"SUBSCRIBE ch", "UNSUBSCRIBE ch", "CONFIG SET slowlog-log-slower-than 0", "CONFIG SET slowlog-log-slower-than 10000",
		"RL.TAKE a GCRA 5/m COST 2 WAIT 20s", "RL.TAKE b GCRA 5/m COST 4 wait 1h", "RL.LEASE l 1 10s ID a", "RL.LEASE l 1 10s ID b WAIT 15s",
		"RL.RELEASE l ID b", "RL.HOLDERS l",
		"RL.HOLD a GCRA 50/m COST 3 TTL 10s ID x", "RL.HOLD b GCRA 50/m TTL 10s ID x COST 3", "RL.HOLD a GCRA 50/m TTL 10s ID COST COST 5", "RL.HOLD a GCRA 50/m TTL 10h ID x", "RL.HOLD a GCRA 5/m COST 4 TTL 10s ID x WAIT 5s",
		"RL.COMMIT a ID x COST 2", "RL.COMMIT b COST 2 ID x", "RL.COMMIT a ID x", "RL.CANCEL a ID x", "RL.HOLDS a", "RL.TAKE a GCRA 50/m ONCE x", "RL.TAKE a GCRA 50/m COST 2 ONCE x FOR 5s",
		"CONFIG SET max-key-len 1", "CONFIG SET max-key-len 4096", "RL.TAKE longer GCRA 5/m", "FLUSHALL",
		"CL.THROTTLE longer 5 30 60", "GCRA b 1 1 1", "GCRA b 1 1 0", "RL.PEEK b GCRA 5/m", "RL.PEEK b GCRA 5/m COST", "RL.TAKE b LOG 5/m REPLACE",
		"CLIENT PAUSE 20 WRITE", "CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES", "MONITOR", "CONFIG SET requirepass secret", "CONFIG SET proto-max-bulk-len 1mb",
		"INCR n", "INCRBY n 5", "INCRBY n x", "INCR a", "DECR n", "GET n", "SET n 7", "SET n 7 NX", "SET n 7 EX", "SETNX m 1", "GETDEL m", "APPEND n 1", "STRLEN n",
		"HINCRBY h a 1", "HGET h a", "HGET n a", "ZADD z 1 a", "ZCARD z", "LPUSH l a", "LTRIM l 0 2", "LINDEX l -1", "SADD s a", "SCARD s",
		"EXPIRE n 5", "PTTL n", "PERSIST n", "INCREX n BYINT 2", "MULTI", "EXEC", "DISCARD", "WATCH n", "EVAL return(redis.call('incr',KEYS[1])) 1 n",
	}
}

// A command that is recognized by the bytes of the previous one gets the same reply as if it was
// parsed by itself, wherever the stream is cut into reads.
//
//test:norace
func TestRememberedCommandsAreAnsweredTheSame(t *testing.T) {
	lines := pipelineLines()
	known, formed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		password := rapid.SampledFrom([]string{"requirepass secret", "timeout 0"}).Draw(rt, "password")
		var commands [][]byte
		for range rapid.IntRange(1, 40).Draw(rt, "runs") {
			words := strings.Fields(rapid.SampledFrom(lines).Draw(rt, "line"))
			for range rapid.IntRange(1, 5).Draw(rt, "times") {
				if len(words) > 2 && rapid.Bool().Draw(rt, "another key") {
					words[1] = rapid.SampledFrom([]string{"a", "b", "key", "two words", ""}).Draw(rt, "key")
				}
				for i := 3; i < len(words); i++ {
					switch words[i-1] {
					case "ID", "ONCE":
						words[i] = rapid.SampledFrom([]string{"x", "y", "COST", "", strings.Repeat("i", 129)}).Draw(rt, "id")
					case "COST":
						words[i] = rapid.SampledFrom([]string{"3", "3", "12", "0", "-1", "x", ""}).Draw(rt, "cost")
					}
				}
				commands = append(commands, encode(words...))
			}
		}
		stream := bytes.Join(commands, nil)

		ts := newTestServer(t, password)
		c, got := ts.client(), ""
		for len(stream) > 0 && c.conn.reason() == nil {
			n := rapid.IntRange(1, min(len(stream), 500)).Draw(rt, "read")
			got += ts.patient(c, string(stream[:n]))
			if c.s.remembered != nil {
				known++
			}
			if c.s.forms != nil {
				formed++
			}
			stream = stream[n:]
		}

		ts = newTestServer(t, password)
		c, want := ts.client(), ""
		for _, cmd := range commands {
			if c.conn.reason() != nil {
				break
			}
			c.s.remembered, c.s.forms = nil, nil
			want += ts.patient(c, string(cmd))
		}
		if got != want {
			rt.Fatalf("remembered %q\nby itself  %q", got, want)
		}
	})
	if known == 0 || formed == 0 {
		t.Error("no command was remembered")
	}
}

// patient sends bytes and advances the clock until no command waits.
func (ts *testServer) patient(c *testClient, in string) string {
	out := c.raw(in)
	for c.s.pending != nil {
		if c.s.holds() {
			ts.pause.Stop()
		} else if until, waits := ts.auth.Delayed.Until(c.conn); waits {
			ts.clock.Set(until)
			ts.auth.Delayed.Release(until)
		} else {
			ts.clock.Set(ts.engine.Wake(ts.clock.Now()))
			ts.engine.Wake(ts.clock.Now())
		}
		out += c.resume()
	}
	return out
}

// The server sends large replies of queued commands before they fill the memory.
func TestLargeRepliesOfAQueueAreSent(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.raw(string(encode("SET", "k", strings.Repeat("x", 60_000))))
	want := strings.Repeat(c.raw("GET k\r\n"), aheadMost)
	c.conn.writes = 0
	if got := c.raw(strings.Repeat("GET k\r\n", aheadMost)); got != want {
		t.Fatalf("%d bytes instead of %d", len(got), len(want))
	}
	if c.conn.writes < aheadMost/2 {
		t.Errorf("%d bytes in %d writes", len(want), c.conn.writes)
	}
}

// A queue whose turn ends is put back into the reader, wherever the stream is cut into reads.
//
//test:norace
func TestQueuesGoOnInTheNextTurn(t *testing.T) {
	var in strings.Builder
	for i := range 50 {
		in.WriteString("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n" + []string{"INCRBY n x", "PING", "CL.THROTTLE a 5 30 60 0"}[i%3] + "\r\n")
	}
	whole := newTestServer(t).client().raw(in.String())
	for cut := 0; cut <= in.Len(); cut += 7 {
		c := newTestServer(t).client().tiny()
		got := c.all(in.String()[:cut]) + c.all(in.String()[cut:])
		if got != whole {
			t.Fatalf("cut at %d: %q, not %q", cut, got, whole)
		}
		if c.conn.yields < 3 {
			t.Fatalf("cut at %d: it yielded %d times", cut, c.conn.yields)
		}
	}
}

// What a command with an id asks for is never taken for what an earlier one has asked for, whose form was known.
func TestIdsOfKnownForms(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for i := range 8 {
		c.raw(string(encode("RL.TAKE", "a", "GCRA", "50/m", "ONCE", strings.Repeat("i", i+1))))
	}
	c.raw(string(encode("RL.TAKE", "b", "GCRA", "50/m", "COST", "2", "ONCE", "z")))
	if got := c.raw(string(encode("RL.TAKE", "b", "GCRA", "50/m", "ONCE", "z"))); !strings.HasPrefix(got, "-IDUSED") {
		t.Errorf("another request under the same id: %q", got)
	}
}
