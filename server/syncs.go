package server

import "sync"

// syncs lets many clients that wait for durability share syncs. One goroutine runs the syncs, one
// after the other, as long as a client waits. Clients that give up on a disk that hangs leave
// nothing behind, however many they are.
type syncs struct {
	mu      sync.Mutex // guards all below
	running bool
	next    []chan error // receivers that wait for a sync that has not begun
}

// join returns a channel that receives the error of a sync that begins after the call. A
// receiver that gives up calls leave.
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
