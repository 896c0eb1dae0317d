package replication

import (
	"sync"
	"time"
)

const (
	// stallLimit is how long a write may take. Raft does not give up the leadership while its disk hangs.
	stallLimit = 3 * time.Second
	// stallSteps is how many times a write that takes that long is looked at.
	stallSteps = 30
)

// stallWatch calls a function once a write has taken too long, in time in which the process ran.
//
// The clock goes on while a process is stopped, or its machine is paused, and a disk is not to blame for that. So the watch
// counts steps instead. A timer that is due several times over fires once when the process goes on, so a
// pause counts as one step, however long it was.
type stallWatch struct {
	hangs func()
	step  time.Duration // between two looks

	mu    sync.Mutex
	timer *time.Timer
	steps int
	over  bool
}

// watchStall begins to watch a write, which may take limit. stop ends that.
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
