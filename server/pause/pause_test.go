package pause

import (
	"testing"
	"time"

	"limitdb/internal/clock"
	"limitdb/server/spec"
)

// All pauses share one timer, which is stopped when they are over.
func TestPausesLeaveNoTimer(t *testing.T) {
	p := &Pause{Clock: clock.NewFake(0), Changed: func(bool) {}}
	var timers []*time.Timer
	for range 3 {
		p.Start(0, int64(1e6*time.Second), true)
		timers = append(timers, p.timer)
	}
	p.Stop()
	for i, timer := range timers {
		if timer.Stop() {
			t.Errorf("the timer of pause %d was left", i+1)
		}
	}
}

// woken counts how often it is woken.
type woken int

// Wake implements waiters.Waiter.
func (w *woken) Wake() { *w++ }

// The end of a pause wakes those that it holds, once, and holds nobody afterwards.
func TestEndOfAPauseWakes(t *testing.T) {
	p := &Pause{Clock: clock.NewFake(0), Changed: func(bool) {}}
	w, write := new(woken), &spec.Command{Flags: spec.Write}
	p.Start(0, int64(time.Hour), false)
	if p.Holds(w, &spec.Command{}) {
		t.Error("a pause of writes holds a command that writes nothing")
	}
	for range 2 {
		if !p.Holds(w, write) {
			t.Error("a command is not held")
		}
	}
	p.Stop()
	p.Stop()
	if *w != 1 || p.Holds(w, write) || p.Held.Len() != 0 {
		t.Errorf("woken %d times, %d are held", *w, p.Held.Len())
	}
}
