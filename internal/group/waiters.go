// Package group has what group commits share, whatever they commit to: a standalone server to its disk, a node to a
// majority. One goroutine drains what has changed, has it kept, and releases the replies that wait for that. Other changes
// gather meanwhile, and the next drain serves them all.
package group

import "sync/atomic"

// Waiters are replies that wait for drains, which are numbered. A lock of their owner guards them, but not Kick and Kicked.
type Waiters struct {
	all      []waiter
	unkicked atomic.Bool // somebody waits, and the drainer does not know it yet
}

// waiter is one of them: fn is called with the outcome of the drain with a number.
type waiter struct {
	at uint64
	fn func(error)
}

// Add makes fn wait for the drain with a number. The drainer is told by the next Kick, so that many share one drain.
func (w *Waiters) Add(at uint64, fn func(error)) {
	w.all = append(w.all, waiter{at, fn})
	if !w.unkicked.Load() { // else the drainer is told later, and looks then
		w.unkicked.Store(true)
	}
}

// Kick reports whether the drainer must be told that somebody waits. It is cheap if not.
func (w *Waiters) Kick() bool { return w.unkicked.Load() && w.unkicked.Swap(false) }

// Kicked reports whether the drainer knows of all who wait.
func (w *Waiters) Kicked() bool { return !w.unkicked.Load() }

// Len returns how many wait.
func (w *Waiters) Len() int { return len(w.all) }

// Last returns the drain for which the last one waits; 0 if nobody does.
func (w *Waiters) Last() uint64 {
	if len(w.all) == 0 {
		return 0
	}
	return w.all[len(w.all)-1].at
}

// Until removes and returns those who wait for a drain up to a number. Numbers are nearly in order; who stands behind one
// with a higher number waits with it.
func (w *Waiters) Until(at uint64) Told {
	n := 0
	for n < len(w.all) && w.all[n].at <= at {
		n++
	}
	if n == 0 {
		return nil
	}
	told := Told(w.all[:n:n])
	w.all = append(make([]waiter, 0, n), w.all[n:]...) // about as many come for the next
	return told
}

// All removes and returns all.
func (w *Waiters) All() Told {
	told := Told(w.all)
	w.all = nil
	return told
}

// Told are replies that need not wait any more.
type Told []waiter

// Tell calls each with the outcome. No lock need be held.
func (t Told) Tell(err error) {
	for _, w := range t {
		w.fn(err)
	}
}
