package journal

import "sync"

// Gate keeps steps whole that change several things under several locks: a cut through all buffers has every
// change of such a step, or none.
//
// A step calls Enter before it takes its first lock and Leave after it has released the last. Steps do not
// wait for one another. To cut, call Close, set the buffers aside, and call Open; each step is then entirely
// before the cut or entirely after it. A step under one lock needs no Gate.
//
// A goroutine must not call Enter twice: the second call would wait for a Close that waits for the first.
type Gate struct{ mu sync.RWMutex }

// Enter begins a step. It waits while the gate is closed.
func (g *Gate) Enter() { g.mu.RLock() }

// Leave ends a step.
func (g *Gate) Leave() { g.mu.RUnlock() }

// Close waits until no step is in progress, and makes new steps wait.
func (g *Gate) Close() { g.mu.Lock() }

// Open lets steps begin again.
func (g *Gate) Open() { g.mu.Unlock() }

// Closed reports whether the gate is closed, or a Close is waiting. It is for tests.
func (g *Gate) Closed() bool {
	if g.mu.TryRLock() {
		g.mu.RUnlock()
		return false
	}
	return true
}
