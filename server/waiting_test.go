package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/clients"
	"limitdb/server/request"
	"limitdb/server/spec"
	"limitdb/transport"
)

// say sends one command and renders the replies that have come by then; "" if
// the command waits.
func (c *testClient) say(command string) string {
	c.t.Helper()
	c.conn.take()
	c.s.Data(encode(strings.Fields(command)...))
	return c.heard()
}

// heard renders the replies written since the last call.
func (c *testClient) heard() string {
	c.t.Helper()
	var out []string
	r := bufio.NewReader(bytes.NewReader(c.conn.take()))
	for {
		v, err := resp.ReadReply(r, 64<<20)
		if err != nil {
			return strings.Join(out, " ")
		}
		out = append(out, line(v))
	}
}

// woken runs the session if it has been woken, as the transport would, and
// returns its output.
func (c *testClient) woken() string {
	c.t.Helper()
	select {
	case <-c.conn.woken:
		c.s.Resume()
	default:
	}
	return c.heard()
}

// pass advances the clock, and lets the engine decide the requests that are due.
func (ts *testServer) pass(d time.Duration) {
	ts.clock.Advance(d)
	ts.engine.Wake(ts.clock.Now())
}

func (c *testClient) expect(what, got, want string) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// saysAfter sends a command and checks that its reply comes after a time, at once if that is 0.
func (c *testClient) saysAfter(ts *testServer, what, command string, after time.Duration, want string) {
	c.t.Helper()
	got := c.say(command)
	if waits := got == ""; waits != (after > 0) {
		c.t.Errorf("%s: %q waits: %v", what, command, waits)
	}
	if after > 0 {
		ts.pass(after - 1)
		got = c.woken()
		ts.pass(1)
		got += c.woken()
	}
	c.expect(what, got, want)
}

func TestWaitsInOrder(t *testing.T) {
	ts := newTestServer(t)
	a, b, other := ts.client(), ts.client(), ts.client()
	a.expect("the first take", a.say("RL.TAKE k GCRA 10/s COST 10"), "[0 10 0 -1 1000]")
	// Commands before it in the pipeline are answered at once, and commands
	// after it only when its wait is over.
	got := a.raw("PING\r\nRL.TAKE k GCRA 10/s COST 2 WAIT 1s\r\nECHO after\r\nRL.TAKE k2 GCRA 1/s\r\n")
	a.expect("a pipeline", got, "+PONG\r\n")
	b.expect("the second to ask", b.say("RL.TAKE k GCRA 10/s WAIT 1000"), "")
	b.expect("and what comes behind", b.say("ECHO later"), "")
	other.expect("another client", other.say("RL.TAKE k GCRA 10/s"), "[1 10 0 200 1000]")
	other.expect("peeking", other.say("RL.PEEK k GCRA 10/s"), "[1 10 0 200 1000]")
	other.expect("another key", other.say("RL.TAKE k3 GCRA 10/s"), "[0 10 9 -1 100]")

	ts.pass(200*time.Millisecond - 1)
	a.expect("1 ns too early", a.woken()+b.woken(), "")
	ts.pass(1)
	a.expect("on time", a.woken(), `[0 10 0 -1 1000] "after" [0 1 0 -1 1000]`)
	b.expect("not yet its turn", b.woken(), "")
	ts.pass(100 * time.Millisecond)
	b.expect("its turn", b.woken(), `[0 10 0 -1 1000] "later"`)
	if st := ts.engine.Stats(); st.Allowed != 5 || st.Limited != 1 || st.Waiting != 0 || st.Waited != 2 {
		t.Errorf("%+v", st)
	}
}

func TestWaitSteps(t *testing.T) {
	for _, test := range []struct {
		name, command string
		pass          time.Duration
		want          string
	}{
		{"there is room", "RL.TAKE new GCRA 10/s WAIT 1s", 0, "[0 10 9 -1 100]"},
		{"no waiting", "RL.TAKE k GCRA 10/s WAIT 0", 0, "[1 10 0 100 1000]"},
		{"never", "RL.TAKE k GCRA 10/s COST 11 WAIT 1s", 0, "[1 10 0 -1 1000]"},
		{"limit 0", "RL.TAKE new GCRA 0/s WAIT 1s", 0, "[1 0 0 -1 0]"},
		{"in vain", "RL.TAKE k GCRA 10/s COST 5 WAIT 300", 300 * time.Millisecond, "[1 10 3 200 700]"},
		{"for ever", "RL.TAKE k GCRA 10/s COST 10 WAIT 9223372036854775807ns", time.Second, "[0 10 0 -1 1000]"},
		{"in part", "RL.TAKE k GCRA 10/s COST 5 PARTIAL WAIT 1s", 100 * time.Millisecond, "[0 10 0 -1 1000 1]"},
		{"in part, in vain", "RL.TAKE k GCRA 10/s COST 5 WAIT 99 PARTIAL", 99 * time.Millisecond, "[1 10 0 1 901 0]"},
		{"another kind", "RL.LEASE k 2 10s ID x WAIT 1s", 0, "-" + request.WrongType(limit.GCRA.Kind(), limit.LEASE)},
		{"a queue", "RL.TAKE q QUEUE 10/s BURST 5 WAIT 1s", 100 * time.Millisecond, "[0 6 5 -1 100]"},
		{"a queue, too late", "RL.TAKE q QUEUE 10/s BURST 5 WAIT 99", 0, "[1 6 5 1 100]"},
		{"a queue that does not wait", "RL.TAKE q QUEUE 10/s BURST 5 WAIT 0", 0, "[1 6 5 100 100]"},
		{"a queue that is told", "RL.TAKE q QUEUE 10/s BURST 5", 0, "[0 6 4 100 200]"},
		{"a lease", "RL.LEASE l 2 10s ID x WAIT 5s", 2 * time.Second, "[0 2 0 -1 10000]"},
		{"a lease, in vain", "RL.LEASE l 2 10s ID x WAIT 1999", 1999 * time.Millisecond, "[1 2 0 1 8001]"},
		{"a lease of more than there ever is", "RL.LEASE l 2 10s ID x WEIGHT 3 WAIT 5s", 0, "[1 2 0 -1 10000]"},
		{"a lease that is renewed", "RL.LEASE l 2 3s ID a WAIT 5s", 0, "[0 2 0 -1 10000]"},
		{"an option twice", "RL.TAKE k GCRA 10/s WAIT 1 wait 2", 0, "-ERR syntax error: WAIT is given twice"},
		{"no value", "RL.TAKE k GCRA 10/s WAIT", 0, "-ERR syntax error: a value is missing after \"WAIT\""},
		{"no time", "RL.TAKE k GCRA 10/s WAIT soon", 0, `-ERR WAIT: a time must be 0 or more milliseconds, or have a unit (ms s m h d w): "soon"`},
		{"no such option", "RL.PEEK k GCRA 10/s WAIT 1", 0, `-ERR unknown option "WAIT" for GCRA`},
	} {
		ts := newTestServer(t)
		c := ts.client()
		c.steps(ts,
			[2]string{"RL.TAKE k GCRA 10/s COST 10", "[0 10 0 -1 1000]"},
			[2]string{"RL.TAKE q QUEUE 10/s BURST 5", "[0 6 5 -1 100]"},
			[2]string{"RL.LEASE l 2 2s ID a", "[0 2 1 -1 2000]"},
			[2]string{"RL.LEASE l 2 10s ID b", "[0 2 0 -1 10000]"},
		)
		c.saysAfter(ts, test.name, test.command, test.pass, test.want)
		if c.s.pending != nil || c.s.pub.Waits.Load() != nil {
			t.Errorf("%s: it still waits", test.name)
		}
	}
}

// A refund, a release, a reset and a client that leaves let the next waiters through at once.
func TestWaitsEndWhenSomethingIsGivenBack(t *testing.T) {
	for _, step := range []string{"RL.REFUND k GCRA 10/s", "RL.RESET k", "DEL k", "FLUSHALL"} {
		ts := newTestServer(t)
		a, other := ts.client(), ts.client()
		other.say("RL.TAKE k GCRA 10/s COST 10")
		a.expect(step, a.say("RL.TAKE k GCRA 10/s WAIT 1s"), "")
		other.say(step)
		ts.engine.Wake(ts.clock.Now()) // as Sooner says after FLUSHALL
		if got := a.woken(); !strings.HasPrefix(got, "[0 10 ") {
			t.Errorf("after %s: %s", step, got)
		}
	}
	ts := newTestServer(t)
	a, b, other := ts.client(), ts.client(), ts.client()
	other.say("RL.LEASE k 1 10s ID x")
	a.say("RL.LEASE k 1 10s ID a WAIT 1m")
	b.say("RL.LEASE k 1 20s ID b WAIT 1m")
	other.expect("the release", other.say("RL.RELEASE k ID x"), "1")
	ts.engine.Wake(ts.clock.Now()) // as Sooner says after a step
	a.expect("after the release", a.woken(), "[0 1 0 -1 10000]")
	b.expect("and for the next", b.woken(), "")
	other.expect("the holders", other.say("RL.HOLDERS k"), `[["a" 1 10000]]`)
	other.expect("shortening the lease", other.say("RL.RENEW k ID a 1s"), "1")
	ts.pass(time.Second)
	b.expect("after the lease", b.woken(), "[0 1 0 -1 20000]")
}

// A client that leaves gives up its place, however it leaves.
func TestWhoGoesGivesUp(t *testing.T) {
	setup := func(t *testing.T) (ts *testServer, gone, next *testClient) {
		ts = newTestServer(t)
		gone, next = ts.client(), ts.client()
		next.say("RL.TAKE k GCRA 10/s COST 10")
		gone.say("RL.TAKE k GCRA 10/s COST 9 WAIT 10s")
		next.say("RL.TAKE k GCRA 10/s WAIT 10s")
		ts.pass(200 * time.Millisecond)
		next.expect("behind the other", next.woken(), "")
		return ts, gone, next
	}
	t.Run("disconnected", func(t *testing.T) {
		ts, gone, next := setup(t)
		gone.hangUp(transport.ErrPeerClosed)
		next.expect("at once", next.woken(), "[0 10 1 -1 900]")
		if st := ts.engine.Stats(); st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("end of input", func(t *testing.T) {
		_, gone, next := setup(t)
		gone.raw("ECHO after\r\nRL.TAKE k GCRA 10/s COST 9 WAIT 10s\r\n")
		if gone.s.EOF() {
			t.Fatal("the connection is closed before the reply")
		}
		gone.expect("the replies", gone.woken(), `[1 10 2 700 800] "after" [1 10 1 800 900]`)
		if !errors.Is(gone.conn.reason(), clients.ErrEOF) || !gone.conn.flushed {
			t.Errorf("closed for %v", gone.conn.reason())
		}
		next.expect("at once", next.woken(), "[0 10 1 -1 900]")
	})
	t.Run("killed", func(t *testing.T) {
		ts, gone, next := setup(t)
		admin := ts.client()
		admin.expect("the kill", admin.say(fmt.Sprintf("CLIENT KILL ID %d", gone.s.pub.ID)), "1")
		if !errors.Is(gone.conn.reason(), clients.ErrKilled) {
			t.Fatalf("closed for %v", gone.conn.reason())
		}
		gone.hangUp(clients.ErrKilled) // as the transport does
		next.expect("at once", next.woken(), "[0 10 1 -1 900]")
	})
	t.Run("too many unsent replies", func(t *testing.T) {
		ts, gone, next := setup(t)
		gone.conn.mu.Lock()
		gone.conn.pending, gone.conn.progress = 1<<40, ts.clock.Now()
		gone.conn.mu.Unlock()
		ts.clients.Check(ts.clock.Now())
		if !errors.Is(gone.conn.reason(), clients.ErrOutput) {
			t.Fatalf("closed for %v", gone.conn.reason())
		}
		gone.hangUp(clients.ErrOutput)
		next.expect("at once", next.woken(), "[0 10 1 -1 900]")
	})
}

func TestClientUnblock(t *testing.T) {
	ts := newTestServer(t)
	c, admin := ts.client(), ts.client()
	c.say("RL.TAKE k GCRA 10/s COST 10")
	id := fmt.Sprint(c.s.pub.ID)
	for _, step := range []struct{ unblock, reply, got string }{
		{"", "1", "[1 10 0 100 1000]"},
		{" TIMEOUT", "1", "[1 10 0 100 1000]"},
		{" error", "1", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"},
	} {
		c.expect("waiting", c.say("RL.TAKE k GCRA 10/s WAIT 10s"), "")
		admin.expect("CLIENT UNBLOCK"+step.unblock, admin.say("CLIENT UNBLOCK "+id+step.unblock), step.reply)
		admin.expect("again", admin.say("CLIENT UNBLOCK "+id+step.unblock), "0")
		c.expect("CLIENT UNBLOCK"+step.unblock, c.woken(), step.got)
	}
	c.say("DEBUG SLEEP 0.001") // is no wait for a turn
	admin.steps(ts,
		[2]string{"CLIENT UNBLOCK " + id, "0"},
		[2]string{"CLIENT UNBLOCK 4711", "0"},
		[2]string{"CLIENT UNBLOCK x", "-" + spec.ErrNotInt},
		[2]string{"CLIENT UNBLOCK 1 NEVER", "-" + errUnblockReason},
		[2]string{"CLIENT UNBLOCK 1 ERROR 2", "-" + spec.ErrSyntax},
	)
	if c.resume() != "+OK\r\n" {
		t.Error("the sleep was cut short")
	}
	got := line(admin.do("INFO", "commandstats"))
	if !strings.Contains(got, "cmdstat_rl.take:calls=4,") || !strings.Contains(got, "rejected_calls=0,failed_calls=1") {
		t.Errorf("the error is not counted: %s", got)
	}
}

// INFO and CLIENT LIST show clients that wait, and the wait does not count as a command's time.
func TestWaitingIsShown(t *testing.T) {
	ts := newTestServer(t, "timeout 10", "slowlog-log-slower-than 0")
	c, admin := ts.client(), ts.client()
	c.say("RL.TAKE k GCRA 1/m")
	c.say("RL.TAKE k GCRA 1/m WAIT 1h")
	if got := admin.do("CLIENT", "LIST", "ID", fmt.Sprint(c.s.pub.ID)).Text; !strings.Contains(got, " flags=b ") || !strings.Contains(got, " cmd=rl.take ") {
		t.Errorf("CLIENT LIST: %s", got)
	}
	info := admin.do("INFO", "clients", "limiter").Text
	for _, want := range []string{"blocked_clients:1\r\n", "clients_in_timeout_table:1\r\n", "total_blocking_keys:1\r\n", "waiting:1\r\n", "keys_waited_for:1\r\n", "decisions_waited:1\r\n"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO has no %q: %s", want, info)
		}
	}
	ts.clock.Advance(30 * time.Second)
	admin.say("PING")
	ts.clients.Check(ts.clock.Now())
	if c.conn.reason() != nil {
		t.Errorf("the one that waits is closed for %v", c.conn.reason())
	}
	ts.pass(30 * time.Second)
	c.expect("its turn", c.woken(), "[0 1 0 -1 60000]")
	for _, e := range admin.do("SLOWLOG", "GET", "-1").Elems {
		if took := e.Elems[2].Int; took > 1e6 {
			t.Errorf("the slow log has %s", line(e))
		}
	}
	if info = admin.do("INFO", "clients").Text; !strings.Contains(info, "blocked_clients:0\r\n") {
		t.Errorf("afterwards: %s", info)
	}
	ts.clock.Advance(11 * time.Second)
	ts.clients.Check(ts.clock.Now())
	if !errors.Is(c.conn.reason(), clients.ErrIdle) {
		t.Errorf("idle since, but closed for %v", c.conn.reason())
	}
}

func TestRepliesAreOffWhileWaiting(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.say("RL.TAKE k GCRA 10/s COST 10")
	got := c.raw("CLIENT REPLY SKIP\r\nRL.TAKE k GCRA 10/s WAIT 1s\r\nECHO heard\r\n")
	ts.pass(100 * time.Millisecond)
	c.expect("skipped", got+c.woken(), `"heard"`)
	got = c.raw("CLIENT REPLY OFF\r\nRL.TAKE k GCRA 10/s WAIT 1s\r\nECHO silent\r\nCLIENT REPLY ON\r\n")
	ts.pass(100 * time.Millisecond)
	c.expect("off", got+c.woken(), "OK")
	if st := ts.engine.Stats(); st.Allowed != 3 {
		t.Errorf("%+v", st)
	}
}

// A request that waits does not depend on the read buffer.
func TestWaitOutlivesItsInput(t *testing.T) {
	ts := newTestServer(t)
	c, other := ts.client(), ts.client()
	other.say("RL.LEASE key-of-leases 1 10s ID first")
	in := encode("RL.LEASE", "key-of-leases", "1", "10s", "ID", "second", "WAIT", "1m")
	c.s.Data(in)
	clear(in)
	other.expect("the release", other.say("RL.RELEASE key-of-leases ID first"), "1")
	ts.engine.Wake(ts.clock.Now()) // as Sooner says after a step
	c.expect("its turn", c.woken(), "[0 1 0 -1 10000]")
	other.expect("the holders", other.say("RL.HOLDERS key-of-leases"), `[["second" 1 10000]]`)
}

// If a key changes its kind while a client waits for it, the error names the new kind.
func TestWrongTypeAfterAWait(t *testing.T) {
	ts := newTestServer(t)
	c, other := ts.client(), ts.client()
	for cmd, wants := range map[string]limit.Kind{
		"RL.TAKE k GCRA 1/h WAIT 2h":         limit.GCRA.Kind(),
		"RL.TAKE k GCRA 1/h PARTIAL WAIT 2h": limit.GCRA.Kind(),
		"RL.LEASE k 1 1h ID b WAIT 2h":       limit.LEASE,
	} {
		other.say("RL.RESET k")
		if wants == limit.LEASE {
			other.say("RL.LEASE k 1 1h ID a")
		} else {
			other.say("RL.TAKE k GCRA 1/h")
		}
		if got := c.raw(cmd + "\r\n"); got != "" {
			t.Fatalf("%s: it does not wait: %q", cmd, got)
		}
		other.say("RL.TAKE k FIXED 1/h REPLACE")
		ts.pass(time.Second)
		c.expect(cmd, c.woken(), "-"+request.WrongType(limit.FIXED.Kind(), wants))
	}
}

// A command that a pause has held back can wait afterwards.
func TestWaitAfterPause(t *testing.T) {
	ts := newTestServer(t)
	c, admin := ts.client(), ts.client()
	c.say("RL.TAKE k GCRA 10/s COST 10")
	admin.say("CLIENT PAUSE 60000 ALL")
	c.expect("paused", c.say("RL.TAKE k GCRA 10/s WAIT 1s"), "")
	if ts.engine.Stats().Waiting != 0 {
		t.Error("it waits while it is paused")
	}
	admin.say("CLIENT UNPAUSE")
	c.expect("waiting", c.woken(), "")
	if ts.engine.Stats().Waiting != 1 {
		t.Error("it does not wait")
	}
	ts.pass(100 * time.Millisecond)
	c.expect("its turn", c.woken(), "[0 10 0 -1 1000]")
}

// When the server begins to stop, clients that wait are answered, and no others begin to wait.
func TestStoppingAnswersWhoWaits(t *testing.T) {
	ts := newTestServer(t)
	c, late := ts.client(), ts.client()
	c.say("RL.TAKE k GCRA 10/s COST 10")
	c.say("RL.TAKE k GCRA 10/s WAIT 1h")
	ts.Stopping()
	c.expect("the one that waits", c.woken(), "[1 10 0 100 1000]")
	late.expect("one that comes late", late.say("RL.TAKE k GCRA 10/s WAIT 1h"), "[1 10 0 100 1000]")
}

// A client that comes too late gets no reply: its library connects again after a connection ends, but gives up after an error.
func TestStoppingClosesNewConnections(t *testing.T) {
	ts := newTestServer(t)
	ts.Stopping()
	c := ts.client()
	if got := c.conn.take(); len(got) > 0 || c.conn.reason() == nil {
		t.Errorf("%q, closed: %v", got, c.conn.reason())
	}
}

// While the log cannot be written, no client waits to change something.
func TestRefusingEndsWaits(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.say("RL.TAKE k GCRA 10/s COST 10")
	c.say("RL.TAKE k GCRA 10/s WAIT 1h")
	ts.SetRefusing(errors.New("no space left"))
	if got := c.woken(); !strings.HasPrefix(got, "-MISCONF ") || !strings.Contains(got, "no space left") {
		t.Errorf("the one that waits: %s", got)
	}
	if got := c.say("RL.TAKE k GCRA 10/s WAIT 1h"); !strings.HasPrefix(got, "-MISCONF ") {
		t.Errorf("one that comes late: %s", got)
	}
	ts.SetRefusing(nil)
	c.expect("afterwards", c.say("RL.TAKE k GCRA 10/s WAIT 1h"), "")
	ts.pass(100 * time.Millisecond)
	c.expect("its turn", c.woken(), "[0 10 0 -1 1000]")
}

// Time passes by itself here: each client is granted in time by the server's own
// clock and timer.
func TestRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, set := config.New()
		srv := New(Options{Settings: set, Registry: registry, Engine: engine.New(engine.Options{Seed: 1}), Clock: clock.NewReal(), Version: "test"})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); srv.Run(ctx) }()
		ts := &testServer{Server: srv, t: t}
		begin := time.Now()
		c := ts.client()
		c.say("RL.TAKE k GCRA 10/s COST 10")
		c.say("RL.LEASE l 1 1m ID a")
		for i, test := range []struct {
			command string
			after   time.Duration
			want    string
		}{
			{"RL.TAKE k GCRA 10/s WAIT 10s", 100 * time.Millisecond, "[0 10 0 -1 1000]"},
			{"RL.TAKE k GCRA 10/s COST 9 WAIT 300", 400 * time.Millisecond, "[1 10 3 600 700]"},
			{"RL.TAKE k GCRA 10/s COST 10 WAIT 1h", 1100 * time.Millisecond, "[0 10 0 -1 1000]"},
			{"RL.LEASE l 1 1h ID b WAIT 2h", time.Minute, "[0 1 0 -1 3600000]"},
		} {
			if got := c.say(test.command); got != "" {
				t.Fatalf("step %d: %s", i, got)
			}
			<-c.conn.woken
			c.s.Resume()
			if at := time.Since(begin); at != test.after {
				t.Errorf("step %d: answered after %v, want %v", i, at, test.after)
			}
			c.expect(test.command, c.heard(), test.want)
		}
		cancel()
		<-done
	})
}

// Many clients that wait cost only memory.
func TestManyWait(t *testing.T) {
	const n = 20_000
	ts := newTestServer(t, "maxclients 30000")
	ts.client().say("RL.TAKE k GCRA 1000/s COST 1000")
	command := encode("RL.TAKE", "k", "GCRA", "1000/s", "WAIT", "1h")
	sessions, conns := make([]*session, n), make([]*fakeConn, n)
	goroutines := runtime.NumGoroutine()
	before := heapBytesNow()
	for i := range sessions {
		conns[i] = &fakeConn{remote: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: i}, woken: make(chan struct{}, 1)}
		sessions[i] = ts.Accept(conns[i]).(*session)
		sessions[i].Data(command)
	}
	t.Logf("%d bytes for each client that waits, its connection not counted", int64(heapBytesNow()-before)/n)
	if more := runtime.NumGoroutine() - goroutines; more > 0 {
		t.Errorf("%d goroutines", more)
	}
	for range n / 1000 {
		ts.pass(time.Second)
	}
	for i, s := range sessions {
		select {
		case <-conns[i].woken:
		default:
			t.Fatalf("client %d was not woken", i)
		}
		if s.Resume(); !bytes.HasPrefix(conns[i].take(), []byte("*5\r\n:0\r\n")) {
			t.Fatalf("client %d was not granted", i)
		}
		s.Closed(nil)
	}
	if next := ts.engine.Wake(ts.clock.Now()); next != math.MaxInt64 || ts.Clients() != 1 {
		t.Errorf("there is a deadline at %d, and %d clients", next, ts.Clients())
	}
}

func heapBytesNow() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A transaction takes nothing from those that wait: not by a reservation either, and not by a request that would replace what
// the key holds. Nor does it remove the key for the latter.
func TestTransactionsDoNotOvertake(t *testing.T) {
	ts := newTestServer(t)
	a, other := ts.client(), ts.client()
	a.say("RL.TAKE k GCRA 10/s COST 10")
	a.expect("a", a.say("RL.TAKE k GCRA 10/s COST 2 WAIT 1s"), "")
	other.steps(ts,
		[2]string{"MULTI", "OK"},
		[2]string{"RL.RESERVE k GCRA 10/s", "QUEUED"},
		[2]string{"RL.TAKE k GCRA 10/s", "QUEUED"},
		[2]string{"RL.PEEK k GCRA 10/s COST 5", "QUEUED"},
		[2]string{"EXEC", "[[1 10 0 200 1000] [1 10 0 200 1000] [1 10 0 500 1000]]"},
	)
	ts.pass(200 * time.Millisecond)
	a.expect("a, when it was told", a.woken(), "[0 10 0 -1 1000]")
}

// RL.TAKE with PARTIAL and REPLACE gives the same replies in a transaction as by itself.
func TestReplacesAPartInATransaction(t *testing.T) {
	for _, txn := range []bool{false, true} {
		ts := newTestServer(t)
		c := ts.client()
		c.say("RL.TAKE k FIXED 5/s")
		if txn {
			c.say("MULTI")
		}
		got := c.say("RL.TAKE k GCRA 10/s COST 12 PARTIAL REPLACE")
		want := "[0 10 0 -1 1000 10]"
		if txn {
			got, want = c.say("EXEC"), "["+want+"]"
		}
		c.expect("a part", got, want)
	}
}
