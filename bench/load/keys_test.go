package load

import (
	"math"
	"slices"
	"testing"
)

func draw(c Config, index, n int) []uint64 {
	p := newPicker(&c, index)
	out := make([]uint64, n)
	for i := range out {
		out[i] = p.next()
	}
	return out
}

func TestSameSeedSameKeys(t *testing.T) {
	for _, d := range []Distribution{Uniform, Zipf} {
		c := Config{Distribution: d, Keys: 1000, ZipfS: 1.1, Seed: 5, Connections: 2}
		a := draw(c, 0, 100)
		if !slices.Equal(a, draw(c, 0, 100)) {
			t.Errorf("%s: the same seed draws other keys", d)
		}
		if slices.Equal(a, draw(c, 1, 100)) {
			t.Errorf("%s: two connections draw the same keys", d)
		}
		c.Seed = 6
		if slices.Equal(a, draw(c, 0, 100)) {
			t.Errorf("%s: another seed draws the same keys", d)
		}
	}
}

// Pearson's statistic over 100 keys has 99 degrees of freedom: it exceeds 149 once in a thousand draws. The
// seed is fixed, so the test does not depend on luck.
func TestUniform(t *testing.T) {
	const keys, n = 100, 100_000
	var counts [keys]float64
	for _, k := range draw(Config{Distribution: Uniform, Keys: keys, Seed: 1}, 0, n) {
		counts[k]++
	}
	chi2 := 0.0
	for _, c := range counts {
		chi2 += (c - n/keys) * (c - n/keys) / (n / keys)
	}
	if chi2 > 149 || chi2 < 60 {
		t.Errorf("chi squared is %.1f", chi2)
	}
}

func TestZipf(t *testing.T) {
	const keys, n, s = 1000, 200_000, 1.3
	counts := make([]float64, keys)
	for _, k := range draw(Config{Distribution: Zipf, Keys: keys, ZipfS: s, Seed: 1}, 0, n) {
		counts[k]++
	}
	norm := 0.0
	for k := range keys {
		norm += math.Pow(1+float64(k), -s)
	}
	for _, k := range []int{0, 1, 2, 5, 10, 50} {
		want := n * math.Pow(1+float64(k), -s) / norm
		// Five standard deviations of a count.
		if math.Abs(counts[k]-want) > 5*math.Sqrt(want) {
			t.Errorf("key %d was drawn %.0f times, want about %.0f", k, counts[k], want)
		}
	}
}

func TestSequentialAndSingle(t *testing.T) {
	for _, c := range []struct {
		config Config
		index  int
		want   []uint64
	}{
		{Config{Distribution: Sequential, Keys: 5, Connections: 1}, 0, []uint64{0, 1, 2, 3, 4, 0, 1}},
		{Config{Distribution: Sequential, Keys: 5, Connections: 2}, 1, []uint64{1, 3, 0, 2, 4, 1, 3}},
		{Config{Distribution: Sequential, Keys: 4, Connections: 6}, 5, []uint64{1, 3, 1, 3, 1, 3, 1}},
		{Config{Distribution: Sequential, Keys: 1, Connections: 3}, 2, []uint64{0, 0, 0, 0, 0, 0, 0}},
		{Config{Distribution: Single, Keys: 9, Connections: 3}, 2, []uint64{0, 0, 0, 0, 0, 0, 0}},
		{Config{Distribution: Zipf, ZipfS: 2, Keys: 1}, 0, []uint64{0, 0, 0, 0, 0, 0, 0}},
		{Config{Distribution: Uniform, Keys: 1}, 0, []uint64{0, 0, 0, 0, 0, 0, 0}},
	} {
		if got := draw(c.config, c.index, 7); !slices.Equal(got, c.want) {
			t.Errorf("%+v, connection %d: %v, want %v", c.config, c.index, got, c.want)
		}
	}
}
