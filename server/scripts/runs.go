package scripts

import (
	"sync/atomic"

	"limitdb/script"
)

// Run is a script that runs.
type Run struct {
	Flag  atomic.Bool // the script must call Attend before its next step
	cache *Cache
	since int64 // ns of Unix time

	stopped, killed, late, over atomic.Bool

	// These are guarded by the cache's lock.
	hold  chan struct{} // closed when a run that has been told to wait may go on; nil: it may
	seen  bool          // by the watch
	least uint64        // the smallest heap since it began
	next  uint64        // the heap at which to look again
}

// Stop makes the script end.
func (r *Run) Stop() { r.end(&r.stopped) }

func (r *Run) end(why *atomic.Bool) {
	why.Store(true)
	r.Flag.Store(true)
}

// ended reports whether the script must end.
func (r *Run) ended() bool {
	return r.stopped.Load() || r.killed.Load() || r.late.Load() || r.over.Load()
}

// Attend waits while the run is held, and returns an error if it must end.
func (r *Run) Attend() error {
	for !r.ended() {
		r.cache.mu.Lock()
		hold := r.hold
		r.cache.mu.Unlock()
		if hold == nil {
			return nil
		}
		<-hold
	}
	return script.ErrStopped
}

// Killed reports whether the script was stopped by Kill.
func (r *Run) Killed() bool { return r.killed.Load() }

// Late reports whether the script was stopped because its time is over.
func (r *Run) Late() bool { return r.late.Load() }

// Over reports whether the script was stopped because of the heap.
func (r *Run) Over() bool { return r.over.Load() }

// Begin returns a virtual machine and a run, which End gives back.
func (s *Cache) Begin(now int64) (*script.VM, *Run) {
	run := &Run{since: now, cache: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = map[*Run]bool{}
	}
	s.running[run] = true
	s.watch.begun++
	if s.watch.asleep {
		s.watch.rouse()
	}
	if n := len(s.idle); n > 0 {
		vm := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return vm, run
	}
	s.seed++
	return script.NewVM(s.seed), run
}

// End takes back a virtual machine and a run.
func (s *Cache) End(vm *script.VM, run *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, run)
	if len(s.idle) < maxIdle {
		s.idle = append(s.idle, vm)
	}
}

// Expire stops the runs that began before a time.
func (s *Cache) Expire(before int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for run := range s.running {
		if run.since < before {
			run.end(&run.late)
		}
	}
}

// Kill stops all runs, and reports whether there was one.
func (s *Cache) Kill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for run := range s.running {
		run.end(&run.killed)
	}
	return len(s.running) > 0
}
