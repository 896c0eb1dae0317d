package engine

import (
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

// Values are restored, copied and expire as they say.
func TestValuesOfAllKinds(t *testing.T) {
	e := New(Options{})
	var changes []journal.Record
	kinds := []limit.Kind{limit.STRING, limit.LONGSTRING, limit.SORTEDSET, limit.HASH, limit.LIST, limit.SET, limit.NUMBERS}
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
		var d limit.Decision
		if err := again.Take(start, key(2*i+1), perSecond(1), 1, &d); err != ErrWrongType {
			t.Errorf("a limit on %v: %v", k, err)
		}
	}
	for i, k := range kinds { // last, since a shard's time does not go back
		if _, ok := again.Info(start+second, key(2*i)); ok {
			t.Errorf("%v has not expired", k)
		}
	}
	e.check()
}
