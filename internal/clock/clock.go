// Package clock is the only place that reads the time for decisions.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clock returns the time, in Unix ns.
type Clock interface {
	Now() int64
}

// Real is the process's clock: the wall time when it was made plus the monotonic time since, so that a step
// of the machine's clock does not affect limits. Slew moves it slowly to the wall clock, and Adopt
// immediately.
type Real struct {
	start time.Time
	base  int64
	off   atomic.Int64
	wall  func() int64
	skew  skew // none in production

	moving sync.Mutex // held while the clock is moved by an offset that was measured
}

// NewReal returns a clock that starts at the wall time.
func NewReal() *Real {
	t := time.Now()
	c := &Real{start: t, base: t.UnixNano(), skew: newSkew()}
	c.wall = func() int64 { return c.skew.wall(time.Now().UnixNano()) }
	return c
}

// Now returns the time in Unix ns.
func (c *Real) Now() int64 {
	return c.Offset() + c.Elapsed()
}

// Set moves the clock to now immediately. It is only for the start, before any decision, to continue at the
// time of recovered state.
func (c *Real) Set(now int64) { c.off.Add(now - c.Now()) }

// Elapsed returns the monotonic time since the clock was made, in ns.
func (c *Real) Elapsed() int64 { return c.skew.elapsed(int64(time.Since(c.start))) }

// Offset returns by how many ns the clock is ahead of Elapsed.
func (c *Real) Offset() int64 { return c.base + c.off.Load() }

// Wall returns the time of the machine's clock, in Unix ns.
func (c *Real) Wall() int64 { return c.wall() }

// MaxSlew is how far one call of Slew moves the clock at most, in ns. At one call a second this is 500 parts
// per million.
const MaxSlew = 500_000

// Slew moves the clock towards the wall clock by at most MaxSlew, and returns the difference that is left, in
// ns. Call it once a second.
func (c *Real) Slew() int64 {
	c.moving.Lock()
	defer c.moving.Unlock()
	diff := c.Behind()
	step := max(-MaxSlew, min(MaxSlew, diff))
	c.off.Add(step)
	return diff - step
}

// Behind returns how far the clock is behind the wall clock, in ns; it is negative if the clock is ahead. It
// can be large after the machine was suspended or its clock was set.
func (c *Real) Behind() int64 { return c.wall() - c.Now() }

// Adopt moves the clock forward to the wall clock immediately, and returns by how many ns. It never moves the
// clock back: then it returns 0.
func (c *Real) Adopt() int64 {
	c.moving.Lock()
	defer c.moving.Unlock()
	diff := max(0, c.Behind())
	c.off.Add(diff)
	return diff
}

// Fake is a clock for tests. It moves only when a test moves it.
type Fake struct{ now, behind atomic.Int64 }

// NewFake returns a clock that is at now.
func NewFake(now int64) *Fake {
	f := &Fake{}
	f.now.Store(now)
	return f
}

// Now returns the time that was last set, in ns.
func (c *Fake) Now() int64 { return c.now.Load() }

// Advance moves the clock by d, which may be negative.
func (c *Fake) Advance(d time.Duration) { c.now.Add(int64(d)) }

// Set sets the clock to now, in nanoseconds.
func (c *Fake) Set(now int64) { c.now.Store(now) }

// SetBehind sets how far the clock is behind a wall clock, in ns.
func (c *Fake) SetBehind(ns int64) { c.behind.Store(ns) }

// Behind returns what SetBehind has set, less what Adopt has moved.
func (c *Fake) Behind() int64 { return c.behind.Load() }

// Adopt does what Adopt of Real does.
func (c *Fake) Adopt() int64 {
	by := max(0, c.behind.Load())
	c.behind.Add(-by)
	c.now.Add(by)
	return by
}
