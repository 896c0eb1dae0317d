package server

import (
	"strings"
	"testing"
	"time"
)

// A blocked key in commands: denials say how long is left of it, RL.INFO shows it, and RL.RESET forgets it.
func TestBlockCommands(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for i, step := range []struct {
		later time.Duration
		words string
		want  string
	}{
		{0, "RL.TAKE k FIXED 1/m BLOCK 15m UPTO 1h", "[0 1 0 -1 "},
		{0, "RL.TAKE k FIXED 1/m BLOCK 15m UPTO 1h", "[1 1 0 900000 1800000]"},
		{5 * time.Minute, "RL.TAKE k FIXED 1/m", "[1 1 0 600000 1500000]"},
		{0, "RL.INFO k", `["blocked_for" 600000 "block" 900000 "algorithm" "block" `},
		{10 * time.Minute, "RL.TAKE k FIXED 1/m BLOCK 15m UPTO 1h", "[0 1 0 -1 900000]"},
		{0, "RL.TAKE k FIXED 1/m BLOCK 15m UPTO 1h", "[1 1 0 1800000 2700000]"},
		{0, "RL.RESET k", "1"},
		{0, "RL.TAKE k FIXED 1/m BLOCK 15m UPTO 1h", "[0 1 0 -1 "},
	} {
		ts.clock.Advance(step.later)
		if got := line(c.do(strings.Fields(step.words)...)); !strings.HasPrefix(got, step.want) {
			t.Errorf("step %d: %s is %s, want %s", i, step.words, got, step.want)
		}
	}
	if info := line(c.do("INFO", "stats")); !strings.Contains(info, "blocks_begun:2") {
		t.Error(info)
	}
}
