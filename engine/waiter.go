package engine

import (
	"errors"
	"sync/atomic"

	"limitdb/engine/wait"
	"limitdb/limit"
)

// Waker is notified once, from any goroutine, that a request has been decided.
// Wake must not block.
type Waker interface {
	Wake()
}

// Waiter is one request to Ask. It must not be reused.
type Waiter struct {
	Request
	// All is what Ask asks for, unless it is nil. Request is then the engine's.
	All *Together
	// Until is the last moment, in Unix nanoseconds, at which the request may
	// be granted.
	Until int64
	// Owner is notified if the request had to wait.
	Owner Waker

	done     atomic.Bool
	decision limit.Decision
	granted  int64
	err      error

	engine *core // in which it waits or has waited; nil: nowhere
	// at is the queue in which it waits or has waited; of a request for several limits, it changes. The locks of the
	// shards of its keys guard it, and the member.
	at     *wait.Queue
	member wait.Member
}

// Done reports whether the request has been decided. It may be called at any time.
func (w *Waiter) Done() bool { return w.done.Load() }

// Result returns the decision and how much was granted, once Done reports true.
// A granted request has nothing left to wait for. The decisions of a request for several
// limits are in All.
func (w *Waiter) Result() (d limit.Decision, granted int64, err error) {
	return w.decision, w.granted, w.err
}

// Key returns the key of a request that has had to wait, once Done reports true. It
// must not be changed.
func (w *Waiter) Key() []byte {
	if w.at == nil {
		return nil
	}
	return w.at.Key()
}

// InPlaceOf gives w, which has not asked yet, the place of old in the order of
// asking. It does nothing if old never had to wait.
func (w *Waiter) InPlaceOf(old *Waiter) { w.member.InPlaceOf(&old.member) }

// Fail ends a request for which Ask, or the transaction that asked, has returned an error.
func (w *Waiter) Fail(err error) { w.finish(-1, err) }

// isIn notes where w waits: in e. Others may read what does not change, without a lock.
func (w *Waiter) isIn(e *core) {
	if w.engine == nil || w.All != nil {
		w.at = w.member.Queue()
	}
	if w.engine == nil {
		w.engine = e
	}
}

// finish ends the request, once what it has taken is stored. at is the limit that denies, or -1.
func (w *Waiter) finish(at int, err error) {
	if w.All != nil {
		w.All.At = at
	}
	w.err = err
	w.done.Store(true)
}

var (
	// errGone ends a step that finds nothing to decide.
	errGone = errors.New("engine: the request is not ready")
	// errWithdrawn ends a request that will ask again.
	errWithdrawn = errors.New("engine: the request is withdrawn")
)
