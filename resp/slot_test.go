package resp

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "123456789": 0x31c3, "foo": 12182, "bar": 5061, "{foo}bar": 12182, "a{foo}{bar}": 12182,
		"{}foo": 9500, "user:1": 10778,
	} {
		if got := Slot([]byte(key)); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}

// slotBitByBit is Slot by the definition of the checksum.
func slotBitByBit(key []byte) int {
	if _, rest, ok := bytes.Cut(key, []byte("{")); ok {
		if tag, _, ok := bytes.Cut(rest, []byte("}")); ok && len(tag) > 0 {
			key = tag
		}
	}
	crc := 0
	for _, b := range key {
		crc ^= int(b) << 8
		for range 8 {
			if crc <<= 1; crc&0x10000 != 0 {
				crc ^= 0x11021
			}
		}
	}
	return crc & (Slots - 1)
}

func TestSlotModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.SampledFrom([]byte("{}a\x00\x7f\x80\xff0")), 0, 40).Draw(t, "key")
		if got, want := Slot(key), slotBitByBit(key); got != want {
			t.Fatalf("%q: %d, want %d", key, got, want)
		}
	})
}

func BenchmarkSlot(b *testing.B) {
	key := []byte("user:0000012345")
	for b.Loop() {
		Slot(key)
	}
}
