package serve

import (
	"testing"
	"time"
)

// The rates of groups are those of the time between two looks, however long that was.
func TestRates(t *testing.T) {
	r := newRates(3)
	const second = int64(time.Second)
	for i, step := range []struct {
		elapsed int64
		made    [3]uint64
		want    [3]uint64
	}{
		{5 * second, [3]uint64{1000, 50, 0}, [3]uint64{0, 0, 0}}, // the first look does not know since when
		{6 * second, [3]uint64{1000, 150, 7}, [3]uint64{0, 100, 7}},
		{10 * second, [3]uint64{1001, 550, 7}, [3]uint64{0, 100, 0}},                // a quarter is none
		{10*second + second/2, [3]uint64{1001, 50, 8}, [3]uint64{0, 0, 2}},          // it counts anew
		{10*second + second/2, [3]uint64{1002, 51, 9}, [3]uint64{0, 0, 0}},          // no time has passed
		{3600 * second, [3]uint64{1002, 51, 1 << 33}, [3]uint64{0, 0, 2393073}},     // one that was late
		{3601 * second, [3]uint64{1002, 1e9 + 51, 1 << 33}, [3]uint64{0, 1e9, 0}},   // more than will be
		{3601*second + 1, [3]uint64{1003, 1e9 + 51, 1 << 33}, [3]uint64{1e9, 0, 0}}, // just now
		{3602*second + 1, [3]uint64{1003, 1e9 + 51, 1<<33 + 1}, [3]uint64{0, 0, 1}}, // one
		{3604*second + 1, [3]uint64{1004, 1e9 + 51, 1<<33 + 1}, [3]uint64{1, 0, 0}}, // a half is one
	} {
		r.look(step.elapsed, func(g int) uint64 { return step.made[g] })
		for g := range r.of {
			if got := r.of[g].Load(); got != step.want[g] {
				t.Errorf("step %d, group %d: %d decisions a second, want %d", i, g, got, step.want[g])
			}
		}
	}
}
