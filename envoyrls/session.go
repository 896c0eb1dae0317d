package envoyrls

import (
	"bytes"
	"encoding/binary"
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

// frame reads one frame, and returns its length, 0 if there is none.
func (x *session) frame(b []byte) (n int) {
	if x.over {
		return 0
	}
	if !x.greeted {
		return x.greet(b)
	}
	if len(b) < frameHead {
		return 0
	}
	length := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	if length > maxFrame {
		x.broken(frameSizeError)
		return 0
	}
	if n = frameHead + length; len(b) < n {
		return 0
	}
	kind, flags, stream := b[3], b[4], binary.BigEndian.Uint32(b[5:])&maxWindow
	switch {
	case !x.settled && (kind != typeSettings || flags&flagEnd != 0):
		x.broken(protocolError)
	case (x.opens != 0) != (kind == typeContinuation) || x.opens != 0 && stream != x.opens:
		x.broken(protocolError)
	default:
		x.read(kind, flags, stream, b[frameHead:n])
	}
	return n
}

// greet reads the preface.
func (x *session) greet(b []byte) (n int) {
	n = min(len(b), len(preface))
	if string(b[:n]) != preface[:n] {
		x.over = true
		x.conn.Close(errPreface)
		return 0
	}
	if n < len(preface) {
		return 0
	}
	x.greeted = true
	if c, ok := x.conn.(transport.Certified); ok {
		if name := c.CertifiedName(); name != "" {
			x.guest.Certified(name)
		}
	}
	x.out = appendSettings(x.out, settingStreams, maxStreams, settingWindow, streamWindow, settingHeadersList, maxHeaders)
	x.out = appendWindow(x.out, 0, connWindow-firstWindow)
	return n
}

// read reads a frame.
func (x *session) read(kind, flags byte, stream uint32, payload []byte) {
	onStream := kind == typeData || kind == typeHeaders || kind == typePriority || kind == typeReset || kind == typeContinuation
	if kind != typeWindow && kind <= typeContinuation && onStream != (stream != 0) {
		x.broken(protocolError)
		return
	}
	switch kind {
	case typeData:
		x.data(stream, flags, payload)
	case typeHeaders:
		x.headers(stream, flags, payload)
	case typeContinuation:
		x.more(flags, payload)
	case typePriority:
		if len(payload) != 5 {
			x.broken(frameSizeError)
		}
	case typeReset:
		x.reset(stream, payload)
	case typeSettings:
		x.settings(flags, payload)
	case typePing:
		x.ping(flags, payload)
	case typeWindow:
		x.widen(stream, payload)
	case typePush:
		x.broken(protocolError)
	case typeGoAway: // means nothing, since the server opens no streams
		if len(payload) < 8 {
			x.broken(frameSizeError)
		}
	}
	// Other types are for extensions.
}

// settings takes the client's settings.
func (x *session) settings(flags byte, payload []byte) {
	if flags&flagEnd != 0 {
		if len(payload) != 0 {
			x.broken(frameSizeError)
		}
		return
	}
	if len(payload)%6 != 0 {
		x.broken(frameSizeError)
		return
	}
	if len(payload) > 6*maxSettings { // each may change the windows of all streams
		x.end(tooMuch, "too many settings", errProtocol)
		return
	}
	x.settled = true
	for ; len(payload) > 0; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case settingPush:
			if value > 1 {
				x.broken(protocolError)
				return
			}
		case settingFrame:
			if value < maxFrame || value > 1<<24-1 {
				x.broken(protocolError)
				return
			}
		case settingWindow:
			if value > maxWindow || !x.shift(int64(value)-x.initial) {
				x.broken(flowError)
				return
			}
			x.initial = int64(value)
		}
	}
	x.out = appendHead(x.out, 0, typeSettings, flagEnd, 0)
	x.unstick()
}

// shift changes the windows of all calls. It returns false if one becomes too large.
func (x *session) shift(by int64) (ok bool) {
	for _, c := range x.calls {
		if c.window += by; c.window > maxWindow {
			return false
		}
	}
	return true
}

// ping answers a PING, or takes the answer to one. Clients may ask seldom, and after each answer.
func (x *session) ping(flags byte, payload []byte) {
	if len(payload) != 8 {
		x.broken(frameSizeError)
		return
	}
	if flags&flagEnd != 0 {
		if x.leaving == warned && string(payload) == lastPing {
			x.leaving = leaves
			x.out = appendGoAway(x.out, x.last, noError, "")
		}
		return
	}
	if x.pingAt != 0 && x.now-x.pingAt < int64(pingLeast) {
		if x.strikes++; x.strikes > pingStrikes {
			x.end(tooMuch, "too_many_pings", errPings)
			return
		}
	}
	x.pingAt = x.now
	x.out = appendPing(x.out, flagEnd, payload)
}

// widen lets the session send more, on a stream or on all.
func (x *session) widen(stream uint32, payload []byte) {
	if len(payload) != 4 {
		x.broken(frameSizeError)
		return
	}
	by := int64(binary.BigEndian.Uint32(payload) & maxWindow)
	c := x.calls[stream]
	switch {
	case stream > x.last || stream != 0 && stream%2 == 0:
		x.broken(protocolError)
		return
	case stream == 0 && by == 0:
		x.broken(protocolError)
		return
	case stream == 0:
		if x.window += by; x.window > maxWindow {
			x.broken(flowError)
			return
		}
	case c == nil: // over already
		return
	case by == 0:
		c.cut(protocolError)
		return
	default:
		if c.window += by; c.window > maxWindow {
			c.cut(flowError)
			return
		}
	}
	x.unstick()
}

// reset ends a call that the client has given up.
func (x *session) reset(stream uint32, payload []byte) {
	switch {
	case len(payload) != 4:
		x.broken(frameSizeError)
	case stream > x.last || stream%2 == 0:
		x.broken(protocolError)
	default:
		if c := x.calls[stream]; c != nil {
			c.forget()
		}
	}
}

// headers begins the head of a call.
func (x *session) headers(stream uint32, flags byte, payload []byte) {
	payload, ok := unpadded(payload, flags)
	if flags&flagPriority != 0 && ok {
		if ok = len(payload) >= 5; ok {
			ok = binary.BigEndian.Uint32(payload)&maxWindow != stream
			payload = payload[5:]
		}
	}
	if !ok || stream%2 == 0 {
		x.broken(protocolError)
		return
	}
	x.opens, x.openEnd = stream, flags&flagEnd != 0
	if flags&flagEndHeaders != 0 {
		x.decode(payload)
		return
	}
	x.inSince = x.now
	x.block = append(x.block[:0], payload...)
}

// more continues a head.
func (x *session) more(flags byte, payload []byte) {
	if len(x.block)+len(payload) > maxBlock {
		x.end(tooMuch, "too many headers", errProtocol)
		return
	}
	x.block = append(x.block, payload...)
	if flags&flagEndHeaders != 0 {
		x.decode(x.block)
		x.block = nil
	}
}

// decode reads the fields of a head, and begins its call. Fields of streams that are over are read as well, since later ones refer to them.
func (x *session) decode(block []byte) {
	stream := x.opens
	x.opens = 0
	x.head = head{}
	_, err := x.dec.Write(block)
	if err == nil {
		err = x.dec.Close()
	}
	if err != nil {
		x.broken(compressionFail)
		return
	}
	switch c := x.calls[stream]; {
	case c != nil: // trailers
		switch {
		case c.ended:
			c.cut(streamClosed)
		case !x.openEnd || x.head.asks || x.head.bad || !c.agrees(true):
			c.cut(protocolError)
		default:
			c.finished()
		}
	case stream > x.last:
		x.last = stream
		x.begin(stream, x.openEnd)
	case !x.openEnd || x.head.asks: // else trailers of a call that was answered before
		x.broken(streamClosed)
	}
}

// data takes a part of a message.
func (x *session) data(stream uint32, flags byte, payload []byte) {
	n := int64(len(payload))
	if x.room -= n; x.room < 0 {
		x.broken(flowError)
		return
	}
	if x.room < connWindow/2 {
		x.out = appendWindow(x.out, 0, uint32(connWindow-x.room))
		x.room = connWindow
	}
	part, ok := unpadded(payload, flags)
	c := x.calls[stream]
	switch {
	case !ok || stream > x.last || stream%2 == 0:
		x.broken(protocolError)
		return
	case c == nil: // over already
		return
	case c.ended:
		c.cut(streamClosed)
		return
	}
	if c.room -= n; c.room < 0 {
		c.cut(flowError)
		return
	}
	ends := flags&flagEnd != 0
	if c.got += int64(len(part)); !c.agrees(ends) {
		c.cut(protocolError)
		return
	}
	if c.end != "" { // it is answered, and the client has not taken all
		if ends {
			c.completed()
		}
		return
	}
	if !ends && c.room < streamWindow/2 {
		x.out = appendWindow(x.out, stream, uint32(streamWindow-c.room))
		c.room = streamWindow
	}
	c.take(part, ends)
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
