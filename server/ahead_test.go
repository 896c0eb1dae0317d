package server

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Commands of a pipeline may be read before those in front of them have run. Nobody can
// tell: a pipeline is answered as its commands would be one by one.
func TestPipelineEqualsOneByOne(t *testing.T) {
	lines := []string{
		"CL.THROTTLE a 5 30 60", "cl.throttle b 5 30 60 2", "CL.THROTTLE a 5 30 60 -1", "CL.THROTTLE a x 1 1", "CL.THROTTLE a 1",
		"RL.TAKE a GCRA 5/m", "RL.TAKE b GCRA 5/m COST 3", "RL.PEEK a GCRA 5/m", "RL.REFUND b GCRA 5/m", "RL.TAKE a NOSUCH 5/m",
		"RL.TAKE b GCRA 5/m COST 3 PARTIAL", "RL.RESERVE a GCRA 5/m COST 4", "RL.RESERVE b GCRA 5/m MAXWAIT 10s",
		"RL.TAKEALL 2 a b GCRA 5/m GCRA 5/m COST 2", "RL.TAKEALL 2 b b GCRA 5/m GCRA 5/m", "RL.TAKEALL 1 a GCRA 5/m COST 6", "RL.TOP", "RL.TOP BY REQUESTS COUNT 3",
		"GCRA a 1 1 1", "RL.INFO a", "TTL a", "DEL a", "RL.RESET a b", "EXISTS a b", "DBSIZE", "PING", "ECHO x", "NOSUCH", "TYPE b",
		"CLIENT REPLY SKIP", "CLIENT REPLY OFF", "CLIENT REPLY ON", "AUTH secret", "AUTH wrong", "RESET", "HELLO 3", "HELLO 2",
		"SUBSCRIBE ch", "UNSUBSCRIBE ch", "CONFIG SET slowlog-log-slower-than 0", "CONFIG SET slowlog-log-slower-than 10000",
		"RL.TAKE a GCRA 5/m COST 2 WAIT 20s", "RL.TAKE b GCRA 5/m COST 4 wait 1h", "RL.LEASE l 1 10s ID a", "RL.LEASE l 1 10s ID b WAIT 15s",
		"RL.RELEASE l ID b", "RL.HOLDERS l",
		"CONFIG SET max-key-len 1", "CONFIG SET max-key-len 4096", "RL.TAKE longer GCRA 5/m", "FLUSHALL",
	}
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

// patient sends bytes and lets time pass until nothing waits any more.
func (ts *testServer) patient(c *testClient, in string) string {
	out := c.raw(in)
	for c.s.resume != nil {
		ts.clock.Set(ts.engine.Wake(ts.clock.Now()))
		ts.engine.Wake(ts.clock.Now())
		out += c.resume()
	}
	return out
}
