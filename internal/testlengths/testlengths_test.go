package testlengths

import (
	"math/rand/v2"
	"slices"
	"testing"

	"limitdb/internal/journal"
)

// The constants are those of the code: exported ones, those of functions, those that only a comparison has, and those
// that are made of others.
func TestRead(t *testing.T) {
	all := Read(t, 1<<20)
	for _, want := range []int{
		journal.MinChanged, journal.MaxKey,
		8 << 10 * 3 / 4, // engine/table
		64 << 10,        // value
		44,              // value
		65_536,          // limit
		255,             // limit
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%d is not among them", want)
		}
	}
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) < len(all) || all[0] < Least || all[len(all)-1] > 1<<20 {
		t.Errorf("%v", all)
	}
}

// Every length around a constant is drawn, and none that is too long.
func TestDraw(t *testing.T) {
	l := Lengths{100, 5000}
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[int]bool{}
	for range 20_000 {
		n := l.Draw(r.IntN, 5003)
		if n < 0 || n > 5003 {
			t.Fatal(n)
		}
		seen[n] = true
	}
	for n := 5000 - around; n <= 5003; n++ {
		if !seen[n] {
			t.Errorf("%d is not drawn", n)
		}
	}
	for range 1000 {
		if n := l.Draw(r.IntN, 0); n != 0 {
			t.Fatal(n)
		}
	}
}

func TestEach(t *testing.T) {
	var got []int
	Lengths{3, 5, 20}.Each(2, 20, func(n int) { got = append(got, n) })
	if want := []int{1, 2, 3, 4, 5, 6, 7, 18, 19, 20}; !slices.Equal(got, want) {
		t.Error(got)
	}
}
