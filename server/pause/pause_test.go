package pause

import (
	"testing"
	"time"

	"limitdb/internal/clock"
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
