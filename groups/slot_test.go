package groups

import (
	"testing"

	"limitdb/resp"
)

// Every slot is in one group, and the groups of any count cover all slots in their order.
func TestSlots(t *testing.T) {
	for n := 1; n <= Most; n *= 2 {
		next := 0
		for g := 1; g <= n; g++ {
			first, last := Slots(g, n)
			if first != next || last-first+1 != resp.Slots/n {
				t.Fatalf("group %d of %d has the slots %d to %d", g, n, first, last)
			}
			for slot := first; slot <= last; slot++ {
				if Of(slot, n) != g {
					t.Fatalf("slot %d of %d groups is in group %d, not %d", slot, n, Of(slot, n), g)
				}
			}
			next = last + 1
		}
		if next != resp.Slots {
			t.Fatalf("%d groups end at slot %d", n, next)
		}
	}
	for n, want := range map[int]bool{-1: false, 0: false, 1: true, 2: true, 3: false, 16: true, 48: false, 64: true, 128: false} {
		if ValidCount(n) != want {
			t.Errorf("ValidCount(%d) is %v", n, !want)
		}
	}
	// A hash tag decides, wherever the key goes.
	if a, b := Of(resp.Slot([]byte("{u1}a")), 16), Of(resp.Slot([]byte("b{u1}")), 16); a != b {
		t.Errorf("one hash tag is in the groups %d and %d", a, b)
	}
}
