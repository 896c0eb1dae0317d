package replication

import (
	"testing"
	"time"

	"limitdb/internal/journal"
)

// endlessTable has states without end. It counts the calls of Copy.
type endlessTable struct {
	Table
	copies int
}

func (e *endlessTable) Copy(int64, uint64, *journal.Buffer) uint64 { e.copies++; return 1 }

// A hash of a table that changes meanwhile is of no use, and its processor time is missed by the decisions.
func TestHashEndsWhenTheTableChanges(t *testing.T) {
	table := &endlessTable{}
	if _, ended := hashTable(table, 0, func() bool { return table.copies < 3 }); ended || table.copies != 3 {
		t.Errorf("ended %t after %d steps, want 3", ended, table.copies)
	}
}

// The period follows how long a hash takes, but a process that was stopped during one does not show its next hash an hour later.
func TestHashPeriod(t *testing.T) {
	for _, c := range []struct {
		before int64
		took   time.Duration
		want   int64
	}{
		{0, 0, 1},
		{0, 40 * time.Millisecond, 1},
		{1, 41 * time.Millisecond, 2},
		{1, 160 * time.Millisecond, 2},
		{2, 160 * time.Millisecond, 4},
		{4, 160 * time.Millisecond, 4},
		{64, 160 * time.Millisecond, 4},
		{4, time.Hour, 8},
	} {
		if got := hashPeriod(c.before, int64(c.took)); got != c.want {
			t.Errorf("after %d s and a hash of %v: %d s, want %d", c.before, c.took, got, c.want)
		}
	}
}
