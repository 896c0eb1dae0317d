package replication

import (
	"testing"
	"time"
)

// The period follows how long a hash takes, but a process that was stopped during one does not show its next hash an hour later.
func TestHashPeriod(t *testing.T) {
	for _, c := range []struct {
		before int64
		took   time.Duration
		want   int64
	}{
		{0, 0, 1},
		{0, 10 * time.Millisecond, 1},
		{1, 11 * time.Millisecond, 2},
		{1, 40 * time.Millisecond, 2},
		{2, 40 * time.Millisecond, 4},
		{4, 40 * time.Millisecond, 4},
		{64, 40 * time.Millisecond, 4},
		{4, time.Hour, 8},
	} {
		if got := hashPeriod(c.before, int64(c.took)); got != c.want {
			t.Errorf("after %d s and a hash of %v: %d s, want %d", c.before, c.took, got, c.want)
		}
	}
}
