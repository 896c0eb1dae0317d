package load

import (
	"fmt"
	"math/rand/v2"
)

// Distribution is the way in which keys are chosen.
type Distribution string

// The distributions.
const (
	Uniform    Distribution = "uniform"    // each key is equally likely
	Zipf       Distribution = "zipf"       // key k has a probability proportional to 1/(1+k)^s
	Sequential Distribution = "sequential" // all keys in order, over and over
	Single     Distribution = "single"     // always key 0
)

func (d Distribution) check() error {
	switch d {
	case Uniform, Zipf, Sequential, Single:
		return nil
	}
	return fmt.Errorf("unknown distribution %q: uniform, zipf, sequential or single", string(d))
}

// maxKeys is the number of different keys that the digits of a key allow.
const maxKeys = 1_000_000_000_000

// picker chooses the numbers of keys for one connection.
type picker struct {
	next func() uint64
}

// newPicker returns the picker of connection index. The same arguments give the same numbers. Sequential
// connections divide the keys among themselves: together they go through all of them.
func newPicker(c *Config, index int) picker {
	rng := rand.New(rand.NewPCG(c.Seed, uint64(index)))
	n := c.Keys
	switch c.Distribution {
	case Zipf:
		return picker{rand.NewZipf(rng, c.ZipfS, 1, n-1).Uint64}
	case Sequential:
		at, step := uint64(index)%n, uint64(c.Connections)%n
		return picker{func() uint64 {
			k := at
			if at += step; at >= n {
				at -= n
			}
			return k
		}}
	case Single:
		return picker{func() uint64 { return 0 }}
	default:
		return picker{func() uint64 { return rng.Uint64N(n) }}
	}
}
