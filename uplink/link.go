package uplink

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxUnsent is how many bytes an uplink holds until its peer takes them.
	maxUnsent = 4 << 20
	readSize  = 64 << 10
	// watches is how many times in a row a Link finds, each watchEvery, that nothing has come until it ends.
	watches    = 4
	watchEvery = time.Duration(silence / watches)
)

// Link is an uplink at the node that has called. Any goroutine may call its methods, none of which blocks.
type Link struct {
	out    *outbox
	leased chan struct{} // closed once a stamp has come, or the uplink has ended
	over   atomic.Bool

	heard  atomic.Bool // a frame has come since the last watch
	missed int         // watches in a row without one; of watch alone

	mu      sync.Mutex // guards what follows
	streams map[uint32]*Stream
	last    uint32
	timer   *time.Timer // calls watch
}

// Receiver gets what comes back in a stream. One goroutine calls its methods, which must not block.
type Receiver interface {
	// Received gets replies. b is valid during the call only.
	Received(b []byte)
	// Ended is the last call, unless this node has closed the stream.
	Ended(Cause)
}

// NewLink returns an uplink over a connection, which it closes. It waits until the other node lets commands begin; if
// that takes longer than leaseTimeout, the uplink has ended.
func NewLink(conn net.Conn) *Link {
	l := &Link{out: newOutbox(conn), leased: make(chan struct{}), streams: map[uint32]*Stream{}}
	late := time.AfterFunc(leaseTimeout, l.Close)
	defer late.Stop()
	go l.out.run()
	go l.read()
	<-l.leased
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(watchEvery, l.watch)
	return l
}

// watch ends the uplink when nothing has come for silence, though stamps are due all the time: the other node hangs. It looks often, and does not read the
// clock, so that this process may have been stopped.
func (l *Link) watch() {
	if l.missed++; l.heard.Swap(false) {
		l.missed = 0
	}
	switch {
	case l.over.Load():
	case l.missed == watches:
		l.Close()
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.timer.Reset(watchEvery)
	}
}

// Alive reports whether the uplink has not ended.
func (l *Link) Alive() bool { return !l.over.Load() }

// Close ends the uplink. All its streams are Lost.
func (l *Link) Close() { l.out.stop() }

// Stream is one client's stream of an uplink.
type Stream struct {
	l  *Link
	id uint32
	to Receiver
}

// Open begins a stream, or returns nil if the uplink has ended or holds too much.
func (l *Link) Open(c *Client, to Receiver) *Stream {
	if l.out.unsent() > maxUnsent {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over.Load() || len(l.streams) >= maxStreams {
		return nil
	}
	l.last++
	for l.last == 0 || l.streams[l.last] != nil {
		l.last++
	}
	s := &Stream{l: l, id: l.last, to: to}
	if !l.out.add(nil, s.id, kindOpen, c.appendTo(nil)) {
		return nil
	}
	l.streams[s.id] = s
	return s
}

// Of reports whether the stream is one of l.
func (s *Stream) Of(l *Link) bool { return s.l == l }

// Send sends commands. It returns false if it sent none, because the stream is over or the uplink holds too
// much.
func (s *Stream) Send(b []byte) bool {
	if s.l.out.unsent() > maxUnsent {
		return false
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.l.streams[s.id] == s && s.l.out.add(nil, s.id, kindData, b)
}

// End tells the other node that the client sends nothing more. Replies still come.
func (s *Stream) End() { s.l.out.add(nil, s.id, kindEnd, nil) }

// Close ends the stream. Its Receiver gets no more calls; one that is in progress may still end.
func (s *Stream) Close() {
	if s.l.forget(s.id) != nil {
		s.l.out.add(nil, s.id, kindClose, nil)
	}
}

func (l *Link) forget(id uint32) *Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.streams[id]
	delete(l.streams, id)
	return s
}

// read passes on what comes, until the connection ends.
func (l *Link) read() {
	r := frameReader{from: bufio.NewReaderSize(l.out.conn, readSize)}
	leased := false
	for {
		f, err := r.next()
		if err != nil || !l.handle(f) {
			break
		}
		if !l.heard.Load() {
			l.heard.Store(true)
		}
		if f.kind == kindStamp && !leased {
			leased = true
			close(l.leased)
		}
	}
	l.out.stop()
	l.mu.Lock()
	l.over.Store(true)
	lost := l.streams
	l.streams = nil
	l.mu.Unlock()
	if !leased {
		close(l.leased)
	}
	for _, s := range lost {
		s.to.Ended(Lost)
	}
}

// handle passes a frame on, and reports whether it is valid. An unknown stream is one that this node has
// closed.
func (l *Link) handle(f frame) bool {
	switch {
	case f.kind == kindData:
		l.mu.Lock()
		s := l.streams[f.stream]
		l.mu.Unlock()
		if s != nil {
			s.to.Received(f.payload)
		}
		return true
	case f.kind == kindClose && len(f.payload) == 1 && Cause(f.payload[0]) <= Finished:
		if s := l.forget(f.stream); s != nil {
			s.to.Ended(Cause(f.payload[0]))
		}
		return true
	case f.kind == kindStamp && len(f.payload) == stampSize:
		// If the other node takes nothing, the stamp is dropped: a later one will do.
		if l.out.unsent() <= maxUnsent {
			l.out.add(nil, 0, kindStamp, f.payload)
		}
		return true
	}
	return false
}
