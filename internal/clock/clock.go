// Package clock is the only place that reads the time for decisions.
package clock

import (
	"sync/atomic"
	"time"
)

// Clock tells the time in nanoseconds of Unix time.
type Clock interface {
	Now() int64
}

// Real is the process's clock: the wall time at its making plus the monotonic
// time since, so that a step of the machine's clock does not reach a limit. Slew moves
// it slowly to the wall clock.
type Real struct {
	start time.Time
	base  int64
	off   atomic.Int64
}

// NewReal returns a clock that starts at the wall time.
func NewReal() *Real {
	t := time.Now()
	return &Real{start: t, base: t.UnixNano()}
}

// Now is the time in nanoseconds of Unix time.
func (c *Real) Now() int64 {
	return c.base + c.off.Load() + int64(time.Since(c.start))
}

// Set moves the clock to now, at once. It is for the start only, before any
// decision: whoever recovers state knows from when on to go on.
func (c *Real) Set(now int64) { c.off.Add(now - c.Now()) }

// MaxSlew is how far one call of Slew moves the clock, in nanoseconds: called once a second,
// 500 parts per million.
const MaxSlew = 500_000

// Slew moves the clock towards the wall clock by at most MaxSlew and returns how
// far it is off afterwards, in nanoseconds. Call it once a second.
func (c *Real) Slew() int64 {
	diff := time.Now().UnixNano() - c.Now()
	step := max(-MaxSlew, min(MaxSlew, diff))
	c.off.Add(step)
	return diff - step
}

// Fake is a clock for tests that stands still until it is told to move.
type Fake struct{ now atomic.Int64 }

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
