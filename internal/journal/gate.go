package journal

import "sync"

// Gate keeps steps whole that change several things under several locks: a cut through all buffers
// has every change of such a step, or none.
//
// A step calls Enter before it takes its first lock and Leave after it has released the last.
// Steps do not wait for one another. Whoever cuts calls Close, sets the buffers
// aside, and calls Open: a step is then wholly before the cut or wholly after it. A step under
// one lock is whole without a Gate.
//
// A goroutine must not call Enter twice: the second call waits for a Close that waits for the first.
type Gate struct{ mu sync.RWMutex }

// Enter begins a step. It waits while the gate is closed.
func (g *Gate) Enter() { g.mu.RLock() }

// Leave ends a step.
func (g *Gate) Leave() { g.mu.RUnlock() }

// Close waits until no step is under way, and holds up those that come.
func (g *Gate) Close() { g.mu.Lock() }

// Open lets steps begin again.
func (g *Gate) Open() { g.mu.Unlock() }

// Closed reports whether the gate is closed, or somebody waits to close it. It is for tests.
func (g *Gate) Closed() bool {
	if g.mu.TryRLock() {
		g.mu.RUnlock()
		return false
	}
	return true
}
