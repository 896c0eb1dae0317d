package clock

import (
	"testing"
	"time"
)

func TestSlewIsBoundedAndConverges(t *testing.T) {
	c := NewReal()
	c.off.Store(int64(10 * MaxSlew)) // as if the wall clock had stepped back by 5 ms
	before := c.off.Load()
	c.Slew()
	if moved := before - c.off.Load(); moved != MaxSlew {
		t.Errorf("one call moved the clock by %d ns, want %d", moved, MaxSlew)
	}
	for range 100 {
		c.Slew()
	}
	// The clocks now differ by no more than the time between reading them.
	if left := c.Slew(); left > int64(time.Second) || left < -int64(time.Second) {
		t.Errorf("%d ns off after many calls", left)
	}
	if off := c.off.Load(); off > 5*MaxSlew {
		t.Errorf("still moved by %d ns", off)
	}
}

func TestNowNeverRunsBackwards(t *testing.T) {
	c := NewReal()
	last := c.Now()
	for range 1000 {
		now := c.Now()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
}

func TestAdoptGoesForwardsOnly(t *testing.T) {
	c := NewReal()
	wall := c.Now()
	c.wall = func() int64 { return wall }
	wall += int64(72 * time.Hour) // as after a suspend
	if behind := c.Behind(); behind > int64(72*time.Hour) || behind < int64(71*time.Hour) {
		t.Errorf("behind by %d ns", behind)
	}
	if by := c.Adopt(); by < int64(71*time.Hour) || c.Now() < wall {
		t.Errorf("moved by %d ns to %d, the wall clock says %d", by, c.Now(), wall)
	}
	wall -= int64(time.Hour)
	before := c.Now()
	if by := c.Adopt(); by != 0 || c.Now() < before || c.Behind() >= 0 {
		t.Errorf("moved back by %d ns", by)
	}
}
