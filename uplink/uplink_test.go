package uplink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"limitdb/internal/clock"
	"limitdb/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a Handler whose sessions answer with what they get. A session that gets "yield" takes nothing more for a turn;
// one that gets "stop" refuses; "hold" parks it until it is woken.
type echo struct {
	mu       sync.Mutex
	sessions []*echoSession
}

type echoSession struct {
	c       transport.Conn
	resumes int
	closed  error
	eof     bool
}

func (e *echo) Accept(c transport.Conn) transport.Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &echoSession{c: c}
	e.sessions = append(e.sessions, s)
	return s
}

func (e *echo) at(i int) *echoSession {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[i]
}

func (s *echoSession) Data(b []byte) bool {
	switch string(b) {
	case "yield":
		s.c.Yield()
		return false
	case "hold":
		return false
	case "stop":
		s.c.CloseAfterFlush(ErrNotLeading)
		return false
	case "stop later": // it owes replies
		s.c.Life().Drain(ErrNotLeading)
		return false
	}
	s.c.Write(b)
	return true
}

func (s *echoSession) Resume() bool {
	s.resumes++
	s.c.Write([]byte("resumed,"))
	return true
}

func (s *echoSession) EOF() bool {
	s.eof = true
	return true
}

func (s *echoSession) Closed(reason error) { s.closed = reason }

// client is a Receiver that keeps what it gets.
type client struct {
	mu    sync.Mutex
	got   []byte
	ended bool
	cause Cause
}

func (c *client) Received(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, b...)
}

func (c *client) Ended(cause Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.cause = true, cause
}

func (c *client) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.got)
}

// pair returns an uplink and its sessions.
func pair(t *testing.T) (*Link, *echo, *Host) {
	near, far := net.Pipe()
	e := &echo{}
	h := NewHost(e, func() {}, clock.NewFake(1), clock.NewFake(1).Now)
	go func() { _ = h.Serve(far) }()
	l := NewLink(near)
	t.Cleanup(l.Close)
	return l, e, h
}

// leased returns an uplink whose other end sends one stamp and nothing else.
func leased(near, far net.Conn) *Link {
	go func() { _, _ = far.Write(appendFrame(nil, 0, kindStamp, make([]byte, stampSize))) }()
	return NewLink(near)
}

// Streams carry bytes both ways, and the end of one does not affect the others.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e, _ := pair(t)
		var to [3]client
		var s [3]*Stream
		for i := range s {
			s[i] = l.Open(&Client{Remote: "10.0.0.1:5", Local: "10.0.0.2:6", Name: "a", RESP3: true}, &to[i])
			s[i].Send([]byte{'a' + byte(i)})
		}
		synctest.Wait()
		for i := range to {
			if got := to[i].text(); got != string('a'+byte(i)) {
				t.Errorf("stream %d: %q", i, got)
			}
		}
		c := e.at(0).c.(*Conn)
		if c.RemoteAddr().String() != "10.0.0.1:5" || c.LocalAddr().String() != "10.0.0.2:6" || c.Client().Name != "a" || c.Loop() != -1 || c.FD() != -1 {
			t.Errorf("%+v", c.Client())
		}
		long := bytes.Repeat([]byte("x"), 3*maxFrame+1)
		s[0].Send(long)
		s[1].Send([]byte("yield"))
		s[1].Send([]byte("later"))
		s[2].Send([]byte("stop"))
		s[2].Send([]byte("nothing"))
		synctest.Wait()
		if got := to[0].text(); got != "a"+string(long) {
			t.Errorf("%d bytes came back", len(got))
		}
		if got := to[1].text(); got != "bresumed,later" {
			t.Errorf("%q", got)
		}
		if to[2].text() != "c" || !to[2].ended || to[2].cause != Refused || !errors.Is(e.at(2).closed, ErrNotLeading) {
			t.Errorf("%q, %v %v, %v", to[2].text(), to[2].ended, to[2].cause, e.at(2).closed)
		}
		if s[2].Send([]byte("x")) {
			t.Error("a stream that is over takes more")
		}
		s[0].End()
		s[1].Close()
		synctest.Wait()
		if !e.at(0).eof || !to[0].ended || to[0].cause != Finished || to[1].ended || e.at(1).closed == nil {
			t.Errorf("%v, %v %v, %v, %v", e.at(0).eof, to[0].ended, to[0].cause, to[1].ended, e.at(1).closed)
		}
	})
}

// A stream that ends with replies held back is not refused, whatever else was to end it: its commands have begun.
func TestClosedWhileItRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e, _ := pair(t)
		var to client
		l.Open(&Client{Remote: "10.0.0.1:5", Local: "10.0.0.2:6"}, &to).Send([]byte("stop later"))
		synctest.Wait()
		e.at(0).c.Close(errors.New("killed"))
		synctest.Wait()
		if !to.ended || to.cause != Closed {
			t.Errorf("ended: %v, cause %v; want %v", to.ended, to.cause, Closed)
		}
	})
}

// A parked session takes its input later, and a session ends when the other end closes it.
func TestStreamThatIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e, _ := pair(t)
		var to client
		s := l.Open(&Client{Remote: "/tmp/s", Local: "/tmp/s", Unix: true}, &to)
		s.Send([]byte("hold"))
		s.Send([]byte("one,"))
		s.End()
		synctest.Wait()
		if to.text() != "" || e.at(0).eof {
			t.Fatalf("%q, %v", to.text(), e.at(0).eof)
		}
		e.at(0).c.Wake()
		e.at(0).c.Wake()
		synctest.Wait()
		if to.text() != "resumed,one," || !e.at(0).eof || e.at(0).resumes != 1 || to.cause != Finished {
			t.Errorf("%q, %v, %d resumes", to.text(), e.at(0).eof, e.at(0).resumes)
		}
		var other client
		s = l.Open(&Client{}, &other)
		s.Send([]byte("x"))
		synctest.Wait()
		e.at(1).c.Close(errors.New("killed"))
		synctest.Wait()
		if !other.ended || other.cause != Closed {
			t.Errorf("%v %v", other.ended, other.cause)
		}
	})
}

// A client whose session does not take what it sends does no harm to the others of the uplink, however many there are of its kind.
func TestTooMuchInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e, _ := pair(t)
		const many, size = 8, maxInput / 4
		var to [many + 1]client
		for i := range many {
			s := l.Open(&Client{}, &to[i])
			s.Send([]byte("hold"))
			synctest.Wait()
			s.Send(make([]byte, size))
			synctest.Wait()
		}
		l.Open(&Client{}, &to[many]).Send([]byte("here"))
		synctest.Wait()
		if to[many].text() != "here" {
			t.Errorf("another client: %q", to[many].text())
		}
		closed := 0
		for i := range many {
			if to[i].ended {
				if closed++; to[i].cause != Closed || !errors.Is(e.at(i).closed, errInput) {
					t.Errorf("client %d: %v, %v", i, to[i].cause, e.at(i).closed)
				}
			}
		}
		if held := e.at(0).c.(*Conn).p.held; closed != many/2 || held != maxInput {
			t.Errorf("%d of %d are closed, and %d bytes are held", closed, many, held)
		}
		for i := range many {
			e.at(i).c.Wake()
		}
		synctest.Wait()
		for i := range many {
			if got := len(to[i].text()); !to[i].ended && got != len("resumed,")+size {
				t.Errorf("client %d gets %d bytes", i, got)
			}
		}
	})
}

// An uplink that has as many streams as it may have goes on when one ends and another begins at once, whichever node ends it.
func TestStreamsAreMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e, _ := pair(t)
		var ignored client
		s := l.Open(&Client{}, &ignored)
		for range maxStreams - 1 {
			if l.Open(&Client{}, &ignored) == nil {
				synctest.Wait() // the uplink holds too much
			}
		}
		for l.Open(&Client{}, &ignored) != nil {
		}
		synctest.Wait()
		var to client
		for range 3 {
			s.Close()
			if s = l.Open(&Client{}, &to); s == nil {
				t.Fatal("no stream in place of one that was closed")
			}
		}
		s.Send([]byte("here"))
		synctest.Wait()
		if to.text() != "here" || !l.Alive() {
			t.Errorf("%q, alive: %v", to.text(), l.Alive())
		}
		if n := len(e.sessions); n < maxStreams {
			t.Errorf("%d streams", n)
		}
	})
}

// When an uplink ends, its streams end on both nodes.
func TestUplinkThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e, h := pair(t)
		var to client
		s := l.Open(&Client{}, &to)
		s.Send([]byte("a"))
		synctest.Wait()
		h.Close(context.Background())
		synctest.Wait()
		if !to.ended || to.cause != Lost || !errors.Is(e.at(0).closed, errLost) || l.Alive() || s.Send([]byte("b")) || l.Open(&Client{}, &to) != nil {
			t.Errorf("%v %v, %v, %v", to.ended, to.cause, e.at(0).closed, l.Alive())
		}
	})
}

// An uplink whose peer reads nothing ends, and the bytes that wait for the peer are bounded until then.
func TestPeerThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		l := leased(near, far)
		var to client
		s := l.Open(&Client{}, &to)
		sent := 0
		for s.Send(make([]byte, 100<<10)) {
			if sent += 100 << 10; sent > 2*maxUnsent {
				t.Fatal("it takes everything")
			}
		}
		if l.Open(&Client{}, &to) != nil {
			t.Error("a stream begins")
		}
		time.Sleep(writeTimeout + time.Second)
		synctest.Wait()
		if l.Alive() || !to.ended || to.cause != Lost {
			t.Error("the uplink goes on")
		}
	})
}

// An uplink ends when its other node has hung: else clients would wait for it as long as it does. One whose node lives goes on without a command.
func TestNodeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		hung := leased(near, far)
		lives, _, _ := pair(t)
		var to [2]client
		for i, l := range []*Link{hung, lives} {
			l.Open(&Client{}, &to[i]).Send([]byte("hold"))
		}
		time.Sleep(time.Duration(silence) - time.Millisecond)
		synctest.Wait()
		if !hung.Alive() {
			t.Error("the uplink has ended early")
		}
		time.Sleep(time.Duration(silence) / 2)
		synctest.Wait()
		if hung.Alive() || !to[0].ended || to[0].cause != Lost {
			t.Errorf("alive: %v, ended: %v, cause %v", hung.Alive(), to[0].ended, to[0].cause)
		}
		time.Sleep(time.Hour)
		if !lives.Alive() || to[1].ended {
			t.Error("an uplink has ended whose node lives")
		}
	})
}

// A frame that no node sends ends its uplink, and nothing else.
func TestHostileFrames(t *testing.T) {
	open := appendFrame(nil, 1, kindOpen, (&Client{}).appendTo(nil))
	huge := binary.LittleEndian.AppendUint32(nil, 1<<31)
	for name, b := range map[string][]byte{
		"a huge length":        append(huge, make([]byte, 5)...),
		"kind 0":               appendFrame(nil, 1, 0, nil),
		"an unknown kind":      appendFrame(nil, 1, 9, nil),
		"a client that is cut": appendFrame(nil, 1, kindOpen, []byte{0, 9, 9}),
		"a stream twice":       append(append([]byte(nil), open...), open...),
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			e := &echo{}
			h := NewHost(e, func() {}, clock.NewFake(1), clock.NewFake(1).Now)
			var err error
			var over sync.WaitGroup
			over.Go(func() { err = h.Serve(far) })
			_, _ = near.Write(b)
			over.Wait()
			_ = near.Close()
			if !errors.Is(err, errFrame) {
				t.Errorf("%s: %v", name, err)
			}
			for _, s := range e.sessions {
				if s.closed == nil {
					t.Errorf("%s: a session goes on", name)
				}
			}
		})
	}
	// And at the other end.
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		l := leased(near, far)
		var to client
		l.Open(&Client{}, &to)
		go func() { _, _ = io.Copy(io.Discard, far) }()
		_, _ = far.Write(appendFrame(nil, 1, kindClose, []byte{99}))
		synctest.Wait()
		if l.Alive() || to.cause != Lost || !to.ended {
			t.Error("the uplink goes on")
		}
		_ = far.Close()
	})
}

// Whatever a peer sends, the uplink ends with an error or with the connection, and no session outlives it.
func TestRandomFrames(t *testing.T) {
	frame := rapid.Custom(func(t *rapid.T) []byte {
		payload := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "payload")
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			payload = (&Client{Remote: "r", Local: "l"}).appendTo(nil)
		case 1:
			return payload // no frame
		}
		return appendFrame(nil, rapid.Uint32Range(0, 3).Draw(t, "stream"), rapid.Byte().Draw(t, "kind")%6, payload)
	})
	rapid.Check(t, func(t *rapid.T) {
		near, far := net.Pipe()
		e := &echo{}
		var over sync.WaitGroup
		over.Go(func() { _ = NewHost(e, func() {}, clock.NewFake(1), clock.NewFake(1).Now).Serve(far) })
		over.Go(func() { _, _ = io.Copy(io.Discard, near) })
		for _, f := range rapid.SliceOfN(frame, 1, 12).Draw(t, "frames") {
			if _, err := near.Write(f); err != nil {
				break // it has had enough
			}
		}
		_ = near.Close()
		over.Wait()
		for i, s := range e.sessions {
			if s.closed == nil {
				t.Fatalf("session %d goes on", i)
			}
		}
	})
}

// Any bytes are an error, or the Client from which they were made.
func TestClientsAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return rapid.StringN(0, 30, 60).Draw(t, name) }
		c := Client{
			Remote: text("remote"), Local: text("local"), Name: text("name"),
			Unix: rapid.Bool().Draw(t, "unix"), TLS: rapid.Bool().Draw(t, "tls"), RESP3: rapid.Bool().Draw(t, "resp3"),
		}
		b := c.appendTo(nil)
		if got, ok := parseClient(b); !ok || got != c {
			t.Fatalf("%+v, want %+v", got, c)
		}
		if _, ok := parseClient(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); ok {
			t.Fatal("a part is read")
		}
		_, _ = parseClient(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	})
}

// The pool calls the leader when an uplink is asked for, and leaves it when another one leads.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHost(&echo{}, func() {}, clock.NewFake(1), clock.NewFake(1).Now)
		calls, fail := 0, errors.New("nobody there")
		var changed atomic.Int64
		p := NewPool(2, func() (net.Conn, error) {
			calls++
			if fail != nil {
				return nil, fail
			}
			near, far := net.Pipe()
			go func() { _ = h.Serve(far) }()
			return near, nil
		}, func() { changed.Add(1) })
		if p.Link(0) != nil || calls != 0 {
			t.Error("it calls nobody")
		}
		p.SetLeader("a")
		synctest.Wait()
		for range 2 {
			if p.Link(0) != nil {
				t.Error("an uplink without a call")
			}
			synctest.Wait()
		}
		fail = nil
		p.Link(0)
		synctest.Wait()
		first := p.Link(0)
		if first == nil || p.Link(0) != first || calls != 3 || changed.Load() != 2 {
			t.Fatalf("%v, %d calls, %d changes", first, calls, changed.Load())
		}
		p.Link(-1)
		synctest.Wait()
		if other := p.Link(-1); other == nil || other == first {
			t.Error("connections in no loop have no uplink of their own")
		}
		p.SetLeader("b")
		p.SetLeader("b")
		if p.Link(0) != nil || !first.Alive() {
			t.Error("replies of the node that led are lost")
		}
		time.Sleep(2 * grace)
		synctest.Wait()
		if next := p.Link(0); next == nil || next == first || first.Alive() {
			t.Error("the node that led is still asked")
		}
		p.SetLeader("")
		if p.Link(0) != nil {
			t.Error("there is no leader")
		}
		time.Sleep(2 * grace)
		p.Close()
		synctest.Wait()
	})
}

// An uplink that ends before its first stamp is not used, and the leader is called again when somebody asks.
func TestPoolWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := NewPool(1, func() (net.Conn, error) {
			calls++
			near, far := net.Pipe()
			if calls == 1 {
				_ = far.Close()
			} else {
				time.AfterFunc(2*leaseTimeout, func() { _ = far.Close() })
			}
			return near, nil
		}, func() {})
		p.SetLeader("a")
		for want := range 3 {
			if calls != want {
				t.Errorf("%d calls, not %d", calls, want)
			}
			if p.Link(0) != nil {
				t.Error("an uplink without a stamp is used")
			}
			time.Sleep(2 * leaseTimeout)
			synctest.Wait()
		}
		p.Close()
	})
}

// A call of a leader that is gone, which may take seconds, holds up no call of the next leader, and what comes of it is
// not used.
func TestPoolCallsTheNextLeader(t *testing.T) {
	type answer struct{ conn chan net.Conn }
	calls, ready := make(chan answer), make(chan struct{}, 10)
	p := NewPool(1, func() (net.Conn, error) {
		a := answer{make(chan net.Conn)}
		calls <- a
		return <-a.conn, nil
	}, func() { ready <- struct{}{} })
	defer p.Close()
	next := func(leader string) answer {
		p.SetLeader(leader)
		<-ready
		for range 2 { // the second one makes no call of its own
			if p.Link(0) != nil {
				t.Error("an uplink before the call is answered")
			}
		}
		return <-calls
	}
	gone, lives := next("a"), next("b")
	stamp := func(c net.Conn) { _, _ = c.Write(appendFrame(nil, 0, kindStamp, make([]byte, stampSize))) }
	here, there := net.Pipe()
	lives.conn <- here
	stamp(there)
	<-ready
	link := p.Link(0)
	if link == nil {
		t.Fatal("no uplink to the next leader")
	}
	late, end := net.Pipe()
	gone.conn <- late
	stamp(end)
	if _, err := io.Copy(io.Discard, end); err != nil {
		t.Errorf("the connection to the former leader: %v", err)
	}
	if p.Link(0) != link || !link.Alive() {
		t.Error("the uplink to the next leader was replaced")
	}
	_ = there.Close()
}
