package transport

import (
	"sync"
	"sync/atomic"
)

// Life is the one place that says how far a connection has come. The driver, the
// session and whoever else closes a connection all go by it; nobody keeps a copy.
//
//		        Drain          CloseAfterFlush         sent, or given up
//		open ──────────► draining ──────────► flushing ──────────────────► closed
//		  │                  │                    │                           ▲
//		  ├──────────────────┴── CloseAfterFlush ─┘                           │
//		  └── Close, or an error of the socket, from any of the three ────────┘
//
//	  - open: commands run.
//	  - draining: no command begins any more. What the session still holds back
//	    may be written.
//	  - flushing: nothing is written any more. What is queued is sent, and input is
//	    thrown away.
//	  - closed: nothing gets through. The socket is closed, or is about to be.
//
// A connection never goes back, and keeps the first reason that it was given. All
// methods may be called from any goroutine.
type Life struct {
	phase  atomic.Int32
	mu     sync.Mutex // guards every change of phase, and reason
	reason error
}

// The phases, in their order.
const (
	open int32 = iota
	draining
	flushing
	closed
)

// Open reports whether commands may run.
func (l *Life) Open() bool { return l.phase.Load() == open }

// Draining reports whether all that is left to do is to write what the session
// holds back.
func (l *Life) Draining() bool { return l.phase.Load() == draining }

// Drain ends the running of commands. It reports whether it was the one to do so.
// The session then calls CloseAfterFlush once it has written what it holds back.
func (l *Life) Drain(reason error) bool {
	_, ok := l.enter(draining, reason)
	return ok
}

// Reason is what the connection was, or is being, closed for; nil while it is open.
func (l *Life) Reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// Serving reports whether the session's methods run and may write.
func (l *Life) Serving() bool { return l.phase.Load() <= draining }

// Flush moves on to flushing, for drivers. It reports whether the connection was
// not that far.
func (l *Life) Flush(reason error) bool {
	_, ok := l.enter(flushing, reason)
	return ok
}

// End moves on to closed, for drivers. It reports whether the connection was not
// that far.
func (l *Life) End(reason error) bool {
	_, ok := l.enter(closed, reason)
	return ok
}

// enter moves to a later phase, and returns the one before it; false if the
// connection is there already.
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
