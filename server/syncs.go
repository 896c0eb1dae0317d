package server

import "sync"

// syncs lets many who want all until now to be durable share syncs. One goroutine
// runs them, one after the other, for as long as anybody waits: however many clients give up on a disk that
// hangs, they leave nothing behind.
type syncs struct {
	mu      sync.Mutex // guards all below
	running bool
	next    []chan error // who waits for a sync that has not begun
}

// join returns what receives the error of a sync that begins from now on. A receiver that
// gives up says so by leave.
func (y *syncs) join(run func() error) chan error {
	done := make(chan error, 1)
	y.mu.Lock()
	defer y.mu.Unlock()
	y.next = append(y.next, done)
	if !y.running {
		y.running = true
		go y.work(run)
	}
	return done
}

// leave forgets a receiver.
func (y *syncs) leave(done chan error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i, c := range y.next {
		if c == done {
			y.next = append(y.next[:i], y.next[i+1:]...)
			return
		}
	}
}

func (y *syncs) work(run func() error) {
	for {
		y.mu.Lock()
		now := y.next
		y.next = nil
		if len(now) == 0 {
			y.running = false
			y.mu.Unlock()
			return
		}
		y.mu.Unlock()
		err := run()
		for _, c := range now {
			c <- err
		}
	}
}
