package server

import (
	"strings"
	"testing"
	"time"
)

func TestLiveLooksAtProgress(t *testing.T) {
	ts := newTestServer(t)
	if err := ts.Live(); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]interface {
		Beat(int64)
		Rest()
	}{"housekeeping": &ts.pulses.house, "expiry": &ts.group.Sweeps, "waking": &ts.group.Rings} {
		p.Beat(ts.clock.Now())
		ts.clock.Advance(time.Duration(StuckAfter))
		if err := ts.Live(); err != nil {
			t.Errorf("too early: %v", err)
		}
		ts.clock.Advance(time.Second)
		if err := ts.Live(); err == nil || !strings.HasPrefix(err.Error(), name) || !strings.HasSuffix(err.Error(), "6s") {
			t.Errorf("%s: %v", name, err)
		}
		p.Rest()
		if err := ts.Live(); err != nil {
			t.Errorf("%s rests: %v", name, err)
		}
	}
}
