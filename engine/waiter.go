package engine

import (
	"errors"
	"sync/atomic"

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
	// Until is the last moment, in Unix nanoseconds, at which the request may
	// be granted.
	Until int64
	// Owner is notified if the request had to wait.
	Owner Waker

	done     atomic.Bool
	decision limit.Decision
	granted  int64
	err      error

	shard *shard // where it waits or has waited

	// Guarded by the shard's lock, as is the queue.
	queue      *queue  // nil if it does not wait
	key        string  // of the queue, also when it waits no more
	next, prev *Waiter // in the queue, or among those to notify
	index      int32   // in queue.limits
	number     uint32  // order of arrival in the queue
}

// Done reports whether the request has been decided. It may be called at any time.
func (w *Waiter) Done() bool { return w.done.Load() }

// Result returns the decision, once Done reports true, as TakeFor and Lease
// do. A granted request has nothing left to wait for.
func (w *Waiter) Result() (d limit.Decision, granted int64, err error) {
	return w.decision, w.granted, w.err
}

// Key returns the key of a request that has had to wait, once Done reports true.
func (w *Waiter) Key() string { return w.key }

// before orders the waiters of a queue by when they give up.
func (w *Waiter) before(other *Waiter) bool {
	return w.Until < other.Until || w.Until == other.Until && int32(w.number-other.number) < 0
}

func (w *Waiter) setIndex(i int) { w.index = int32(i) }

// isTooLate reports whether w must step aside at now. due is when it could be
// granted if nothing else happens.
func (w *Waiter) isTooLate(now, due int64) bool {
	return w.Until <= now || w.Lease == nil && due > w.Until
}

// errParked is not a failure: the request now waits.
var errParked = errors.New("engine: the request waits")
