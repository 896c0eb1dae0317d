package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"limitdb/server/auth"
	"limitdb/server/clients"
	"limitdb/transport"
)

// guess sends a wrong password and returns the replies that come at once.
func (c *testClient) guess() string { return c.raw(string(encode("AUTH", "guess"))) }

// pass advances the clock and releases the clients that have waited long enough.
func (ts *testServer) passAuth(d time.Duration) {
	ts.clock.Advance(d)
	ts.auth.Delayed.Release(ts.clock.Now())
}

const wrongReply = "-" + errWrongPass + "\r\n"

// okReply is the reply to the right password.
const okReply = "+OK\r\n"

// tries returns what a new client at addr gets at once for a password.
func (ts *testServer) tries(addr, password string) string {
	return ts.clientFrom(addr).raw(string(encode("AUTH", password)))
}

// TestWhereThePasswordIsKnown checks that wrong passwords from an address delay no right one, once the right one has
// come from there.
func TestWhereThePasswordIsKnown(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	for i := range 40 {
		if got := ts.tries("192.0.2.1:1000", "secret"); got != okReply {
			t.Fatalf("after %d wrong passwords from the address: %s", i, got)
		}
		ts.clientFrom("192.0.2.1:2000").guess()
	}
	if got := ts.clientFrom("192.0.2.1:3000").do("HELLO", "2", "AUTH", "default", "secret"); len(got.Elems) != 14 {
		t.Errorf("HELLO: %s", line(got))
	}
	if n := ts.counters.authFailures.Load(); n != 40 {
		t.Errorf("%d failures counted", n)
	}
}

// TestHowLongAnAddressIsKnown checks that an address stays known while a client is connected that has given the
// password, and for an hour after that.
func TestHowLongAnAddressIsKnown(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	const addr = "192.0.2.1:1000"
	first, second := ts.clientFrom(addr), ts.clientFrom(addr)
	for range 3 {
		first.do("AUTH", "secret")
	}
	first.do("RESET")
	second.do("AUTH", "secret")
	for _, step := range []struct {
		after time.Duration
		leave *testClient // after that time
		known bool
	}{
		{24 * time.Hour, first, true},
		{24 * time.Hour, second, true},
		{time.Hour - 1, nil, true},
		{1, nil, false},
	} {
		ts.clock.Advance(step.after)
		if step.leave != nil {
			step.leave.hangUp(transport.ErrPeerClosed)
		}
		if got := ts.auth.Knows(second.conn.remote, ts.clock.Now()); got != step.known {
			t.Errorf("%v later: known %v", step.after, got)
		}
	}
	var all []*testClient
	for i := range 1000 { // what is over is forgotten
		c := ts.clientFrom(fmt.Sprintf("192.0.%d.%d:1", i/250, i%250))
		c.do("AUTH", "secret")
		all = append(all, c)
	}
	ts.clock.Advance(2 * time.Hour)
	for _, c := range all {
		c.hangUp(transport.ErrPeerClosed)
	}
	ts.clock.Advance(2 * time.Hour)
	for i := range 1000 {
		ts.clientFrom(fmt.Sprintf("198.51.%d.%d:1", i/250, i%250)).do("AUTH", "secret")
	}
	if n := ts.auth.Known(); n != 1000 {
		t.Errorf("%d addresses are remembered", n)
	}
}

// TestGuessesAreNotCompared checks that an address which is not known cannot find out at once whether a guess beyond its
// budget is right, however many connections it uses.
func TestGuessesAreNotCompared(t *testing.T) {
	ts := newTestServer(t, "requirepass secret", "slowlog-log-slower-than -1")
	for i := range auth.Burst {
		if got := ts.clientFrom(fmt.Sprintf("192.0.2.1:%d", 1000+i)).guess(); got != wrongReply {
			t.Fatal(got)
		}
	}
	waiting := ts.clientFrom("192.0.2.1:2000")
	hello := string(encode("HELLO", "3", "AUTH", "default", "secret", "SETNAME", "later"))
	if got := waiting.raw(hello + "CLIENT GETNAME\r\n"); got != "" || waiting.s.authed {
		t.Fatalf("compared at once: %q", got)
	}
	for range auth.MaxWait/auth.Period - 1 {
		if got := ts.tries("192.0.2.1:3000", "secret"); got != "" {
			t.Fatalf("compared at once: %q", got)
		}
	}
	if got := ts.tries("192.0.2.1:4000", "secret"); got != "-"+errTooManyAuth+"\r\n" {
		t.Errorf("beyond those that may wait: %q", got)
	}
	if n := ts.counters.authFailures.Load(); n != auth.Burst+1 {
		t.Errorf("%d failures counted", n)
	}
	if got := ts.tries("192.0.2.2:1000", "secret"); got != okReply {
		t.Errorf("another address: %q", got)
	}
	ts.passAuth(time.Second)
	if got := waiting.resume(); !strings.HasPrefix(got, "%7\r\n") || !strings.HasSuffix(got, "$5\r\nlater\r\n") {
		t.Errorf("when it was its turn: %q", got)
	}
	if got := ts.tries("192.0.2.1:5000", "secret"); got != okReply {
		t.Errorf("from where the right password has come now: %q", got)
	}
}

// TestComparisonsAreBounded draws attempts of strangers at random times, and checks that the server compares no more of
// them than the promise has: ten, and one a second.
//
//test:norace
func TestComparisonsAreBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ts := newTestServer(t, "requirepass secret")
		start := ts.clock.Now()
		var waiting []*testClient
		for i := range rapid.IntRange(1, 200).Draw(rt, "attempts") {
			d := rapid.SampledFrom([]time.Duration{0, 0, 0, time.Millisecond, 300 * time.Millisecond, time.Second, 7 * time.Second}).Draw(rt, "pause")
			ts.passAuth(d)
			for _, c := range waiting {
				c.s.Resume()
			}
			c := ts.clientFrom(fmt.Sprintf("192.0.2.1:%d", 1000+i))
			if c.guess() == "" && c.conn.reason() == nil {
				waiting = append(waiting, c)
			}
			turnedAway := 0
			ts.clients.Each(func(c *clients.Client) {
				if !c.Conn.Life().Open() {
					turnedAway++
				}
			})
			compared := int64(ts.counters.authFailures.Load()) - int64(turnedAway)
			if most := auth.Burst + (ts.clock.Now()-start)/auth.Period; compared > most {
				rt.Fatalf("%d attempts compared in %v", compared, time.Duration(ts.clock.Now()-start))
			}
		}
	})
}

func TestWrongPasswordsAreDelayedByAddress(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	first := ts.clientFrom("192.0.2.1:1000")
	for range auth.Burst {
		if got := first.guess(); got != wrongReply {
			t.Fatal(got)
		}
	}
	second := ts.clientFrom("192.0.2.1:2000")
	hello := string(encode("HELLO", "3", "AUTH", "default", "guess"))
	if got := first.guess() + second.raw(hello); got != "" {
		t.Fatalf("answered at once: %q", got)
	}
	if got := ts.clientFrom("192.0.2.2:1000").guess(); got != wrongReply {
		t.Errorf("another address: %q", got)
	}
	// The rest of the pipeline is answered in order.
	if got := first.raw(string(encode("AUTH", "secret")) + "PING\r\n"); got != "" {
		t.Errorf("the next command overtakes: %q", got)
	}
	ts.passAuth(time.Second - 1)
	if first.s.Resume(); first.s.pending == nil {
		t.Fatal("answered too early")
	}
	ts.passAuth(1)
	if got := first.resume(); got != wrongReply {
		t.Errorf("after a second: %q", got)
	}
	if len(second.conn.woken) != 0 {
		t.Error("the second client is woken with the first")
	}
	ts.passAuth(time.Second)
	if got := second.resume(); got != wrongReply {
		t.Errorf("after two seconds: %q", got)
	}
	ts.passAuth(time.Second)
	if got := first.resume(); got != okReply+"+PONG\r\n" {
		t.Errorf("after three seconds: %q", got)
	}
	if n := ts.auth.Delayed.Len(); n != 0 {
		t.Errorf("%d clients wait", n)
	}
}

func TestTooManyWrongPasswordsCloseTheConnection(t *testing.T) {
	closed := func(t *testing.T, c *testClient) {
		t.Helper()
		if got := c.guess(); got != "-"+errTooManyAuth+"\r\n" || !errors.Is(c.conn.reason(), clients.ErrGuesses) || !c.conn.flushed {
			t.Errorf("%q, closed for %v", got, c.conn.reason())
		}
	}
	t.Run("one address", func(t *testing.T) {
		ts := newTestServer(t, "requirepass secret")
		for range auth.Burst {
			ts.client().guess()
		}
		for range auth.MaxWait / auth.Period {
			if c := ts.client(); c.guess() != "" || c.conn.reason() != nil {
				t.Fatal("not delayed")
			}
		}
		closed(t, ts.client())
	})
	t.Run("many addresses", func(t *testing.T) {
		ts := newTestServer(t, "requirepass secret", "maxclients 16")
		from := func(i int) *testClient {
			c := ts.clientFrom(fmt.Sprintf("192.0.2.%d:1000", i))
			for range auth.Burst {
				c.guess()
			}
			return c
		}
		one, two, three := from(1), from(2), from(3)
		if one.guess()+two.guess() != "" {
			t.Fatal("not delayed")
		}
		closed(t, three)
		one.hangUp(transport.ErrPeerReset)
		if c := from(4); c.guess() != "" || c.conn.reason() != nil {
			t.Error("a client that has gone keeps its place")
		}
	})
}

// A machine with IPv6 has 2^64 addresses, so attempts are counted by network.
func TestAuthAttemptsAreCountedByNetwork(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	for i := range auth.Burst {
		ts.clientFrom(fmt.Sprintf("[2001:db8::%x]:1000", i+1)).guess()
	}
	if got := ts.clientFrom("[2001:db8::ffff]:1000").guess(); got != "" {
		t.Errorf("the same network: %q", got)
	}
	if got := ts.clientFrom("[2001:db8:0:1::1]:1000").guess(); got != wrongReply {
		t.Errorf("another network: %q", got)
	}
}

func TestDelayedReplyIsSkipped(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	wrong := string(encode("AUTH", "someone", "x"))
	for range auth.Burst {
		c.raw(wrong)
	}
	if got := c.raw("CLIENT REPLY SKIP\r\n" + wrong + "PING\r\n"); got != "" {
		t.Fatalf("at once: %q", got)
	}
	ts.passAuth(time.Second)
	if got := c.resume(); got != "+PONG\r\n" {
		t.Errorf("got %q", got)
	}
}
