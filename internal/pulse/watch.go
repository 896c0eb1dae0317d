package pulse

import (
	"sync"
	"time"
)

// watchSteps is how many times a Watch looks at a call before it is too long.
const watchSteps = 30

// A Watch calls a function once a call has taken too long. Only time in which the process ran counts.
//
// A clock also advances while the process is stopped or its machine is paused, which is nobody's fault. So the Watch counts
// steps of a timer. After a pause the timer fires once, so a pause of any length counts as one step.
type Watch struct {
	hangs func()
	step  time.Duration // between two looks

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	steps int
	over  bool
}

// NewWatch begins to watch a call, and calls hangs, once, if Stop does not come within a limit.
func NewWatch(limit time.Duration, hangs func()) *Watch {
	w := &Watch{hangs: hangs, step: limit / watchSteps}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.step, w.look)
	return w
}

// look counts a step, and calls hangs after the last.
func (w *Watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if w.steps++; w.steps < watchSteps {
		w.timer.Reset(w.step)
		return
	}
	w.over = true
	w.hangs()
}

// Stop ends the watch: the call has returned.
func (w *Watch) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}
