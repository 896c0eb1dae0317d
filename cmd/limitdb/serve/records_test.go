package serve

import (
	"encoding/binary"
	"testing"

	"limitdb/engine"
	"limitdb/internal/journal"
	"limitdb/limit"
	"limitdb/replication"
	"limitdb/rules"
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
