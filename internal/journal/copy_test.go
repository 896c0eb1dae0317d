package journal

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// Blocks have all records once and in their order, and are written when they are long enough.
func TestCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, expirySize, 1000, BlockBytes - 100, BlockBytes, 3 * BlockBytes}), 1, 12).Draw(t, "states")
		var want, got Buffer
		next := func(cursor uint64, dst *Buffer) uint64 {
			if n := sizes[cursor]; n > 0 { // else that part of the table is empty
				want.Set(cursor, 1, []byte("k"), make([]byte, n))
				dst.Set(cursor, 1, []byte("k"), make([]byte, n))
			}
			return (cursor + 1) % uint64(len(sizes))
		}
		over := false
		records, err := Copy(next, 7, func(b *Buffer) error {
			if over || b.Records == 0 {
				t.Fatalf("a block of %d records, behind a short one: %v", b.Records, over)
			}
			over = len(b.Bytes) < BlockBytes
			got.Add(&Buffer{Bytes: b.Bytes[7:], Records: b.Records})
			return nil
		})
		if err != nil || records != uint64(want.Records) || got.Records != want.Records || !bytes.Equal(got.Bytes, want.Bytes) {
			t.Fatalf("%d records of %d are copied, %v", records, want.Records, err)
		}
	})
	full := errors.New("full")
	if _, err := Copy(func(_ uint64, dst *Buffer) uint64 { dst.Flush(1); return 0 }, 0, func(*Buffer) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}
