package server

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"limitdb/server/auth"
	"limitdb/server/clients"
	"limitdb/server/guests"
	"limitdb/transport"
)

// guestConn is a connection from an address.
type guestConn struct {
	transport.Conn
	from   net.Addr
	life   transport.Life
	closed bool
}

func (c *guestConn) RemoteAddr() net.Addr { return c.from }
func (c *guestConn) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8081}
}
func (c *guestConn) Life() *transport.Life          { return &c.life }
func (c *guestConn) Queue() (buffers, memory int64) { return 0, 0 }
func (c *guestConn) Pending() int64                 { return 0 }
func (c *guestConn) Progress() int64                { return 0 }
func (c *guestConn) FD() int                        { return 3 }
func (c *guestConn) Loop() int                      { return 0 }
func (c *guestConn) TLS() bool                      { return false }
func (c *guestConn) CloseAfterFlush(reason error)   { c.Close(reason) }
func (c *guestConn) Close(reason error) bool {
	c.closed = true
	return c.life.End(reason)
}

// leave has a guest leave whose connection is closed, for a reason unless it had one.
func (c *guestConn) leave(g *guests.Guest, reason error) {
	c.life.End(reason)
	g.Leave(c.life.Reason())
}

// enter has a guest from an address enter.
func (ts *testServer) enter(from string) (*guests.Guest, *guestConn, error) {
	a, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		ts.t.Fatal(err)
	}
	c := &guestConn{from: a}
	g, err := ts.Guests().Enter(c)
	return g, c, err
}

// mustEnter is enter for one that is let in.
func (ts *testServer) mustEnter(from string) (*guests.Guest, *guestConn) {
	ts.t.Helper()
	g, c, err := ts.enter(from)
	if err != nil {
		ts.t.Fatal(err)
	}
	return g, c
}

// TestGuestsAreClients counts, lists and kills guests.
func TestGuestsAreClients(t *testing.T) {
	ts := newTestServer(t, "maxclients 2")
	c := ts.client()
	g, conn := ts.mustEnter("127.0.0.1:5001")
	if _, _, err := ts.enter("127.0.0.1:5002"); !errors.Is(err, clients.ErrRefused) || ts.Clients() != 2 || ts.counters.rejected.Load() != 1 {
		t.Errorf("over maxclients: %v, %d clients", err, ts.Clients())
	}
	if list := c.do("CLIENT", "LIST").Text; !strings.Contains(list, "addr=127.0.0.1:5001 laddr=127.0.0.1:8081") {
		t.Error(list)
	}
	if got := c.do("CLIENT", "KILL", "127.0.0.1:5001").Text; got != "OK" || !conn.closed {
		t.Errorf("CLIENT KILL: %s, closed %v", got, conn.closed)
	}
	conn.leave(g, errors.New("closed"))
	if ts.Clients() != 1 || ts.clients.Closed.Of(clients.ErrKilled) != 1 {
		t.Errorf("%d clients", ts.Clients())
	}
	ts.Stopping()
	if _, _, err := ts.enter("127.0.0.1:5003"); !errors.Is(err, clients.ErrStopped) {
		t.Errorf("while stopping: %v", err)
	}
}

// TestGuestsGivePasswords asks with passwords, right and wrong.
func TestGuestsGivePasswords(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	g, conn := ts.mustEnter("192.0.2.1:5001")
	may := func(user, pass string, want error) {
		t.Helper()
		if _, err := g.May([]byte(user), []byte(pass), pass != ""); !errors.Is(err, want) {
			t.Errorf("%s:%s: %v, want %v", user, pass, err, want)
		}
	}
	may("", "", guests.ErrNoPassword)
	may("default", "secret", nil)
	may("default", "secret", nil)
	may("alice", "secret", guests.ErrWrong)
	// A connection that has given the right one is as before.
	may("default", "secret", nil)
	ts.clock.Advance(time.Hour)
	if ts.clients.Check(ts.clock.Now()); conn.closed {
		t.Error("a guest that has authenticated is closed")
	}
	g.Leave(errors.New("closed"))

	// Another one that has not is closed, and guesses cost time.
	g, conn = ts.mustEnter("192.0.2.2:5001")
	for i := range auth.Burst {
		may("default", fmt.Sprint("guess", i), guests.ErrWrong)
	}
	for range 1000 {
		may("default", "guess", guests.ErrGuesses)
		may("default", "secret", guests.ErrGuesses)
	}
	// However often it has asked meanwhile, it may guess once a second.
	ts.clock.Advance(time.Second)
	may("default", "secret", nil)
	other, closes := ts.mustEnter("192.0.2.3:5001")
	ts.clock.Advance(11 * time.Second)
	if ts.clients.Check(ts.clock.Now()); conn.closed || !closes.closed {
		t.Errorf("after auth-timeout: %v and %v", conn.closed, closes.closed)
	}
	other.Leave(errors.New("closed"))
	g.Leave(errors.New("closed"))
}

// TestGuestsInProtectedMode asks from another machine while there is no password.
func TestGuestsInProtectedMode(t *testing.T) {
	ts := newTestServer(t)
	far, _ := ts.mustEnter("192.0.2.1:5001")
	if _, err := far.May(nil, nil, false); !errors.Is(err, guests.ErrProtected) {
		t.Error(err)
	}
	near, _ := ts.mustEnter("127.0.0.1:5001")
	if _, err := near.May(nil, nil, false); err != nil {
		t.Error(err)
	}
}

// TestGuestsAreBounded lets calls be incomplete for long, and hold much.
func TestGuestsAreBounded(t *testing.T) {
	ts := newTestServer(t, "maxmemory-clients 1mb")
	slow, slowConn := ts.mustEnter("127.0.0.1:5001")
	large, largeConn := ts.mustEnter("127.0.0.1:5002")
	small, smallConn := ts.mustEnter("127.0.0.1:5003")
	slow.Waits(slow.Begins())
	large.Holds(1 << 20)
	small.Holds(1 << 10)
	ts.clients.Check(ts.clock.Now())
	if slowConn.closed || !largeConn.closed || smallConn.closed {
		t.Errorf("over maxmemory-clients: %v %v %v", slowConn.closed, largeConn.closed, smallConn.closed)
	}
	large.Leave(errors.New("closed"))
	ts.clock.Advance(11 * time.Second)
	ts.clients.Check(ts.clock.Now())
	if !slowConn.closed || smallConn.closed {
		t.Errorf("over command-timeout: %v %v", slowConn.closed, smallConn.closed)
	}
}

// TestGuestsHaveCertificates asks as the user whose name a certificate has, unless a password is given.
func TestGuestsHaveCertificates(t *testing.T) {
	ts := newTestServer(t, "tls-auth-clients-user CN", "requirepass secret")
	c := ts.client()
	c.do("AUTH", "secret")
	c.do("ACL", "SETUSER", "app", "on", "resetpass", "~*", "+@all")
	c.do("ACL", "SETUSER", "more", "on", ">pw", "~*", "+@all")
	g, conn := ts.mustEnter("192.0.2.1:5001")
	g.Certified("app")
	who := func(user, password, want string) {
		t.Helper()
		ctx, err := g.May([]byte(user), []byte(password), password != "")
		if err != nil {
			if err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			return
		}
		out, err := ts.Do(ctx, encodeArgs("RL.TAKE", "a", "GCRA", "1000/m")...)
		if list := c.do("CLIENT", "LIST").Text; err != nil || !strings.HasPrefix(string(out), "*5") || !strings.Contains(list, " user="+want) {
			t.Errorf("%q %v, want %s in %s", out, err, want, list)
		}
	}
	who("", "", "app")
	who("more", "pw", "more")
	who("", "", "app")
	c.do("ACL", "SETUSER", "app", "off")
	who("", "", guests.ErrNoPassword.Error())
	c.do("ACL", "SETUSER", "app", "on")
	who("", "", "app")
	if conn.closed {
		t.Error("the guest was closed")
	}
	ts = newTestServer(t, "requirepass secret")
	c = ts.client()
	c.do("AUTH", "secret")
	c.do("ACL", "SETUSER", "app", "on", "resetpass", "~*", "+@all")
	g, _ = ts.mustEnter("192.0.2.1:5001")
	g.Certified("app")
	who("", "", guests.ErrNoPassword.Error())
}

// TestGuestsAreUsers shows which user a guest is, and closes the guests of a user who is killed or deleted, and only these.
func TestGuestsAreUsers(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for i, end := range [][]string{{"CLIENT", "KILL", "USER", "app"}, {"ACL", "DELUSER", "app"}} {
		c.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all")
		app, appConn := ts.mustEnter(fmt.Sprintf("127.0.0.1:510%d", i))
		other, otherConn := ts.mustEnter(fmt.Sprintf("127.0.0.1:520%d", i))
		ctx, err := app.May([]byte("app"), []byte("pw"), true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.May(nil, nil, false); err != nil {
			t.Fatal(err)
		}
		list := c.do("CLIENT", "LIST").Text
		for line := range strings.Lines(list) {
			if is := strings.Contains(line, " user=app"); is != strings.Contains(line, "addr=127.0.0.1:510") {
				t.Error(line)
			}
		}
		c.do(end...)
		if !appConn.closed || otherConn.closed {
			t.Errorf("%q: app closed %v, other closed %v", end, appConn.closed, otherConn.closed)
		}
		app.Leave(nil)
		other.Leave(nil)
		if out, err := ts.Do(ctx, encodeArgs("RL.TAKE", "a", "GCRA", "1/m")...); i == 1 && (err != nil || !strings.HasPrefix(string(out), "-NOPERM")) {
			t.Errorf("a call of a user who is deleted: %q, %v", out, err)
		}
	}
}
