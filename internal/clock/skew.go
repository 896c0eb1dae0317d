//go:build !testclock

package clock

// skew is how wrong the machine's clocks are made, for tests: with the build tag testclock, and not at all without it.
type skew struct{}

func newSkew() skew { return skew{} }

func (skew) wall(t int64) int64 { return t }

func (skew) elapsed(t int64) int64 { return t }
