package limit

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTOKENSteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			"one by one", "TOKEN 30/m BURST 5",
			[]step{
				{0, 2, false, 3, Never, 4000},
				{0, 4, true, 3, 2000, 4000},
				{1999, 4, true, 3, 1, 2001},
				{2000, 4, false, 0, Never, 10000},
				{2000, 6, true, 0, Never, 10000},
				{2000, -1, false, 1, Never, 8000},
				{2000, reserved + 3, false, 0, Never, 14000},
				{2000, reserved + 1, false, 0, 4000, 16000},
				{2000, 1, true, 0, 8000, 16000},
			},
		},
		{
			// Five arrive together each minute after the first was taken.
			"together", "TOKEN 5/m INTERVAL",
			[]step{
				{0, 0, false, 5, Never, 0},
				{0, 6, true, 5, Never, 0},
				{0, 1, false, 4, Never, 60000},
				{30000, 4, false, 0, Never, 30000},
				{30000, 1, true, 0, 30000, 30000},
				{59999, 1, true, 0, 1, 1},
				{60000, 5, false, 0, Never, 60000},
				{200000, 3, false, 2, Never, 60000},
				{200000, 3, true, 2, 60000, 60000},
			},
		},
		{
			// A bucket of 12 that five arrive in: three arrivals fill it.
			"together, a larger bucket", "TOKEN 5/m BURST 12 INTERVAL",
			[]step{
				{0, 12, false, 0, Never, 180000},
				{0, 5, true, 0, 60000, 180000},
				{0, 6, true, 0, 120000, 180000},
				{0, 12, true, 0, 180000, 180000},
				{0, 13, true, 0, Never, 180000},
				{60000, 0, false, 5, Never, 120000},
				{60000, 1, false, 4, Never, 120000},
				{119999, 5, true, 4, 1, 60001},
				{120000, 0, false, 9, Never, 60000},
				{179999, 12, true, 9, 1, 1},
				{180000, 12, false, 0, Never, 180000},
			},
		},
		{
			// A bucket of 3 that five arrive in: two of them are lost.
			"together, a smaller bucket", "TOKEN 5/m BURST 3 INTERVAL",
			[]step{
				{0, 3, false, 0, Never, 60000},
				{0, 4, true, 0, Never, 60000},
				{60000, 3, false, 0, Never, 60000},
			},
		},
		{
			"together, refund", "TOKEN 5/m BURST 10 INTERVAL",
			[]step{
				{0, -3, false, 10, Never, 0},
				{0, 7, false, 3, Never, 120000},
				{10000, -2, false, 5, Never, 50000},
				{10000, 1, false, 4, Never, 110000},
				{10000, -9, false, 10, Never, 0},
				{20000, 1, false, 9, Never, 60000},
			},
		},
		{
			// Whole arrivals pay the debt.
			"together, reserve", "TOKEN 5/m INTERVAL",
			[]step{
				{0, reserved + 12, false, 0, Never, 180000},
				{0, reserved + 0, false, 0, 120000, 180000},
				{0, reserved + 3, false, 0, 120000, 180000},
				{60000, reserved + 1, false, 0, 60000, 180000},
				{60000, 1, true, 0, 120000, 180000},
				{120000, reserved + 1, false, 0, 60000, 120000},
				{180000, 4, true, 3, 60000, 60000},
				{180000, 3, false, 0, Never, 60000},
			},
		},
		{
			"together, the clock goes back", "TOKEN 2/m INTERVAL",
			[]step{
				{500000, 1, false, 1, Never, 60000},
				{0, 2, true, 1, 560000, 560000},
				{0, 1, false, 0, Never, 560000},
				{560000, 2, false, 0, Never, 60000},
			},
		},
		{
			"together, limit 0", "TOKEN 0/s INTERVAL",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}, {0, -1, false, 0, Never, 0}, {0, reserved + 1, true, 0, Never, 0}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { run(t, mustParse(t, tt.limit), tt.steps) })
	}
}

// One by one, a token bucket is GCRA in other words.
func TestTOKENIsGCRA(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { sameAs(t, TOKEN, GCRA) })
}
