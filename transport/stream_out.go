package transport

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// outbox writes to a stream's socket without making the caller wait. It queues what the socket does not take,
// and a goroutine that lives while the queue is not empty sends it.
type outbox struct {
	c       *stream
	try     func(fd uintptr) bool // writeOnce, stored once so that a write allocates nothing
	pending atomic.Int64          // bytes queued
	total   delivery
	pausing atomic.Bool   // pace waits for progress
	moved   chan struct{} // signals progress to pace; holds one
	flushed chan struct{} // closed when everything is sent after finish

	mu     sync.Mutex // guards what follows, and writing to the socket while not busy
	q      queue
	busy   bool          // the flusher is running
	last   bool          // finish was called: nothing more is queued
	closed bool          // the socket is closed
	linger time.Duration // set by finish

	// The argument and the results of one write. They belong to the goroutine that may write.
	p   []byte
	n   int
	err error
	// block makes writeOnce ask to wait when the socket is full.
	block bool
}

func (o *outbox) init(c *stream) {
	o.c = c
	o.try = o.writeOnce
	o.moved = make(chan struct{}, 1)
	o.flushed = make(chan struct{})
}

// write sends as much of p as the socket takes now, and queues the rest. After finish or close it drops p.
func (o *outbox) write(p []byte) error {
	o.mu.Lock()
	if o.closed || o.last {
		o.mu.Unlock()
		return net.ErrClosed
	}
	var err error
	if !o.busy {
		var n int
		n, err = o.send(p, false)
		p = p[n:]
	}
	if err == nil && len(p) > 0 {
		o.q.push(&o.c.g.bufs, p)
		o.pending.Add(int64(len(p)))
		if !o.busy {
			o.busy = true
			o.c.spawn(o.flush)
		}
	}
	o.mu.Unlock()
	if err != nil {
		o.c.Close(reason(err))
	}
	return err
}

// send makes one write. If the socket is full, it waits if wait is set; otherwise it returns 0 and no error.
func (o *outbox) send(p []byte, wait bool) (int, error) {
	o.p, o.n, o.err, o.block = p, 0, nil, wait
	if err := o.c.raw.Write(o.try); err != nil {
		return 0, err
	}
	o.p = nil
	if o.n > 0 {
		o.total.sent.Add(int64(o.n))
		o.c.touch()
	}
	return o.n, o.err
}

// writeOnce is called by raw.Write. If it returns false, raw.Write calls it again when the socket has room.
func (o *outbox) writeOnce(fd uintptr) bool {
	n, err := ignoringEINTR(syscall.Write, int(fd), o.p)
	if err == syscall.EAGAIN {
		return !o.block
	}
	o.n, o.err = n, err
	return true
}

// flush is the flusher: it sends the queue until the queue is empty.
func (o *outbox) flush() {
	o.mu.Lock()
	for !o.closed && o.q.size > 0 {
		p := o.q.head()
		o.mu.Unlock()
		n, err := o.send(p, true)
		if errors.Is(err, os.ErrDeadlineExceeded) && o.goesOn() {
			_ = o.c.nc.SetDeadline(time.Now().Add(o.c.g.opts.FlushTimeout))
			err = nil
		}
		if err != nil {
			o.c.Close(reason(err))
		}
		o.mu.Lock()
		o.closed = o.closed || err != nil
		o.q.pop(&o.c.g.bufs, n)
		o.pending.Add(-int64(n))
		if o.pausing.Load() {
			o.tell()
		}
	}
	o.busy = false
	o.endIfDue()
	o.mu.Unlock()
}

// hear notes what the peer has taken since the last call.
func (o *outbox) hear() {
	_ = o.c.raw.Control(func(fd uintptr) { // it fails only if the socket is closed
		if o.total.look(int(fd)) {
			o.c.touch()
		}
	})
}

// goesOn reports whether the peer has taken anything since the last call.
func (o *outbox) goesOn() (moved bool) {
	_ = o.c.raw.Control(func(fd uintptr) { moved = o.total.goesOn(int(fd)) }) // it fails only if the socket is closed
	return moved
}

// tell wakes pace.
func (o *outbox) tell() {
	select {
	case o.moved <- struct{}{}:
	default:
	}
}

// endIfDue ends the output after its last byte. On a closed connection it first drops what is queued. The caller
// holds mu, and the flusher does not run.
func (o *outbox) endIfDue() {
	switch {
	case o.closed:
		// Not before the flusher is done, since it reads from the queue's memory.
		o.pending.Add(-int64(o.q.size))
		o.q.clear(&o.c.g.bufs)
	case o.last:
		if cw, ok := o.c.nc.(interface{ CloseWrite() error }); ok {
			_ = cw.CloseWrite()
		}
		_ = o.c.nc.SetReadDeadline(time.Now().Add(o.linger))
		close(o.flushed)
	}
}

// finish ends writing. After the queued bytes the peer sees the end, and then has the linger time to end,
// too.
func (o *outbox) finish(linger time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.last {
		return
	}
	o.last = true
	o.linger = linger
	o.goesOn()
	_ = o.c.nc.SetDeadline(time.Now().Add(o.c.g.opts.FlushTimeout))
	if !o.busy {
		o.endIfDue()
	}
}

// close drops the queue.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if !o.busy {
		o.endIfDue()
	}
}

// await returns when everything is sent after finish, or when the connection is closed, at the latest at the
// flusher's deadline.
func (o *outbox) await() {
	select {
	case <-o.flushed:
	case <-o.c.dead:
	}
}

// pace waits until the pacer lets the reader read. It returns false if the connection is being closed.
func (o *outbox) pace() bool {
	o.pausing.Store(true)
	defer o.pausing.Store(false)
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for o.c.life.Serving() {
		o.hear()
		ok, wait := o.c.pacer.read(o.pending.Load(), o.total.taken.Load(), o.c.g.mono())
		if ok {
			return true
		}
		t.Reset(wait)
		select {
		case <-o.moved:
		case <-t.C:
		case <-o.c.stopped:
		}
	}
	return false
}
