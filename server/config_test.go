package server

import (
	"math"
	"strings"
	"testing"
	"time"

	"limitdb/config"
	"limitdb/server/clients"
	"limitdb/server/memory"
)

// The hard and soft output limits of each class apply to its clients.
func TestOutputLimitByClass(t *testing.T) {
	ts := newTestServer(t, "client-output-buffer-limit normal 1mb 100kb 5 pubsub 200kb 0 0")
	normal, sub := ts.client(), ts.client()
	sub.do("SUBSCRIBE", "a")
	house := func() { ts.clients.Check(ts.clock.Now()) }
	set := func(c *testClient, n int64) {
		c.conn.mu.Lock()
		c.conn.pending, c.conn.progress = n, ts.clock.Now()
		c.conn.mu.Unlock()
	}

	set(normal, 90<<10)
	set(sub, 150<<10)
	house()
	ts.clock.Advance(time.Minute)
	set(normal, 90<<10)
	house()
	if normal.conn.reason() != nil || sub.conn.reason() != nil {
		t.Fatalf("closed under the limits: %v, %v", normal.conn.reason(), sub.conn.reason())
	}
	set(sub, 201<<10)
	house()
	if sub.conn.reason() != clients.ErrOutput {
		t.Errorf("a subscriber over its hard limit: %v", sub.conn.reason())
	}
	// Over the soft limit, then under it, then over it for the whole time.
	for _, step := range []struct {
		pending int64
		after   time.Duration
		closed  bool
	}{
		{150 << 10, 0, false},
		{150 << 10, 5 * time.Second, false},
		{50 << 10, time.Second, false},
		{150 << 10, time.Second, false},
		{150 << 10, 5 * time.Second, false},
		{150 << 10, time.Millisecond, true},
	} {
		ts.clock.Advance(step.after)
		set(normal, step.pending)
		house()
		if got := normal.conn.reason() == clients.ErrOutput; got != step.closed {
			t.Fatalf("%+v: %v", step, normal.conn.reason())
		}
	}
}

// Without a hard limit, only maxmemory-clients bounds the unsent replies.
func TestNoOutputLimit(t *testing.T) {
	ts := newTestServer(t, "client-output-buffer-limit normal 0 0 0", "maxmemory-clients 10%", "maxmemory 1gb")
	c := ts.client()
	if c.s.pub.OutputLimit() != math.MaxInt64 || ts.MostUnsent() != (1<<30)/10/4*3 {
		t.Errorf("the limit is %d, %d stop reading", c.s.pub.OutputLimit(), ts.MostUnsent())
	}
	c.conn.mu.Lock()
	c.conn.pending, c.conn.progress = 100<<20, ts.clock.Now()
	c.conn.mu.Unlock()
	ts.clients.Check(ts.clock.Now())
	if c.conn.reason() != nil {
		t.Errorf("closed at 100 MB of 102: %v", c.conn.reason())
	}
	c.conn.mu.Lock()
	c.conn.pending = 103 << 20
	c.conn.mu.Unlock()
	ts.clients.Check(ts.clock.Now())
	if c.conn.reason() != clients.ErrEvicted {
		t.Errorf("over maxmemory-clients: %v", c.conn.reason())
	}
}

// A percentage is of maxmemory or, without it, of the memory that the process may use.
func TestClientsBudget(t *testing.T) {
	ts := newTestServer(t, "maxmemory-clients 10%")
	ts.clients = clients.New(ts.set, ts.log, 1000, 0)
	set := func(name, value string) {
		if err := ts.registry.Set(config.Pair{Name: name, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name, value string
		want        int64
	}{
		{"maxmemory", "0", 100},
		{"maxmemory", "1mb", 104857},
		{"maxmemory-clients", "5kb", 5120},
		{"maxmemory-clients", "0", 0},
	} {
		set(step.name, step.value)
		if got := ts.clients.Budget(); got != step.want {
			t.Errorf("%s %s: %d, want %d", step.name, step.value, got, step.want)
		}
	}
	for most, want := range map[int64]bool{1 << 20: true, 1 << 62: false} {
		o := ts.opts
		o.Memory = most
		if got := New(o).opts.Memory == most; got != want && memory.TotalMemory() > 0 {
			t.Errorf("a cgroup of %d bytes: %v", most, got)
		}
	}
}

// CONFIG SET of lengths also applies to clients that are already connected.
func TestLengthsHoldForAllClients(t *testing.T) {
	ts := newTestServer(t)
	a, b := ts.client(), ts.client()
	long := strings.Repeat("x", 100<<10)
	b.do("PING")
	a.steps(ts, [2]string{"CONFIG SET proto-max-bulk-len 200kb", "OK"})
	if got := b.do("ECHO", long).Text; got != long {
		t.Errorf("%.60q", got)
	}
	a.steps(ts, [2]string{"CONFIG SET proto-max-bulk-len 64kb", "OK"})
	if got := b.raw(string(encode("ECHO", long))); !strings.HasPrefix(got, "-ERR an argument may have at most 65536 bytes") {
		t.Errorf("%.60q", got)
	}
}

func TestInfoPercentiles(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("PING")
	for _, step := range []struct{ set, want string }{
		{"50 99 99.9", "p50="}, {"0 99.99 100", "p0="}, {"", ""},
	} {
		c.do("CONFIG", "SET", "latency-tracking-info-percentiles", step.set)
		info := c.do("INFO", "latencystats").Text
		for p := range strings.FieldsSeq(step.set) {
			if !strings.Contains(info, "p"+p+"=") {
				t.Errorf("%s: %s", step.set, info)
			}
		}
		if has := strings.Contains(info, "latency_percentiles_usec_ping"); has != (step.want != "") {
			t.Errorf("%q: %s", step.set, info)
		}
	}
	if got := line(c.do("CONFIG", "SET", "latency-tracking-info-percentiles", "101")); !strings.Contains(got, "is not a percentile") {
		t.Error(got)
	}
}

func TestLatencyMonitor(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	ping, keys := ts.table.find([]byte("PING")), ts.table.find([]byte("KEYS"))
	const ms = int64(time.Millisecond)
	ts.latency.Offer(&ping.Command, testStart, 500*ms)
	c.steps(ts, [2]string{"LATENCY LATEST", "[]"}, [2]string{"CONFIG SET latency-monitor-threshold 10", "OK"})
	if ts.group.Special.Load()&specialTimeEach == 0 {
		t.Error("commands are not timed by themselves")
	}
	for i, took := range []int64{9, 10, 30, 20} {
		ts.latency.Offer(&ping.Command, testStart+int64(i/3)*int64(time.Second), took*ms)
	}
	ts.latency.Offer(&keys.Command, testStart, 11*ms)
	c.steps(
		ts,
		[2]string{"LATENCY LATEST", `[["command" 1600000000 11 11] ["fast-command" 1600000001 20 30]]`},
		[2]string{"LATENCY HISTORY fast-command", "[[1600000000 30] [1600000001 20]]"},
		[2]string{"LATENCY HISTORY nosuch", "[]"},
		[2]string{"LATENCY RESET nosuch command", "1"},
		[2]string{"LATENCY LATEST", `[["fast-command" 1600000001 20 30]]`},
	)
	for i := range int64(2 * 160) {
		ts.latency.Offer(&ping.Command, testStart+i*int64(time.Second), 50*ms)
	}
	if n := len(c.do("LATENCY", "HISTORY", "fast-command").Elems); n != 160 {
		t.Errorf("%d samples are kept", n)
	}
	c.steps(ts, [2]string{"LATENCY RESET", "1"}, [2]string{"CONFIG SET latency-monitor-threshold 0", "OK"})
	if ts.group.Special.Load()&specialTimeEach != 0 {
		t.Error("commands are still timed by themselves")
	}
}

func TestEnableDebugCommand(t *testing.T) {
	for _, c := range []struct {
		set           string
		local, remote bool
	}{{"no", false, false}, {"yes", true, true}, {"local", true, false}} {
		ts := newTestServer(t, "enable-debug-command "+c.set, "protected-mode no")
		for from, allowed := range map[string]bool{"127.0.0.1:5": c.local, "10.0.0.1:5": c.remote} {
			got := line(ts.clientFrom(from).do("DEBUG", "SLEEP", "x"))
			if (got == "-"+errSleepRange) != allowed || (got == "-"+errDebugRefused) == allowed {
				t.Errorf("enable-debug-command %s, from %s: %s", c.set, from, got)
			}
		}
	}
}

// A CONFIG SET that takes time is answered in order, when it is done.
func TestConfigSetPort(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	var ports []int64
	ts.registry.OnChange(func() error { ports = append(ports, ts.set.Port.Get()); return nil }, ts.set.Port)
	if got := c.raw(string(encode("CONFIG", "SET", "port", "7000", "hz", "20")) + string(encode("ECHO", "after"))); got != "" {
		t.Errorf("answered before it was done: %q", got)
	}
	if got := c.resume(); got != "+OK\r\n$5\r\nafter\r\n" {
		t.Errorf("%q", got)
	}
	if len(ports) != 1 || ports[0] != 7000 || ts.set.Hz.Get() != 20 {
		t.Errorf("%v, hz %d", ports, ts.set.Hz.Get())
	}
	c.raw(string(encode("CONFIG", "SET", "bind", "not+a+host", "hz", "30")))
	if got := c.resume(); !strings.HasPrefix(got, "-ERR CONFIG SET failed (possibly related to argument 'bind') - ") || ts.set.Hz.Get() != 20 {
		t.Errorf("%q, hz %d", got, ts.set.Hz.Get())
	}
}
