package envoyrls

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"

	"limitdb/transport"
)

// A session is a connection of HTTP/2. It has no goroutine: the transport calls its methods, one at a time, and a call is answered by the method
// that reads the end of it. Only a call that must wait gets a goroutine, whose result comes back through done.
type session struct {
	s     *Server
	conn  transport.Conn
	guest Guest

	// The input.
	in      []byte // not a whole frame yet
	inSince int64  // when that began, or the head that is not whole
	greeted bool   // the preface has come
	settled bool   // the client's first SETTINGS have come
	over    bool   // no more input is read
	room    int64  // how much more the client may send
	dec     *hpack.Decoder
	head    head
	block   []byte // of a head that is not whole yet
	opens   uint32 // its stream; 0: none is read
	openEnd bool   // its stream ends with it

	calls   map[uint32]*call
	last    uint32 // the stream that was opened last
	partial int    // calls whose message is not whole
	half    int64  // bytes of their messages
	oldest  *call  // the one that began first; nil: to be looked for
	lost    int    // calls that are over, and have a goroutine
	spare   *call  // a call that is over, for the next one

	// The output.
	out     []byte // frames to be written
	scratch []byte
	window  int64 // how much more the client takes
	initial int64 // how much it takes on a new stream
	stuck   []*call

	now     int64
	heard   atomic.Int64 // when the client has sent something
	pinged  int64        // when it was asked whether it is there; 0: it has answered since
	pingAt  int64        // when it has sent a PING
	strikes int          // PINGs that came too soon
	leaving leaving

	held, told int64 // bytes of calls, and what of it the guest has been told
	since      int64 // what Guest.Waits was told
	watches    atomic.Int32

	mu     sync.Mutex // guards landed
	landed []landed
}

// leaving is how far a session is on its way out.
type leaving int

const (
	stays  leaving = iota
	warned         // the client knows that the server stops
	leaves         // no call begins any more
)

// landed is the result of a call that has waited.
type landed struct {
	c     *call
	reply []byte
	err   error
}

// The errors that close connections.
var (
	errPreface  = errors.New("it does not speak HTTP/2")
	errProtocol = errors.New("it broke a rule of HTTP/2")
	errPings    = errors.New("it sent too many pings")
	errSilent   = errors.New("it did not answer a ping")
	errStopped  = errors.New("the gRPC port stops")
)

// Accept implements transport.Handler.
func (s *Server) Accept(c transport.Conn) transport.Session {
	guest, err := s.Enter(c)
	if err != nil {
		s.Log.Debug("a connection to the gRPC port is refused", "addr", c.RemoteAddr(), "err", err)
		return nil
	}
	x := &session{s: s, conn: c, guest: guest, calls: map[uint32]*call{}, room: connWindow, window: firstWindow, initial: firstWindow}
	x.dec = hpack.NewDecoder(4096, x.field)
	x.dec.SetMaxStringLength(maxHeaders)
	x.now = guest.Begins()
	x.heard.Store(x.now)
	x.inSince = x.now
	x.account()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[x] = struct{}{}
	s.open.Add(1)
	return x
}

func (x *session) field(f hpack.HeaderField) { x.head.add(f) }

// Data implements transport.Session.
func (x *session) Data(b []byte) (more bool) {
	x.now = x.guest.Begins()
	x.heard.Store(x.now)
	if len(x.in) > 0 {
		x.in = append(x.in, b...)
		b = x.in
	}
	return x.run(b)
}

// run reads frames until its turn is over.
func (x *session) run(b []byte) (more bool) {
	begin, turn := x.now, int64(x.conn.Turn())
	for {
		n := x.frame(b)
		if n == 0 {
			break
		}
		b = b[n:]
		if x.opens == 0 { // else the client owes the rest of the head
			x.inSince = x.now
		}
		if len(b) > 0 && x.s.Now()-begin > turn {
			x.keep(b)
			x.flush()
			x.conn.Yield()
			return false
		}
	}
	x.keep(b)
	x.flush()
	return true
}

// keepsRoom is how much room for input a session keeps while there is none.
const keepsRoom = 4 << 10

// keep keeps input for later.
func (x *session) keep(b []byte) {
	if x.over {
		b = nil
	}
	if len(x.in) == 0 && len(b) > 0 && x.opens == 0 {
		x.inSince = x.now
	}
	if x.in = append(x.in[:0], b...); len(b) == 0 && cap(x.in) > keepsRoom {
		x.in = nil
	}
}

// flush writes what there is to write, and tells the guest how much is held.
func (x *session) flush() {
	if len(x.out) > 0 {
		x.conn.Write(x.out)
		if x.out = x.out[:0]; cap(x.out) > 4*keepsRoom {
			x.out = nil
		}
	}
	x.account()
	if x.leaving == leaves && len(x.calls) == 0 && !x.over {
		x.over = true
		x.conn.CloseAfterFlush(errStopped)
	}
}

// account tells the guest what has changed: how many bytes are held, and since when a call is incomplete.
func (x *session) account() {
	if held := x.held + int64(len(x.in)+len(x.block)); held != x.told {
		x.told = held
		x.guest.Holds(held)
	}
	since := int64(0)
	if x.partial > 0 {
		since = x.first().begun
	}
	if since == 0 && (len(x.in) > 0 || x.opens != 0 || !x.settled) && !x.over {
		since = x.inSince
	}
	if since != x.since {
		x.since = since
		x.guest.Waits(since)
	}
}

// first returns the partial call that began first.
func (x *session) first() *call {
	if x.oldest == nil {
		id := uint32(math.MaxUint32)
		for _, c := range x.calls {
			if c.partial && c.id < id {
				id, x.oldest = c.id, c
			}
		}
	}
	return x.oldest
}

// Resume implements transport.Session.
func (x *session) Resume() (more bool) {
	x.now = x.s.Now()
	x.mu.Lock()
	all := x.landed
	x.landed = nil
	x.mu.Unlock()
	for _, l := range all {
		x.land(l)
	}
	x.look()
	return x.run(x.in)
}

// look does what is due without input: health that has changed is told, silent clients are asked whether they are there, and clients learn
// that the server stops.
func (x *session) look() {
	if x.watches.Load() > 0 {
		x.tellHealth()
	}
	heard := x.heard.Load()
	if heard >= x.pinged {
		x.pinged = 0
	}
	switch {
	case x.s.stopping.Load() && x.leaving == stays:
		x.leave()
	case x.pinged != 0 && x.now-x.pinged >= int64(pingWait):
		x.conn.Close(errSilent)
	case x.pinged == 0 && x.now-heard >= int64(pingEvery) && x.settled:
		x.pinged = x.now
		x.out = appendPing(x.out, 0, []byte("limitdb?"))
	}
}

// lastPing is what the PING has whose answer says that the client knows that the server stops.
const lastPing = "limitdb!"

// leave tells the client that the server stops. Calls that it has begun before it knows are still answered.
func (x *session) leave() {
	if !x.settled {
		x.over = true
		x.conn.CloseAfterFlush(errStopped)
		return
	}
	x.leaving, x.pinged = warned, x.now
	x.out = appendGoAway(x.out, maxWindow, noError, "")
	x.out = appendPing(x.out, 0, []byte(lastPing))
	for _, c := range x.calls {
		if (c.to == toWatch || c.to == toReflect) && c.end == "" { // they may last for ever
			c.fail(failed(codeNotNow, "the server is stopping"))
		}
	}
}

// EOF implements transport.Session.
func (x *session) EOF() (done bool) { return true }

// Closed implements transport.Session.
func (x *session) Closed(reason error) {
	for _, c := range x.calls {
		if c.cancel != nil {
			c.cancel()
		}
	}
	x.guest.Waits(0)
	x.guest.Holds(0)
	x.guest.Leave(reason)
	x.s.mu.Lock()
	delete(x.s.sessions, x)
	x.s.mu.Unlock()
	x.s.open.Done()
}

// broken ends the connection for an error of the client's.
func (x *session) broken(why uint32) {
	x.end(why, "", errProtocol)
}

// end says why the connection ends, and ends it.
func (x *session) end(why uint32, text string, reason error) {
	if x.over {
		return
	}
	x.over = true
	x.conn.Write(appendGoAway(x.out, x.last, why, text))
	x.out = x.out[:0]
	x.conn.CloseAfterFlush(reason)
}

// arrives adds the result of a call that has waited. Any goroutine may call it.
func (x *session) arrives(l landed) {
	x.mu.Lock()
	x.landed = append(x.landed, l)
	x.mu.Unlock()
	x.conn.Wake()
}

// timeoutOf returns the time that a field grpc-timeout gives, in ns.
func timeoutOf(text string) (d int64, ok bool) {
	if len(text) < 2 || len(text) > 9 {
		return 0, false
	}
	at := bytes.IndexByte([]byte("numSMH"), text[len(text)-1])
	if at < 0 {
		return 0, false
	}
	unit := [...]time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour}[at]
	for _, c := range []byte(text[:len(text)-1]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		d = 10*d + int64(c-'0')
	}
	if d > math.MaxInt64/int64(unit) {
		return math.MaxInt64, true
	}
	return d * int64(unit), true
}
