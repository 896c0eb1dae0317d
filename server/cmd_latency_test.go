package server

import (
	"strings"
	"testing"
	"time"

	"limitdb/internal/stats"
)

func TestLatencyHistogram(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	ttl := ts.table.find([]byte("TTL"))
	get := ts.table.find([]byte("CONFIG")).sub([]byte("GET"))
	for _, ns := range []int64{1, 1000, 1001, 2000, 2001, 4000, 4001, 9_000_000} {
		ts.counts.Stripe(0).Record(ttl.ID, nil, ns, false)
	}
	ts.counts.Stripe(1).Record(ttl.ID, nil, 900, false)
	ts.counts.Stripe(1).Record(get.ID, nil, int64(time.Hour), false)
	ts.counts.Stripe(1).Reject(ts.table.find([]byte("TYPE")).ID) // rejected is not called
	const (
		ttlWant = `"ttl" ["calls" 9 "histogram_usec" [1 3 2 5 4 7 8 8 16384 9]]`
		getWant = `"config|get" ["calls" 1 "histogram_usec" [2097152 1]]`
	)
	c.steps(ts,
		[2]string{"LATENCY HISTOGRAM ttl", "[" + ttlWant + "]"},
		[2]string{"LATENCY HISTOGRAM TTL ttl nosuch type", "[" + ttlWant + "]"},
		[2]string{"LATENCY HISTOGRAM config ttl", "[" + ttlWant + " " + getWant + "]"}, // a container: its subcommands
		[2]string{"LATENCY HISTOGRAM config|get", "[" + getWant + "]"},
		[2]string{"LATENCY HISTOGRAM config|set nosuch", "[]"},
	)
	if all := line(c.do("LATENCY", "HISTOGRAM")); !strings.Contains(all, ttlWant) || !strings.Contains(all, `"latency|histogram" ["calls" 5 `) {
		t.Error(all)
	}
	c.do("HELLO", "3")
	if got := c.raw(string(encode("LATENCY", "HISTOGRAM", "config|get"))); got !=
		"%1\r\n$10\r\nconfig|get\r\n%2\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n%1\r\n:2097152\r\n:1\r\n" {
		t.Errorf("RESP3: %q", got)
	}
}

func TestLatencyEvents(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"LATENCY LATEST", "[]"},
		[2]string{"LATENCY HISTORY command", "[]"},
		[2]string{"LATENCY RESET", "0"},
		[2]string{"LATENCY RESET a b", "0"},
		[2]string{"LATENCY HISTORY", "-ERR wrong number of arguments for 'latency|history' command"},
		[2]string{"LATENCY", "-ERR wrong number of arguments for 'latency' command"},
	)
}

// Sessions of one loop count in one stripe, and sessions of other loops in other stripes.
func TestCountersPerLoop(t *testing.T) {
	ts := newTestServer(t)
	stripe := func(loop int) *stats.Stripe {
		c := ts.client()
		c.conn.loop = loop
		return ts.counts.Stripe(laneOf(ts.Server, c.conn, c.s.pub.ID))
	}
	loops := ts.counts.Stripes() / 2
	seen := map[*stats.Stripe]bool{}
	for loop := range loops {
		s := stripe(loop)
		if s != stripe(loop) || seen[s] {
			t.Errorf("loop %d has no stripe of its own", loop)
		}
		seen[s] = true
	}
	for range 4 {
		if s := stripe(-1); seen[s] {
			t.Error("a connection without a loop counts in a loop's stripe")
		}
	}
	if s := stripe(loops); !seen[s] {
		t.Error("loops beyond the number of stripes do not share stripes")
	}
}
