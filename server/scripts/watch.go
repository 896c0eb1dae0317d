package scripts

// A run counts what it uses, but the count of its memory is an estimate, and a mistake in it would let one client take all
// of the process. So the server also looks at the heap every few milliseconds while scripts run, and ends a script during
// which the heap has grown past a bound. The heap is of all goroutines and has garbage. So before a script ends for it, the
// script is held, and the garbage collected: only what stays counts.

// watch is what the cache remembers between two looks.
type watch struct {
	asleep bool          // nobody looks until a run begins
	wake   chan struct{} // holds one
	begun  uint64        // runs
	looked uint64        // begun at the last look
	heap   uint64        // at the last look
}

func (w *watch) rouse() {
	w.asleep = false
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Heap measures the heap.
type Heap interface {
	// InUse returns the bytes of all objects, with those that are garbage but not yet freed.
	InUse() uint64
	// Collect frees the garbage.
	Collect()
}

// Begun returns a channel that receives when a run begins. Until then, no looks are needed.
func (s *Cache) Begun() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch.wake == nil {
		s.watch.wake = make(chan struct{}, 1)
	}
	if s.watch.asleep = true; len(s.running) > 0 {
		s.watch.rouse()
	}
	return s.watch.wake
}

// Look ends the oldest run during which the heap has grown by more than a bound. It reports whether scripts have run since
// the last look.
func (s *Cache) Look(heap Heap, bound uint64) (busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy = s.watch.begun != s.watch.looked || len(s.running) > 0
	if s.watch.looked = s.watch.begun; len(s.running) == 0 {
		s.watch.heap = 0
		return busy
	}
	now := heap.InUse()
	suspect := s.suspect(now, bound)
	s.watch.heap = now
	if suspect == nil {
		return busy
	}

	suspect.hold = make(chan struct{})
	suspect.Flag.Store(true)
	s.mu.Unlock()
	heap.Collect()
	now = heap.InUse()
	s.mu.Lock()
	if now > suspect.least+bound {
		suspect.end(&suspect.over)
	} else if suspect.Flag.Store(false); suspect.ended() {
		suspect.Flag.Store(true)
	}
	s.watch.heap, suspect.next = now, now+bound/4
	close(suspect.hold)
	suspect.hold = nil
	return busy
}

// suspect returns the oldest run during which the heap has grown by more than a bound, nil if there is none.
func (s *Cache) suspect(now, bound uint64) (oldest *Run) {
	for run := range s.running {
		if !run.seen {
			run.seen, run.least = true, now
			if s.watch.heap > 0 { // just before it began
				run.least = min(now, s.watch.heap)
			}
		}
		run.least = min(run.least, now)
		if now > run.least+bound && now > run.next && !run.ended() && (oldest == nil || run.since < oldest.since) {
			oldest = run
		}
	}
	return oldest
}
