package replication

import (
	"sync"
	"time"
)

const (
	// stallLimit is how long a write may take. Raft does not give up the leadership while its disk hangs.
	stallLimit = 3 * time.Second
	// stallSteps is how many times the watch looks at a write in that time.
	stallSteps = 30
)

// stallWatch calls a function once a write has taken too long. Only time in which the process ran counts.
//
// The clock also advances while the process is stopped or its machine is paused, which is not the disk's fault. So the
// watch counts steps of a timer. After a pause the timer fires once, so a pause of any length counts as one step.
type stallWatch struct {
	hangs func()
	step  time.Duration // between two looks

	mu    sync.Mutex
	timer *time.Timer
	steps int
	over  bool
}

// watchStall begins to watch a write, and calls hangs if it takes longer than limit. The method stop ends the watch.
func watchStall(limit time.Duration, hangs func()) *stallWatch {
	w := &stallWatch{hangs: hangs, step: limit / stallSteps}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.step, w.look)
	return w
}

// look counts a step, and calls hangs after the last.
func (w *stallWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if w.steps++; w.steps < stallSteps {
		w.timer.Reset(w.step)
		return
	}
	w.over = true
	w.hangs()
}

func (w *stallWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}
