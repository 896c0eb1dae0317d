package forward

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookAgain is after how long a command that was refused by a node looks for the leader again: that node may be
	// about to lead, and its log may have told others before itself.
	lookAgain = 20 * time.Millisecond
	// MaxLeaderless is the most clients whose commands wait for a leader.
	MaxLeaderless = 10_000
)

// Looker is somebody whose commands wait for a leader: a client's connection, or a caller of Do.
type Looker interface {
	// Wake has it look whether there is a leader. It does not block.
	Wake()
}

// Waker is a Looker that receives a token to look. Its capacity is 1.
type Waker chan struct{}

// Wake implements Looker.
func (w Waker) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Leaderless are those whose commands wait for a leader. Its zero value is ready to use.
type Leaderless struct {
	mu   sync.Mutex
	set  map[Looker]struct{} // guarded by mu
	soon atomic.Bool         // WakeSoon was called, and has not woken them yet
}

// Add returns false if too many wait already.
func (l *Leaderless) Add(who Looker) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.set) >= MaxLeaderless {
		return false
	}
	if l.set == nil {
		l.set = map[Looker]struct{}{}
	}
	l.set[who] = struct{}{}
	return true
}

// Remove forgets who, if it waits.
func (l *Leaderless) Remove(who Looker) {
	l.mu.Lock()
	delete(l.set, who)
	l.mu.Unlock()
}

// Has reports whether who waits.
func (l *Leaderless) Has(who Looker) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.set[who]
	return ok
}

// Len returns how many wait.
func (l *Leaderless) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.set)
}

// Wake has all of them look whether there is a leader.
func (l *Leaderless) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for who := range l.set {
		who.Wake()
	}
}

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
