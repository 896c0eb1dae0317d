package server

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"limitdb/uplink"
)

// lateConn is a connection whose peer's bytes arrive late: those that come during hold can be read after let, also if
// the peer has closed the connection meanwhile.
type lateConn struct {
	net.Conn
	mu    sync.Mutex
	moved *sync.Cond
	b     []byte
	held  bool
	over  bool // the peer has closed it
	ended bool // this end has
}

func newLateConn(c net.Conn) *lateConn {
	l := &lateConn{Conn: c}
	l.moved = sync.NewCond(&l.mu)
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, err := c.Read(b)
			l.set(func() { l.b, l.over = append(l.b, b[:n]...), err != nil })
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *lateConn) set(change func()) {
	l.mu.Lock()
	change()
	l.mu.Unlock()
	l.moved.Broadcast()
}

func (l *lateConn) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.ended && (l.held || len(l.b) == 0 && !l.over) {
		l.moved.Wait()
	}
	if l.ended || len(l.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, l.b)
	l.b = l.b[n:]
	return n, nil
}

func (l *lateConn) Close() error {
	l.set(func() { l.ended = true })
	return l.Conn.Close()
}

// arrived waits until bytes with text in them are held up.
func (l *lateConn) arrived(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !bytes.Contains(l.b, []byte(text)) {
		l.moved.Wait()
	}
}

// lateNodes are two nodes between which bytes are late. over is closed when the leader has done with the uplink.
func lateNodes(t *testing.T) (n *twoNodes, late *lateConn, over <-chan struct{}) {
	n = newTwoNodes(t)
	n.cut()
	near, far := net.Pipe()
	late = newLateConn(far)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.host.Serve(late)
	}()
	l := uplink.NewLink(near)
	t.Cleanup(l.Close)
	n.link.Store(l)
	return n, late, ended
}

// A command that arrives long after its client was told that its outcome is unknown does not begin.
func TestLateCommandDoesNotBegin(t *testing.T) {
	const set, del = "SET lock mine\r\n", "DEL lock\r\n"
	for name, step := range map[string]struct {
		late   time.Duration
		direct bool
		want   string
	}{
		"in time":                       {late: time.Duration(uplink.Lease), want: "nil"},
		"late":                          {late: time.Duration(uplink.Lease) + 1, want: `"mine"`},
		"very late":                     {late: 45 * time.Second, want: `"mine"`},
		"without a connection, in time": {late: time.Duration(uplink.Lease), direct: true, want: "nil"},
		"without a connection, late":    {late: time.Duration(uplink.Lease) + 1, direct: true, want: `"mine"`},
	} {
		t.Run(name, func(t *testing.T) {
			n, late, over := lateNodes(t)
			c := n.follower.client()
			c.gets(set, "OK")
			late.set(func() { late.held = true })
			var reply <-chan string
			if step.direct {
				reply = n.asks("DEL", "lock")
			} else {
				c.s.Data([]byte(del))
			}
			late.arrived("DEL")
			n.cut()
			var got string
			if step.direct {
				got = <-reply
			} else {
				got = c.receive(1)[0]
			}
			if got != "-"+errUnknownOutcome {
				t.Errorf("the client gets %s", got)
			}
			n.leader.clock.Advance(step.late)
			late.set(func() { late.held = false })
			<-over
			if got := line(n.leader.client().do("GET", "lock")); got != step.want {
				t.Errorf("the lock is %s, want %s", got, step.want)
			}
		})
	}
}

// A command that a pause has held back begins only if its client still waits for it.
func TestLateCommandBehindAPause(t *testing.T) {
	for _, late := range []bool{false, true} {
		n, conn, over := lateNodes(t)
		c, admin := n.follower.client(), n.leader.client()
		c.gets("DBSIZE\r\n", "0")
		admin.do("CLIENT", "PAUSE", "100000000")
		c.s.Data([]byte("SET k v\r\n"))
		for n.leader.clients.Parked.Load() == 0 {
			runtime.Gosched()
		}
		want := `"v"`
		if late {
			conn.set(func() { conn.held = true })
			n.leader.clock.Advance(time.Duration(uplink.Lease) + 1)
			want = "nil"
		}
		admin.do("CLIENT", "UNPAUSE")
		for n.leader.clients.Parked.Load() != 0 {
			runtime.Gosched()
		}
		n.cut()
		conn.set(func() { conn.held = false })
		<-over
		if got := line(admin.do("GET", "k")); got != want {
			t.Errorf("late %v: the value is %s, want %s", late, got, want)
		}
	}
}

// If the other node was only hard to reach for a while, what the leader has not begun is sent again.
func TestLateCommandIsSentAgain(t *testing.T) {
	n, late, _ := lateNodes(t)
	c := n.follower.client()
	c.gets("INCR k\r\n", "1")
	late.set(func() { late.held = true })
	c.s.Data([]byte("INCR k\r\nINCR k\r\n"))
	direct := n.asks("INCR", "direct")
	late.arrived("direct")
	n.leader.clock.Advance(time.Duration(uplink.Lease) + 1)
	late.set(func() { late.held = false })
	if got := c.receive(2); got[0] != "2" || got[1] != "3" {
		t.Errorf("%q", got)
	}
	if got := <-direct; got != "1" {
		t.Error(got)
	}
	if n.follower.counters.unknownOutcomes.Load() != 0 {
		t.Error("an outcome is unknown")
	}
}

// A request that waits at the leader gives up its place when the client's node is not heard any more.
func TestLateWaiterGivesUp(t *testing.T) {
	n, late, over := lateNodes(t)
	c := n.follower.client()
	c.gets("RL.TAKE a GCRA 1/m\r\n", "[0 1 0 -1 60000]")
	c.s.Data([]byte("RL.TAKE a GCRA 1/m WAIT 1d\r\n"))
	for n.leader.engine.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	late.set(func() { late.held = true })
	n.leader.clock.Advance(10 * time.Second)
	<-over
	if waiting := n.leader.engine.Stats().Waiting; waiting != 0 {
		t.Errorf("%d wait", waiting)
	}
}
