package uplink

import (
	"net"
	"sync"
	"time"
)

const (
	// writeTimeout is how long a write may wait until the peer takes a byte.
	writeTimeout = 10 * time.Second
	// keepBuffer is the largest buffer that is kept between two writes.
	keepBuffer = 1 << 20
)

// outbox collects frames and writes them from a goroutine of its own. Frames that are added during a write
// are sent by the next one.
type outbox struct {
	conn net.Conn
	work chan struct{} // something was added, capacity 1

	mu    sync.Mutex // guards what follows
	out   []byte
	parts []part
	over  bool // nothing more is added
	busy  bool // a write is under way
}

// part is a number of bytes and the connection that they belong to.
type part struct {
	of *Conn
	n  int
}

func newOutbox(conn net.Conn) *outbox {
	return &outbox{conn: conn, work: make(chan struct{}, 1)}
}

// add adds frames with a payload. of is the connection that they belong to, or nil. It returns false if
// the outbox was stopped.
func (o *outbox) add(of *Conn, stream uint32, kind byte, payload []byte) bool {
	o.mu.Lock()
	if o.over {
		o.mu.Unlock()
		return false
	}
	o.out = appendFrame(o.out, stream, kind, payload)
	if of != nil && len(payload) > 0 {
		of.pending.Add(int64(len(payload)))
		o.parts = append(o.parts, part{of, len(payload)})
	}
	o.mu.Unlock()
	select {
	case o.work <- struct{}{}:
	default:
	}
	return true
}

// unsent returns the number of bytes that are in no write yet.
func (o *outbox) unsent() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.out)
}

// idle reports whether all that was added is written.
func (o *outbox) idle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over || len(o.out) == 0 && !o.busy
}

// run writes until stop is called or a write fails, and then closes the connection.
func (o *outbox) run() {
	late := time.AfterFunc(writeTimeout, func() { _ = o.conn.Close() })
	late.Stop()
	var b []byte
	var parts []part
	for range o.work {
		for {
			o.mu.Lock()
			b, o.out = o.out, b[:0]
			parts, o.parts = o.parts, parts[:0]
			o.busy = len(b) > 0
			over := o.over
			o.mu.Unlock()
			if over {
				return
			}
			if len(b) == 0 {
				break
			}
			late.Reset(writeTimeout)
			_, err := o.conn.Write(b)
			late.Stop()
			for _, p := range parts {
				p.of.sent(p.n)
			}
			clear(parts)
			if err != nil {
				o.stop()
				return
			}
			if cap(b) > keepBuffer {
				b = nil
			}
		}
	}
}

// stop drops what is not sent, and closes the connection.
func (o *outbox) stop() {
	o.mu.Lock()
	over := o.over
	o.over, o.out, o.parts = true, nil, nil
	o.mu.Unlock()
	_ = o.conn.Close()
	if !over {
		select {
		case o.work <- struct{}{}:
		default:
		}
	}
}
