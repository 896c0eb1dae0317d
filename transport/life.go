package transport

import (
	"sync"
	"sync/atomic"
)

// Life holds the phase of a connection. It is the only place for that: the driver, the session and everybody
// else who closes the connection use it, and nobody keeps a copy.
//
//		        Drain          CloseAfterFlush         sent, or given up
//		open ──────────► draining ──────────► flushing ──────────────────► closed
//		  │                  │                    │                           ▲
//		  ├──────────────────┴── CloseAfterFlush ─┘                           │
//		  └── Close, or an error of the socket, from any of the three ────────┘
//
//	  - open: commands run.
//	  - draining: no command begins any more. The session may still write what it holds back.
//	  - flushing: nothing is written any more. Queued bytes are sent, and input is thrown away.
//	  - closed: nothing is sent any more. The socket is closed, or is about to be.
//
// A connection never goes back to an earlier phase, and keeps the first reason that it was given. Any
// goroutine may call the methods.
type Life struct {
	phase  atomic.Int32
	mu     sync.Mutex // guards reason and every change of phase
	reason error
}

// The phases, in order.
const (
	open int32 = iota
	draining
	flushing
	closed
)

// Open reports whether commands may run.
func (l *Life) Open() bool { return l.phase.Load() == open }

// Draining reports whether only the output that the session holds back is left to be written.
func (l *Life) Draining() bool { return l.phase.Load() == draining }

// Drain stops the connection from running commands. It returns false if the connection was no longer open. The
// session calls CloseAfterFlush once it has written what it holds back.
func (l *Life) Drain(reason error) bool {
	_, ok := l.enter(draining, reason)
	return ok
}

// Reason returns why the connection was or is being closed, or nil while it is open.
func (l *Life) Reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// Serving reports whether the session's methods may run and write.
func (l *Life) Serving() bool { return l.phase.Load() <= draining }

// Flush moves to the flushing phase, for drivers. It returns false if the connection was in that phase or a
// later one.
func (l *Life) Flush(reason error) bool {
	_, ok := l.enter(flushing, reason)
	return ok
}

// End moves to the closed phase, for drivers. It returns false if the connection was in that phase.
func (l *Life) End(reason error) bool {
	_, ok := l.enter(closed, reason)
	return ok
}

// enter moves to a later phase, and returns the phase before. ok is false if the connection is already in
// that phase or a later one.
func (l *Life) enter(to int32, reason error) (from int32, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from = l.phase.Load()
	if from >= to {
		return from, false
	}
	if from == open {
		l.reason = reason
	}
	l.phase.Store(to)
	return from, true
}

func (l *Life) isFlushing() bool { return l.phase.Load() == flushing }
func (l *Life) isClosed() bool   { return l.phase.Load() == closed }
