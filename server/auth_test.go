package server

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"limitdb/transport"
)

// guess sends a wrong password and returns the replies that come at once.
func (c *testClient) guess() string { return c.raw(string(encode("AUTH", "guess"))) }

// pass advances the clock and releases the clients that have waited long enough.
func (ts *testServer) passAuth(d time.Duration) {
	ts.clock.Advance(d)
	ts.authDelays.Release(ts.clock.Now())
}

const wrongReply = "-" + errWrongPass + "\r\n"

func TestRightPasswordAlwaysPasses(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	for i := range 40 {
		ts.clientFrom(fmt.Sprintf("192.0.2.1:%d", 1000+i)).guess()
		if got := line(ts.clientFrom(fmt.Sprintf("192.0.2.1:%d", 2000+i)).do("AUTH", "secret")); got != "OK" {
			t.Fatalf("after %d wrong passwords from the address: %s", i+1, got)
		}
	}
	if got := ts.clientFrom("192.0.2.1:3000").do("HELLO", "2", "AUTH", "default", "secret"); len(got.Elems) != 14 {
		t.Errorf("HELLO: %s", line(got))
	}
	if n := ts.counters.authFailures.Load(); n != 40 {
		t.Errorf("%d failures counted", n)
	}
}

func TestWrongPasswordsAreDelayedByAddress(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	first := ts.clientFrom("192.0.2.1:1000")
	for range authBurst {
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
	if first.s.Resume(); first.s.state == running {
		t.Fatal("answered too early")
	}
	ts.passAuth(1)
	if got := first.resume(); got != wrongReply+"+OK\r\n+PONG\r\n" {
		t.Errorf("after a second: %q", got)
	}
	if len(second.conn.woken) != 0 {
		t.Error("the second client is woken with the first")
	}
	ts.passAuth(time.Second)
	if got := second.resume(); got != wrongReply {
		t.Errorf("after two seconds: %q", got)
	}
	if n := ts.authDelays.Len(); n != 0 {
		t.Errorf("%d clients wait", n)
	}
}

func TestTooManyWrongPasswordsCloseTheConnection(t *testing.T) {
	closed := func(t *testing.T, c *testClient) {
		t.Helper()
		if got := c.guess(); got != "-"+errTooManyAuth+"\r\n" || !errors.Is(c.conn.reason(), errGuesses) || !c.conn.flushed {
			t.Errorf("%q, closed for %v", got, c.conn.reason())
		}
	}
	t.Run("one address", func(t *testing.T) {
		ts := newTestServer(t, "requirepass secret")
		for range authBurst {
			ts.client().guess()
		}
		for range authMaxWait / authPeriod {
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
			for range authBurst {
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
	for i := range authBurst {
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
	for range authBurst {
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
