package engine

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// someValue returns a value's state that expires at a time, 0 for never.
func someValue(expires int64) []byte {
	if expires == 0 {
		return []byte("text")
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(expires)), "text"...)
}

// Values come back from a disk, are copied to it, and expire as they say.
func TestValuesOfAllKinds(t *testing.T) {
	e := New(Options{})
	var changes []journal.Record
	kinds := []limit.Kind{limit.STRING, limit.SORTEDSET, limit.HASH, limit.LIST, limit.SET}
	for i, k := range kinds {
		changes = append(changes,
			journal.Record{Op: journal.Set, Kind: byte(k), Key: key(2 * i), State: someValue(start + second)},
			journal.Record{Op: journal.Set, Kind: byte(k.Lasting()), Key: key(2*i + 1), State: someValue(0)})
	}
	if err := e.Restore(changes, 0, 1); err != nil {
		t.Fatal(err)
	}
	var copied journal.Buffer
	for cursor := uint64(0); ; {
		if cursor = e.Copy(start, cursor, &copied); cursor == 0 {
			break
		}
	}
	again := New(Options{})
	for b := copied.Bytes; len(b) > 0; {
		r, rest, err := journal.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Restore([]journal.Record{r}, 0, 1); err != nil {
			t.Fatal(err)
		}
		b = rest
	}
	for i, k := range kinds {
		info, ok := again.Info(start, key(2*i))
		if !ok || info.Kind != k || info.Expires != start+second {
			t.Errorf("%v: %+v, %v", k, info, ok)
		}
		if info, ok = again.Info(start, key(2*i+1)); !ok || info.Kind != k.Lasting() || info.Expires != math.MaxInt64 {
			t.Errorf("%v for ever: %+v, %v", k, info, ok)
		}
		if _, ok = again.Info(start+second, key(2*i)); ok {
			t.Errorf("%v has not expired", k)
		}
		var d limit.Decision
		if err := again.Take(start, key(2*i+1), perSecond(1), 1, &d); err != ErrWrongType {
			t.Errorf("a limit on %v: %v", k, err)
		}
	}
	e.check()
}

// A value ranks above limits that are little used and below callers that are
// denied. One that never expires is not evicted.
func TestRankOfValues(t *testing.T) {
	e := New(Options{Shards: 1})
	mustTake(t, e, start, key(1), perSecond(10), 1)
	mustTake(t, e, start, key(2), perSecond(10), 10)
	if err := e.Restore([]journal.Record{
		{Op: journal.Set, Kind: byte(limit.STRING), Key: key(3), State: someValue(start + 5*second)},
		{Op: journal.Set, Kind: byte(limit.HASH), Key: key(4), State: someValue(start + 50*second)},
		{Op: journal.Set, Kind: byte(limit.HASH.Lasting()), Key: key(5), State: someValue(0)},
	}, 0, 1); err != nil {
		t.Fatal(err)
	}
	tb := &e.shards[0].table
	rank := func(i int) (uint64, bool) {
		sp := spot{h: tb.hash(key(i)), key: key(i)}
		tb.find(&sp)
		return tb.rank(start, sp.r)
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
	seen := map[mark]bool{}
	for k := range 256 {
		if k := limit.Kind(k); k.Known() {
			m := kindMark(k)
			if m.kind() != k || m > kindBits || seen[m] {
				t.Errorf("%v is marked %x, which is %v", k, m, m.kind())
			}
			seen[m] = true
		}
	}
	if len(seen) != 20 || !bytes.Equal([]byte{byte(limit.STRING), byte(limit.SET.Lasting())}, []byte{64, 103}) {
		t.Errorf("%d kinds", len(seen))
	}
}
