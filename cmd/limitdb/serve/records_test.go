package serve

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"limitdb/engine"
	"limitdb/internal/journal"
	"limitdb/limit"
	"limitdb/replication"
	"limitdb/rules"
	"limitdb/state"
)

// No state is longer than what the nodes of a cluster can tell one another at once.
func TestRecordsHaveABound(t *testing.T) {
	const head = journal.MaxKey + 64 // of a record, and of a value
	for name, size := range map[string]int{
		"a collection":      1 << 20,                             // value.MaxCollection
		"a list of numbers": 1_024_000*8 + 1_024_000*8/64 + 64*8, // value.MaxNumbers, and what has been dropped
		"leases":            limit.MaxHolders * (8 + binary.MaxVarintLen64 + 1 + limit.MaxLeaseID),
		"the rules' text":   rules.MaxText,
		"the largest LOG":   largestLog(t),
		"a fixed size one":  limit.MaxState,
	} {
		if size+head > replication.MaxRecord {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}

// largestLog returns the most bytes that the record of a LOG has while the largest limit fills and stays full, with as much time as
// possible between two requests.
func largestLog(t *testing.T) (most int) {
	e := engine.New(engine.Options{Shards: 1})
	defer e.Close()
	e.StartJournal(0, new(journal.Gate), func() {})
	defer e.StopJournal()
	l := limit.Limit{Algorithm: limit.LOG, Max: limit.MaxLog, Period: limit.MaxPeriod}
	var d limit.Decision
	var buf journal.Buffer
	now := int64(1e18)
	for i := range limit.MaxLog * 2 {
		now += limit.MaxPeriod / limit.MaxLog
		if err := e.TakeAt(0, now, []byte("k"), &l, 1, &d); err != nil || i < limit.MaxLog && d.Limited {
			t.Fatal(i, d, err)
		}
		if i%1024 == 1023 {
			buf.Reset(0)
			e.Cut()
			for e.Drain(&buf, 1<<20) {
			}
			most = max(most, len(buf.Bytes))
		}
	}
	t.Logf("%d bytes", most)
	return most
}

// While everything counts as used up, a block that was saved holds, and what was saved inside it, which may be older than what was
// granted, does not count.
func TestUsedUpKeepsTheBlockOnly(t *testing.T) {
	const crash, end = int64(1_700_000_000_000_000_000), int64(1_700_000_060_000_000_000)
	l, err := limit.Parse("FIXED 10/d BLOCK 1m UPTO 1h")
	if err != nil {
		t.Fatal(err)
	}
	var d limit.Decision
	blocked, kind, err := limit.TakeBlock(&l, l.Algorithm.Kind(), nil, crash, 11, nil, &d) // denies, with 10 left
	if err != nil || kind != limit.BLOCK {
		t.Fatal(kind, err)
	}
	records := usedUpRecords([]journal.Record{
		{Op: journal.Set, Kind: byte(limit.FIXED.Kind()), Key: []byte("other"), State: []byte("of a limit")},
		{Op: journal.Change, Kind: byte(limit.LOG.Kind()), Key: []byte("log")},
		{Op: journal.Set, Kind: byte(limit.BLOCK), Key: []byte("k"), State: blocked},
		{Op: journal.Set, Kind: byte(limit.BLOCK), Key: []byte("damaged"), State: []byte("x")},
		{Op: journal.Delete, Kind: byte(limit.FIXED.Kind()), Key: []byte("gone")},
	})
	var left []string
	for _, r := range records {
		left = append(left, fmt.Sprint(string(r.Key), " ", r.Op == journal.Delete))
	}
	if want := []string{"other true", "k false", "damaged true", "gone true"}; !slices.Equal(left, want) {
		t.Fatalf("%q, want %q", left, want)
	}
	e := engine.New(engine.Options{Shards: 1})
	defer e.Close()
	e.AssumeUsedUp(crash)
	// What the key had before the limit does not come back with it.
	if err := e.Restore([]journal.Record{{Op: journal.Set, Kind: byte(state.STRING) + 1, Key: []byte("other"), State: []byte("v")}}, 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := e.Restore(records, 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := e.TakeAt(0, end-1, []byte("other"), &l, 1, &d); err != nil || !d.Limited || d.Remaining != 0 {
		t.Errorf("what had another kind: %+v, %v", d, err)
	}
	if err := e.TakeAt(0, end-1, []byte("k"), &l, 1, &d); err != nil || !d.Limited || d.Remaining != 0 {
		t.Errorf("in the block: %+v, %v", d, err)
	}
	if err := e.TakeAt(0, end, []byte("k"), &l, 1, &d); err != nil || !d.Limited || d.Remaining != 0 {
		t.Fatalf("after the block: %+v, %v", d, err)
	}
	// The block was known, too: this one is twice as long.
	short := l
	short.Period = 1 // what was taken is back at once, but the key is blocked for 2 minutes
	if err := e.TakeAt(0, end+119e9, []byte("k"), &short, 1, &d); err != nil || !d.Limited || d.Wait < 1e9 {
		t.Errorf("the second block: %+v, %v", d, err)
	}
}
