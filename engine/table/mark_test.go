package table

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// TestBoundInAByte checks that a stored bound is never more than the given one,
// and less by a fifth at most.
func TestBoundInAByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Range(0, math.MaxInt64).Draw(t, "bound") >> rapid.IntRange(0, 62).Draw(t, "shift")
		got := (Mark(boundCode(want)) << boundShift).bound()
		if got > want || want-got > want/5 {
			t.Fatalf("%d is kept as %d", want, got)
		}
	})
}

// TestRankTellsTheDenied compares ranks with decisions at any later time. A
// caller that is denied, and was denied then, ranks as denied. One that was not
// denied does not.
func TestRankTellsTheDenied(t *testing.T) {
	var limits []limit.Limit
	for _, a := range limit.Algorithms() {
		for _, more := range []string{"", " FIRST", " INTERVAL", " COUNTDENIED", " SEGMENTS 10", " WARM 100s"} {
			if l, err := limit.Parse(a.String() + " 1000/1000s" + more); err == nil {
				limits = append(limits, l)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(limits).Draw(t, "limit")
		l.Max = rapid.Int64Range(1, 30).Draw(t, "max")
		l.Burst = l.Max
		if l.Algorithm == limit.GCRA || l.Algorithm == limit.TOKEN {
			l.Burst = rapid.Int64Range(1, 60).Draw(t, "burst")
		}
		m := newTableModel(1)
		now, was := start, false
		for range rapid.IntRange(1, 5).Draw(t, "takes") {
			now += rapid.Int64Range(0, 1500*second).Draw(t, "pause")
			d := m.take(t, now, key(1), &l, rapid.Int64Range(1, l.Burst).Draw(t, "cost"))
			was = d.Limited || d.Remaining == 0
		}
		now += rapid.Int64Range(0, 1500*second).Draw(t, "wait")
		var d limit.Decision
		sp := m.t.SpotOf(key(1))
		if !sp.Found() || Expires(sp.Kind(), m.t.State(&sp)) <= now {
			return
		}
		if err := limit.Peek(&l, m.t.State(&sp), now, 1, &d); err != nil {
			t.Fatal(err)
		}
		rank, ok := m.t.rank(now, sp.r)
		if is := rank >= rankDenied; !ok || d.Limited && !is || !was && is {
			t.Fatalf("denied before: %v, now: %v; rank %x, mark %x", was, d.Limited, rank, sp.r.mark())
		}
	})
}

// TestRestoredKeysCountAsUsedUp checks that restored keys, whose limits nobody
// knows, outlive all keys that are not known to be denied. They may go: otherwise a
// server that starts with full memory would refuse new keys.
func TestRestoredKeysCountAsUsedUp(t *testing.T) {
	tb := newTableModel(1).t
	k := key(1)
	sp := tb.SpotOf(k)
	if err := tb.Put(start, &sp, Unknown(limit.FIXED.Kind()), fixedState10(t), true); err != nil {
		t.Fatal(err)
	}
	tb.Find(&sp)
	if rank, ok := tb.rank(start, sp.r); !ok || rank < shareMost<<rankShare || rank >= rankDenied {
		t.Errorf("rank %x, %v", rank, ok)
	}
}

// fixedState10 returns a state of FIXED that has counted 10.
func fixedState10(t *testing.T) []byte {
	t.Helper()
	var d limit.Decision
	l := limit.Limit{Algorithm: limit.FIXED, Max: 1000, Burst: 1000, Period: 1000 * second}
	next, err := limit.Take(&l, nil, start, 10, nil, &d)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// take takes from a key, as a shard does.
func (m *tableModel) take(t rapid.TB, now int64, k []byte, l *limit.Limit, cost int64) (d limit.Decision) {
	sp := m.t.SpotOf(k)
	m.t.Live(now, &sp)
	var state []byte
	if sp.Found() {
		state = bytes.Clone(m.t.State(&sp))
	}
	next, err := limit.Take(l, state, now, cost, nil, &d)
	if err == nil && next != nil {
		err = m.t.Put(now, &sp, sp.Mark(l, cost, &d), next, true)
	} else if err == nil && sp.Found() {
		sp.Use(sp.Mark(l, cost, &d))
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A value ranks above limits that are little used and below callers that are
// denied. One that never expires is not evicted.
func TestRankOfValues(t *testing.T) {
	m := newTableModel(1)
	l := limit.Limit{Algorithm: limit.GCRA, Max: 10, Burst: 10, Period: second}
	m.take(t, start, key(1), &l, 1)
	m.take(t, start, key(2), &l, 10)
	timed := func(at int64) []byte { return append(stateOf(at, 8, 0), "text"...) }
	for i, v := range []struct {
		kind  limit.Kind
		state []byte
	}{{limit.STRING, timed(start + 5*second)}, {limit.HASH, timed(start + 50*second)}, {limit.HASH.Lasting(), []byte("text")}} {
		sp := m.t.SpotOf(key(3 + i))
		if err := m.t.Put(start, &sp, Unknown(v.kind), v.state, true); err != nil {
			t.Fatal(err)
		}
	}
	rank := func(i int) (uint64, bool) {
		sp := m.t.SpotOf(key(i))
		return m.t.rank(start, sp.r)
	}
	used, _ := rank(1)
	denies, _ := rank(2)
	short, ok1 := rank(3)
	long, ok2 := rank(4)
	if !ok1 || !ok2 || used >= short || short >= long || long >= denies {
		t.Errorf("ranks %x %x %x %x", used, short, long, denies)
	}
	if _, ok := rank(5); ok {
		t.Error("a value that never expires may be evicted")
	}
}

func TestKindsInMarks(t *testing.T) {
	seen := map[Mark]bool{}
	for k := range 256 {
		if k := limit.Kind(k); k.Known() {
			m := kindMark(k)
			if m.Kind() != k || m > kindBits || seen[m] {
				t.Errorf("%v is marked %x, which is %v", k, m, m.Kind())
			}
			seen[m] = true
		}
	}
}
