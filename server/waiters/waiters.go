// Package waiters has sets of clients that wait for an event: the end of a pause, a delayed reply, a leader.
package waiters

import "sync"

// Waiter waits for something: a client's connection, or a caller without one.
type Waiter interface {
	// Wake makes the waiter check whether it must still wait. It does not block.
	Wake()
}

// Set is a set of waiters. Its zero value is empty. Any goroutine may call its methods.
type Set struct {
	mu    sync.Mutex
	until map[Waiter]int64 // guarded by mu
}

// Add adds w, which Release wakes at the time until. It returns false if there are most waiters already.
func (s *Set) Add(w Waiter, until, most int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int64(len(s.until)) >= most {
		return false
	}
	if s.until == nil {
		s.until = map[Waiter]int64{}
	}
	s.until[w] = until
	return true
}

// Remove forgets w, if it waits.
func (s *Set) Remove(w Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, w)
}

// Until returns until when w waits, and whether it does.
func (s *Set) Until(w Waiter) (until int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok = s.until[w]
	return until, ok
}

// Len returns the number of waiters.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.until)
}

// Release wakes and forgets the waiters that have waited long enough at the time now.
func (s *Set) Release(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, until := range s.until {
		if now >= until {
			delete(s.until, w)
			w.Wake()
		}
	}
}

// Wake wakes all waiters and forgets none.
func (s *Set) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.until {
		w.Wake()
	}
}
