package transport

import (
	"io/fs"
	"net"
	"runtime"
	"time"

	"limitdb/internal/clock"
)

// Options of a Group. The zero value of each field is useful.
type Options struct {
	// Clock is what Conn.Progress is told in. Nil: the real one.
	Clock clock.Clock
	// KeepAlive is the idle time after which TCP probes a silent peer; three unanswered
	// probes, a third of it apart, end the connection. Zero: 300 s. Negative: no probes.
	KeepAlive time.Duration
	// Backlog is how many connections may wait to be accepted, within what the system
	// allows. Zero: what the system allows.
	Backlog int
	// UnixPerm is the mode of the files of unix sockets. Zero: what the umask leaves.
	UnixPerm fs.FileMode

	// Loops is the number of event loops that serve plain connections; TLS ones have a
	// goroutine each. Zero: DefaultLoops. Negative: no loops, a goroutine for each connection. Systems
	// other than Linux have no loops.
	Loops int

	// Settled is called by a loop when its sessions have been given all that there was, or 300 µs and a round of
	// it at the most: then it is time for what is better done once for many. It must not block. Nil: nobody is.
	Settled func()

	// PauseAbove is the number of unsent bytes above which a peer that reads is not read from.
	// Zero: 1 MB.
	PauseAbove int64
	// PauseMost returns the number of unsent bytes above which a peer is not read from, whether
	// it reads or not. Nil: there is no such bound.
	PauseMost func() int64
	// StallAfter is the time without a byte taken after which a paused peer may be one that writes
	// everything before it reads. It is read from until twice as much is unsent, and so on
	// each time this passes again. Zero: 100 ms.
	StallAfter time.Duration

	// FlushTimeout bounds the time without a byte taken by the peer while what is queued is sent
	// on a connection that is being closed. Zero: 10 s.
	FlushTimeout time.Duration
	// LingerTime bounds the wait for the peer's end after the last byte was sent, in which its
	// input is thrown away. Zero: 1 s.
	LingerTime time.Duration
	// LingerBytes bounds the input thrown away from CloseAfterFlush on. Zero: 4 MB.
	LingerBytes int64
	// HandshakeTimeout bounds a TLS handshake. Zero: 10 s.
	HandshakeTimeout time.Duration

	// OnAcceptError is told of the first of a run of failures to accept, and then of at
	// most one a second. wait is the pause that follows; zero when a connection could be
	// refused for want of descriptors, so that no pause is needed. Nil: not told.
	OnAcceptError func(on net.Addr, err error, wait time.Duration)
	// Refusal is sent to a connection that is refused because the process has no
	// descriptor left for it. TLS connections are closed without it.
	Refusal []byte
}

// withDefaults fills in what zero stands for.
func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.NewReal()
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 300 * time.Second
	}
	if o.Loops == 0 {
		o.Loops = DefaultLoops()
	}
	if o.PauseAbove == 0 {
		o.PauseAbove = 1 << 20
	}
	if o.StallAfter == 0 {
		o.StallAfter = 100 * time.Millisecond
	}
	if o.FlushTimeout == 0 {
		o.FlushTimeout = 10 * time.Second
	}
	if o.LingerTime == 0 {
		o.LingerTime = time.Second
	}
	if o.LingerBytes == 0 {
		o.LingerBytes = 4 << 20
	}
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	return o
}

// pacer returns the pacer of a new connection.
func (o *Options) pacer() pacer {
	return pacer{above: o.PauseAbove, after: o.StallAfter, most: o.PauseMost}
}

// DefaultLoops is the number of event loops where none is given: one for every two processors,
// at least one. The kernel's work for a socket and everything that is not a loop need the
// others; and few loops find more ready connections in each round, which makes a request cheaper. Measured
// with two processors: two loops spend half as much again on a request as one.
func DefaultLoops() int { return max(1, runtime.GOMAXPROCS(0)/2) }
