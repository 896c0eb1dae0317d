package transport

import (
	"io/fs"
	"net"
	"runtime"
	"time"

	"limitdb/internal/clock"
)

// Options configures a Group. The zero value of each field is useful.
type Options struct {
	// Clock is the clock of Conn.Progress. Nil means the real one.
	Clock clock.Clock
	// KeepAlive is the idle time after which TCP probes a silent peer. Three unanswered probes, a third of
	// KeepAlive apart, end the connection. Zero means 300 s; a negative value means no probes.
	KeepAlive time.Duration
	// Backlog is how many connections may wait to be accepted, up to the system's limit. Zero means the
	// system's limit.
	Backlog int
	// UnixPerm is the mode of the files of unix sockets. Zero leaves it to the umask.
	UnixPerm fs.FileMode

	// Loops is the number of event loops that serve plain connections; each TLS connection has a goroutine.
	// Zero means DefaultLoops. A negative value means no loops, and a goroutine for each connection. Systems
	// other than Linux have no loops.
	Loops int

	// AfterInput is called by a loop when its sessions have received all the input that was ready, and at the
	// latest 300 µs and a round after its last call. It is for work that is cheaper done once for many
	// sessions. It must not block. Nil means no call.
	AfterInput func()

	// PauseAbove is the number of unsent bytes above which the transport stops reading from a peer that
	// reads. Zero means 1 MB.
	PauseAbove int64
	// PauseMost returns the number of unsent bytes above which the transport stops reading from any peer. Nil
	// means no such bound.
	PauseMost func() int64
	// StallAfter is how long a paused peer may take no byte before it is treated as one that writes
	// everything before it reads. The transport then reads from it until twice as much is unsent, and so on
	// each time StallAfter passes again. Zero means 100 ms.
	StallAfter time.Duration

	// FlushTimeout is how long the peer of a closing connection may take no byte while queued bytes are sent.
	// Zero means 10 s.
	FlushTimeout time.Duration
	// LingerTime is how long a closing connection waits for the peer to end after the last byte was sent.
	// Input is thrown away meanwhile. Zero means 1 s.
	LingerTime time.Duration
	// LingerBytes is how much input is thrown away from CloseAfterFlush on. Zero means 4 MB.
	LingerBytes int64
	// HTTP2 has TLS connections agree on HTTP/2 with clients that offer it, and refuse those that offer only something else.
	HTTP2 bool
	// HandshakeTimeout bounds the time of a TLS handshake. Zero means 10 s.
	HandshakeTimeout time.Duration

	// OnAcceptError is called for the first of a run of failures to accept, and then at most once a second.
	// wait is the pause that follows; it is zero if a connection could be refused because the process has no
	// descriptors left, since no pause is then needed. Nil means no call.
	OnAcceptError func(on net.Addr, err error, wait time.Duration)
	// Refusal is sent to a connection that is refused because the process has no descriptors left. TLS
	// connections are closed without it.
	Refusal []byte
}

// withDefaults replaces zero values with the defaults.
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

// DefaultLoops returns the default number of event loops: one for every two processors, and at least one. The
// other processors are needed for the kernel's work on sockets and for everything that is not a loop. Fewer
// loops also find more ready connections in each round, which makes a request cheaper. With two processors,
// two loops used 1.5 times as much processor time for a request as one.
func DefaultLoops() int { return max(1, runtime.GOMAXPROCS(0)/2) }
