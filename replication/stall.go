package replication

import (
	"sync"
	"time"
)

const (
	// stallLimit is how long a write may take. Raft does not give up the leadership while its disk hangs.
	stallLimit = 3 * time.Second
	// stallStep is how often a write that takes long is looked at.
	stallStep = stallLimit / 30
)

// stallWatch calls a function once a write has taken stallLimit, in time in which the process ran.
//
// The clock goes on while a process is stopped, or its machine is paused, and a disk is not to blame for that. So the watch
// counts steps instead. A timer that is due several times over fires once when the process goes on, so a
// pause counts as one step, however long it was.
type stallWatch struct {
	hangs func()

	mu    sync.Mutex
	timer *time.Timer
	steps int
	over  bool
}

// watchStall begins to watch a write. stop ends that.
func watchStall(hangs func()) *stallWatch {
	w := &stallWatch{hangs: hangs}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(stallStep, w.step)
	return w
}

// step counts a step, and calls hangs after the last.
func (w *stallWatch) step() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if w.steps++; time.Duration(w.steps)*stallStep < stallLimit {
		w.timer.Reset(stallStep)
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
