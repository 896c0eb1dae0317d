package server

import (
	"strings"
	"testing"
	"time"
)

// TestClockIsAdopted suspends a machine for three days. The time of decisions goes on from where it
// was until an operator adopts the machine's time, and it never goes back.
func TestClockIsAdopted(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts, [2]string{"RL.TAKE k GCRA 1/d", "[0 1 0 -1 86400000]"})
	ts.clock.SetBehind(int64(72 * time.Hour))
	now := ts.clock.Now() / 1e3
	if got := line(c.do("INFO", "server")); !strings.Contains(got, `clock_behind_usec:259200000000`) {
		t.Errorf("INFO says %s", got)
	}
	c.steps(ts,
		[2]string{"RL.TAKE k GCRA 1/d", "[1 1 0 86400000 86400000]"},
		[2]string{"RL.CLOCK NOW", `-ERR syntax error`},
	)
	if got, want := line(c.do("RL.CLOCK", "ADOPT")), line(c.do("RL.CLOCK")); !strings.Contains(got, `"behind" 0 "moved" 259200000000`) || !strings.Contains(want, `"behind" 0 "moved" 0`) {
		t.Errorf("ADOPT replies %s, and then %s", got, want)
	}
	if then := ts.clock.Now() / 1e3; then-now != int64(72*time.Hour)/1e3 {
		t.Errorf("the clock went from %d to %d", now, then)
	}
	c.steps(ts, [2]string{"RL.TAKE k GCRA 1/d", "[0 1 0 -1 86400000]"})
	ts.clock.SetBehind(-int64(time.Hour))
	now = ts.clock.Now()
	if got := line(c.do("RL.CLOCK", "adopt")); !strings.Contains(got, `"behind" -3600000000 "moved" 0`) || ts.clock.Now() != now {
		t.Errorf("ADOPT of a clock that is behind: %s", got)
	}
}
