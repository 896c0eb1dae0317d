package server

import (
	"strconv"
	"strings"
	"testing"

	"limitdb/engine"
)

func TestMemoryUsage(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("RL.TAKE", "user123", "GCRA", "1/s")
	var info engine.Info
	err := ts.engine.UpdateAt(0, ts.clock.Now(), [][]byte{[]byte("user123")}, func(t *engine.Txn) (err error) {
		info, _, err = t.Info([]byte("user123"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.do("MEMORY", "USAGE", "user123").Int; got != info.Bytes || got < 7 {
		t.Errorf("%d bytes, the engine says %d", got, info.Bytes)
	}
	c.steps(ts,
		[2]string{"MEMORY USAGE nosuch", "nil"},
		[2]string{"MEMORY USAGE nosuch SAMPLES 0", "nil"},
		[2]string{"MEMORY USAGE nosuch SAMPLES -3", "-ERR syntax error"},
		[2]string{"MEMORY USAGE nosuch SAMPLES x", "-ERR value is not an integer or out of range"},
		[2]string{"MEMORY USAGE nosuch SAMPLES", "-ERR syntax error"},
		[2]string{"MEMORY USAGE nosuch FOO 3", "-ERR syntax error"},
		[2]string{"MEMORY USAGE", "-ERR wrong number of arguments for 'memory|usage' command"},
		[2]string{"MEMORY USAGE " + strings.Repeat("k", 4097), "-ERR key is longer than max-key-len allows"},
	)
}

func TestMemoryStats(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	figures := func() map[string]float64 {
		v := c.do("MEMORY", "STATS")
		out := make(map[string]float64)
		for i := 0; i < len(v.Elems); i += 2 {
			n := v.Elems[i+1]
			if n.Kind == ':' {
				out[v.Elems[i].Text] = float64(n.Int)
			} else {
				out[v.Elems[i].Text], _ = strconv.ParseFloat(n.Text, 64)
			}
		}
		return out
	}
	c.do("HELLO", "3")
	if f := figures(); f["keys.count"] != 0 || f["keys.bytes-per-key"] != 0 || f["total.allocated"] <= 0 {
		t.Errorf("%v", f)
	}
	for _, k := range strings.Fields("a b c d") {
		c.do("RL.TAKE", k, "GCRA", "1/s")
	}
	ts.clients.Bytes.Store(77)
	f := figures()
	stats := ts.engine.Stats()
	if f["keys.count"] != 4 || f["dataset.bytes"] != float64(stats.Bytes) || f["keys.bytes-per-key"] != float64(stats.Bytes/4) || f["clients.normal"] != 77 {
		t.Errorf("%v", f)
	}
	if f["peak.allocated"] < f["total.allocated"] || f["allocator.active"] < f["allocator.allocated"] || f["peak.percentage"] > 100 {
		t.Errorf("figures that contradict each other: %v", f)
	}
}

// PURGE replies in the session's own turn, when the work is done.
func TestMemoryPurge(t *testing.T) {
	c := newTestServer(t).client()
	if got := c.raw(string(encode("MEMORY", "PURGE")) + string(encode("PING"))); got != "" {
		t.Errorf("%q before the purge was done", got)
	}
	if got := c.resume(); got != "+OK\r\n+PONG\r\n" {
		t.Errorf("%q", got)
	}
}
