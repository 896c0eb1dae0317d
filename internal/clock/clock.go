// Package clock is the only place that reads the time for decisions.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clock tells the time in nanoseconds of Unix time.
type Clock interface {
	Now() int64
}

// Real is the process's clock: the wall time at its making plus the monotonic
// time since, so that a step of the machine's clock does not reach a limit. Slew moves
// it slowly to the wall clock, and Adopt at once.
type Real struct {
	start time.Time
	base  int64
	off   atomic.Int64
	wall  func() int64

	moving sync.Mutex // held by whatever moves the clock by how far it is off
}

// NewReal returns a clock that starts at the wall time.
func NewReal() *Real {
	t := time.Now()
	return &Real{start: t, base: t.UnixNano(), wall: func() int64 { return time.Now().UnixNano() }}
}

// Now is the time in nanoseconds of Unix time.
func (c *Real) Now() int64 {
	return c.base + c.off.Load() + int64(time.Since(c.start))
}

// Set moves the clock to now, at once. It is for the start only, before any
// decision: whoever recovers state knows from when on to go on.
func (c *Real) Set(now int64) { c.off.Add(now - c.Now()) }

// Elapsed is a monotonic time in nanoseconds.
func (c *Real) Elapsed() int64 { return int64(time.Since(c.start)) }

// Shift makes the clock Elapsed plus ahead, at once. It must not be slewed or adopt the wall clock afterwards.
func (c *Real) Shift(ahead int64) { c.off.Store(ahead - c.base) }

// Wall is the machine's clock.
func (c *Real) Wall() int64 { return c.wall() }

// MaxSlew is how far one call of Slew moves the clock, in nanoseconds: called once a second,
// 500 parts per million.
const MaxSlew = 500_000

// Slew moves the clock towards the wall clock by at most MaxSlew and returns how
// far it is off afterwards, in nanoseconds. Call it once a second.
func (c *Real) Slew() int64 {
	c.moving.Lock()
	defer c.moving.Unlock()
	diff := c.Behind()
	step := max(-MaxSlew, min(MaxSlew, diff))
	c.off.Add(step)
	return diff - step
}

// Behind is how far the clock is behind the wall clock, in nanoseconds; negative if
// it is ahead. The machine may have been suspended, or its clock been set.
func (c *Real) Behind() int64 { return c.wall() - c.Now() }

// Adopt moves the clock forward to the wall clock, at once, and returns by how many
// nanoseconds. It never moves it back: it is 0 then, and the clock goes on.
func (c *Real) Adopt() int64 {
	c.moving.Lock()
	defer c.moving.Unlock()
	diff := max(0, c.Behind())
	c.off.Add(diff)
	return diff
}

// Fake is a clock for tests that stands still until it is told to move.
type Fake struct{ now, behind atomic.Int64 }

// NewFake returns a clock that stands at now.
func NewFake(now int64) *Fake {
	f := &Fake{}
	f.now.Store(now)
	return f
}

// Now is the time that was set last, in nanoseconds.
func (c *Fake) Now() int64 { return c.now.Load() }

// Advance moves the clock by d, which may be negative.
func (c *Fake) Advance(d time.Duration) { c.now.Add(int64(d)) }

// Set sets the clock to now, in nanoseconds.
func (c *Fake) Set(now int64) { c.now.Store(now) }

// SetBehind has the clock be behind a wall clock by so many nanoseconds.
func (c *Fake) SetBehind(ns int64) { c.behind.Store(ns) }

// Behind is what SetBehind has set, less what was adopted.
func (c *Fake) Behind() int64 { return c.behind.Load() }

// Adopt is as that of Real.
func (c *Fake) Adopt() int64 {
	by := max(0, c.behind.Load())
	c.behind.Add(-by)
	c.now.Add(by)
	return by
}
