package serve

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSharesOfGroups(t *testing.T) {
	t.Parallel()
	if got := shares(0, []int64{1, 2}); !slices.Equal(got, []int64{0, 0}) {
		t.Errorf("without a budget: %v", got)
	}
	if got := shares(100, nil); len(got) != 0 {
		t.Errorf("without groups: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 64).Draw(t, "bytes")
		most := rapid.Int64Range(2<<20, 1<<44).Draw(t, "maxmemory")
		sum := int64(0)
		for i, share := range shares(most, bytes) {
			sum += share
			if share < 1 {
				t.Fatalf("group %d may have nothing", i)
			}
			for j, other := range shares(most, bytes) {
				if bytes[i] > bytes[j] && share < other {
					t.Fatalf("group %d has more and may have less than group %d", i, j)
				}
			}
		}
		if sum > most+int64(len(bytes)) || most-sum > int64(len(bytes)) {
			t.Fatalf("the shares are %d bytes of %d", sum, most)
		}
	})
}
