package pulse

import "testing"

func TestPulse(t *testing.T) {
	var p Pulse
	for i, c := range []struct {
		do   func()
		now  int64
		want int64
	}{
		{func() {}, 100, 0},
		{func() { p.Beat(100) }, 100, 0},
		{func() {}, 130, 30},
		{func() { p.Beat(140) }, 150, 10},
		{func() { p.Rest() }, 1000, 0},
		{func() { p.Beat(1000) }, 900, 0},
	} {
		if c.do(); p.Stuck(c.now) != c.want {
			t.Errorf("step %d: %d at %d, want %d", i, p.Stuck(c.now), c.now, c.want)
		}
	}
}
