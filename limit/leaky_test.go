package limit

import (
	"testing"

	"pgregory.net/rapid"
)

func TestLEAKYSteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			// A bucket of 5, from which one leaks each 2 s.
			"fill and leak", "LEAKY 30/m BURST 5",
			[]step{
				{0, 2, false, 3, Never, 4000},
				{0, 4, true, 3, 2000, 4000},
				{1999, 4, true, 3, 1, 2001},
				{2000, 4, false, 0, Never, 10000},
				{2000, 6, true, 0, Never, 10000},
				{3000, 1, true, 0, 1000, 9000},
				{4000, 1, false, 0, Never, 10000},
				{13000, 0, false, 4, Never, 1000},
				{14000, 6, true, 5, Never, 0},
			},
		},
		{
			"default size", "LEAKY 3/s",
			[]step{{0, 4, true, 3, Never, 0}, {0, 0, false, 3, Never, 0}},
		},
		{
			"refund", "LEAKY 1/s BURST 2",
			[]step{
				{0, 2, false, 0, Never, 2000},
				{500, -1, false, 1, Never, 500},
				{500, -9, false, 2, Never, 0},
				{500, 2, false, 0, Never, 2000},
			},
		},
		{
			"the clock goes back", "LEAKY 1/s BURST 1",
			[]step{{5000, 1, false, 0, Never, 1000}, {0, 1, true, 0, 6000, 6000}, {6000, 1, false, 0, Never, 1000}},
		},
		{
			"limit 0 denies everything", "LEAKY 0/s",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { run(t, mustParse(t, tt.limit), tt.steps) })
	}
}

// A meter is GCRA in other words: on one key they may take turns, and the next
// state is the same.
func TestLEAKYIsGCRA(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { sameAs(t, LEAKY, GCRA) })
}
