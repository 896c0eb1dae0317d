package forward

import (
	"math"
	"sync/atomic"
	"time"

	"limitdb/server/waiters"
)

const (
	// lookAgain is after how long a command that was refused by a node looks for the leader again: that node may be
	// about to lead, and its log may have told others before itself.
	lookAgain = 20 * time.Millisecond
	// MaxLeaderless is the most clients whose commands wait for a leader.
	MaxLeaderless = 10_000
)

// Waker is a waiter that receives a token to look. Its capacity is 1.
type Waker chan struct{}

// Wake implements waiters.Waiter.
func (w Waker) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Leaderless are those whose commands wait for a leader: they are woken to look for one. Its zero value is ready to use.
type Leaderless struct {
	waiters.Set
	soon atomic.Bool // WakeSoon was called, and has not woken them yet
}

// Add returns false if too many wait already.
func (l *Leaderless) Add(w waiters.Waiter) bool { return l.Set.Add(w, math.MaxInt64, MaxLeaderless) }

// WakeSoon is Wake after a short time.
func (l *Leaderless) WakeSoon() {
	if l.soon.Swap(true) {
		return
	}
	time.AfterFunc(lookAgain, func() {
		l.soon.Store(false)
		l.Wake()
	})
}
