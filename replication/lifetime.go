package replication

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// lifetime is how long a node runs. It ends when all that has begun in it has ended.
type lifetime struct {
	stop  chan struct{} // closed when the node stops
	mu    sync.Mutex    // held by whoever adds to loops, and looks at stop before
	loops sync.WaitGroup
}

func newLifetime() *lifetime { return &lifetime{stop: make(chan struct{})} }

// end stops what runs, and waits for it. It is called once.
func (l *lifetime) end() {
	l.mu.Lock()
	close(l.stop)
	l.mu.Unlock()
	l.loops.Wait()
}

// add makes end wait for one more Done of loops, unless the node stops. It reports whether it did.
func (l *lifetime) add() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stopped(l.stop) {
		return false
	}
	l.loops.Add(1)
	return true
}

// start runs fn in a goroutine of its own, and reports whether it did: it does not if the node stops.
func (l *lifetime) start(fn func()) bool {
	if !l.add() {
		return false
	}
	go func() {
		defer l.loops.Done()
		fn()
	}()
	return true
}

// request makes a request of Raft and waits for the answer, as end does. It returns raft.ErrRaftShutdown if the node
// stops.
func (l *lifetime) request(make func() raft.Future) error {
	if !l.add() {
		return raft.ErrRaftShutdown
	}
	defer l.loops.Done()
	return make().Error()
}

// errLate is returned by await.
var errLate = errors.New("replication: not in time")

// await calls done now and again until it returns true. It returns errLate after a time, and raft.ErrRaftShutdown if the
// node stops.
func (l *lifetime) await(every, most time.Duration, done func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	late := time.NewTimer(most)
	defer late.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late.C:
			return errLate
		case <-l.stop:
			return raft.ErrRaftShutdown
		}
	}
	return nil
}

// stopped reports whether stop is closed.
func stopped(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}
