package journal

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// Parts are whole records in their order, as many as fit, and together they are everything.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all Buffer
		ends := []int{0}
		for range rapid.IntRange(0, 20).Draw(t, "records") {
			if rapid.IntRange(0, 5).Draw(t, "flush") == 0 {
				all.Flush(rapid.Uint64().Draw(t, "version"))
			} else {
				all.Set(1, 1, []byte("k"), make([]byte, rapid.IntRange(expirySize, 100).Draw(t, "state")))
			}
			ends = append(ends, len(all.Bytes))
		}
		limit := rapid.IntRange(0, 300).Draw(t, "limit")
		var sum Buffer
		for rest := all.Bytes; len(rest) > 0; {
			part, behind, err := Split(rest, limit)
			if err != nil || part.Records == 0 {
				t.Fatalf("%+v, %v", part, err)
			}
			first := sum.Records
			sum.Add(&part)
			if len(sum.Bytes) != ends[sum.Records] {
				t.Fatalf("a part ends at %d, behind %d records", len(sum.Bytes), sum.Records)
			}
			if len(part.Bytes) > limit && part.Records > 1 || len(behind) > 0 && ends[sum.Records+1]-ends[first] <= limit {
				t.Fatalf("%d records of %d bytes, and %d bytes more, with a limit of %d", part.Records, len(part.Bytes), len(behind), limit)
			}
			rest = behind
		}
		if !bytes.Equal(sum.Bytes, all.Bytes) || sum.Records != all.Records || sum.Flushed != all.Flushed {
			t.Fatalf("%+v is split into %+v", all, sum)
		}
	})
	if _, _, err := Split([]byte("no record"), 100); !errors.Is(err, ErrRecord) && !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
}
