package scripts

import (
	"testing"

	"limitdb/script"
)

// fakeHeap is a heap of which some is garbage.
type fakeHeap struct {
	live, garbage uint64
	collections   int
	collecting    func()
}

func (h *fakeHeap) InUse() uint64 { return h.live + h.garbage }

func (h *fakeHeap) Collect() {
	h.garbage = 0
	h.collections++
	if h.collecting != nil {
		h.collecting()
	}
}

// A script ends once the heap has grown by more than the bound since it began, by what stays after a collection.
func TestLookAtTheHeap(t *testing.T) {
	const bound = 1000
	for name, tt := range map[string]struct {
		heaps       [][2]uint64 // live and garbage at each look; the run begins after the first
		over        bool
		collections int
	}{
		"little":                 {[][2]uint64{{50, 0}, {60, 0}, {900, 100}}, false, 0},
		"live":                   {[][2]uint64{{50, 0}, {60, 0}, {1061, 0}}, true, 1},
		"before the first look":  {[][2]uint64{{50, 0}, {1051, 0}}, true, 1},
		"garbage":                {[][2]uint64{{50, 0}, {60, 0}, {1000, 500}}, false, 1},
		"garbage that was there": {[][2]uint64{{50, 5000}, {60, 100}, {1000, 61}}, false, 0},
		"a little more garbage":  {[][2]uint64{{50, 0}, {60, 0}, {1000, 500}, {1000, 240}}, false, 1},
		"as much again":          {[][2]uint64{{50, 0}, {60, 0}, {1000, 500}, {1000, 260}}, false, 2},
		"live at last":           {[][2]uint64{{50, 0}, {60, 0}, {1000, 500}, {1060, 300}}, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, h := &Cache{}, &fakeHeap{}
			s.Begin(0) // another, which makes the first look count
			var run *Run
			for i, heap := range tt.heaps {
				if h.live, h.garbage = heap[0], heap[1]; i == 1 {
					for other := range s.running {
						s.End(nil, other)
					}
					_, run = s.Begin(1)
				}
				if !s.Look(h, bound) {
					t.Error("scripts run")
				}
			}
			if run.Over() != tt.over || (run.Attend() != nil) != tt.over || run.Flag.Load() != tt.over || h.collections != tt.collections {
				t.Errorf("over %v, flag %v, %d collections", run.Over(), run.Flag.Load(), h.collections)
			}
		})
	}
}

// Of several runs the oldest ends first.
func TestTheOldestRunEnds(t *testing.T) {
	s, h := &Cache{}, &fakeHeap{live: 1}
	_, young := s.Begin(2)
	_, old := s.Begin(1)
	s.Look(h, 1000)
	h.live = 2000
	s.Look(h, 1000)
	if young.Over() || !old.Over() {
		t.Errorf("young %v, old %v", young.Over(), old.Over())
	}
	s.Look(h, 1000)
	if !young.Over() {
		t.Error("the other goes on")
	}
}

// While the garbage is collected, the run waits. It then goes on, or ends.
func TestARunIsHeld(t *testing.T) {
	for name, tt := range map[string]struct {
		live uint64
		then func(s *Cache)
		ends bool
	}{
		"garbage": {0, func(*Cache) {}, false},
		"live":    {2000, func(*Cache) {}, true},
		"killed":  {0, func(s *Cache) { s.Kill() }, true},
		"late":    {0, func(s *Cache) { s.Expire(10) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, h := &Cache{}, &fakeHeap{}
			_, run := s.Begin(1)
			s.Look(h, 1000)
			attended := make(chan error)
			h.live, h.garbage = tt.live, 2000
			h.collecting = func() {
				go func() { attended <- run.Attend() }()
				if !run.Flag.Load() {
					t.Error("the script is not told")
				}
				tt.then(s)
			}
			s.Look(h, 1000)
			if err := <-attended; (err != nil) != tt.ends {
				t.Errorf("%v", err)
			}
			if err := run.Attend(); (err != nil) != tt.ends || run.Flag.Load() != tt.ends {
				t.Errorf("afterwards: %v, flag %v", err, run.Flag.Load())
			}
		})
	}
}

// The watch rests while no scripts run, and a run rouses it.
func TestTheWatchRests(t *testing.T) {
	s, h := &Cache{}, &fakeHeap{}
	begun := s.Begun()
	if len(begun) > 0 {
		t.Fatal("nothing has begun")
	}
	vm, run := s.Begin(1)
	<-begun
	if !s.Look(h, 1000) {
		t.Error("a script runs")
	}
	s.End(vm, run)
	_, run = s.Begin(2)
	s.End(vm, run)
	if len(begun) > 0 || !s.Look(h, 1000) || s.Look(h, 1000) {
		t.Error("one has run since the first look, and none since the second")
	}
	s.Begin(3)
	if <-s.Begun(); run.Attend() != nil {
		t.Error("it has not ended")
	}
	run.Stop()
	if run.Attend() != script.ErrStopped {
		t.Error("it goes on")
	}
}
