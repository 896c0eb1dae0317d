package limit

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestTags(t *testing.T) {
	const hour, day = 60 * testMinute, testDay
	tests := []struct {
		tag  windowTag
		want []byte
	}{
		{windowTag{period: testSecond}, []byte{0x01}},
		{windowTag{period: 30 * testSecond}, []byte{0x1e}},
		{windowTag{period: testMinute}, []byte{0x21}},
		{windowTag{period: 15 * testMinute}, []byte{0x2f}},
		{windowTag{period: hour}, []byte{0x41}},
		{windowTag{period: 36 * hour}, []byte{0x00, 0x80, 0x80, 0xda, 0xcf, 0xed, 0xbb, 0x1d}},
		{windowTag{period: day}, []byte{0x61}},
		{windowTag{period: 30 * day}, []byte{0x7e}},
		{windowTag{period: day, first: true}, []byte{0xe1}},
		{windowTag{period: 1}, []byte{0x00, 0x01}},
		{windowTag{period: 1, first: true}, []byte{0x80, 0x01}},
		{windowTag{period: math.MaxInt64}, []byte{0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}},
		{windowTag{unit: Second}, []byte{0x1f}},
		{windowTag{unit: Year}, []byte{0xff}},
		{windowTag{}, []byte{0x20}},
	}
	for _, tt := range tests {
		if got := appendTag(nil, tt.tag); !bytes.Equal(got, tt.want) {
			t.Errorf("%+v is %x, want %x", tt.tag, got, tt.want)
		}
	}
}

func TestTagsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]int64{1, 1e6, 1e9, 60e9, 3600e9, 24 * 3600e9}).Draw(t, "unit")
		tag := windowTag{
			period: rapid.OneOf(rapid.Int64Range(1, 40), rapid.Int64Range(1, math.MaxInt64/unit)).Draw(t, "number") * unit,
			first:  rapid.Bool().Draw(t, "first"),
		}
		if rapid.Bool().Draw(t, "calendar") {
			tag = windowTag{unit: rapid.SampledFrom(allUnits()).Draw(t, "of the calendar")}
		}
		b := appendTag(nil, tag)
		if got, n := readTag(append(b, 0xff)); got != tag || n != len(b) || len(b) > 10 {
			t.Fatalf("%+v is %x, which is %+v in %d bytes", tag, b, got, n)
		}
	})
}

// Bytes that are no tag are not read; several bytes may be one tag.
func TestNoTags(t *testing.T) {
	for _, b := range [][]byte{
		nil,
		{0x00},
		{0x80},
		{0xa0, 1},
		{0x40, 1},
		{0xe0, 1},
		{0x00, 0x00},
		{0x00, 0x80},
		{0x00, 0x80, 0x00},
		{0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		{0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
	} {
		if tag, n := readTag(b); n != 0 {
			t.Errorf("%x is %+v in %d bytes", b, tag, n)
		}
	}
}
