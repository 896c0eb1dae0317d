//go:build !testclock

package clock

// skew makes the machine's clocks wrong, for tests with the build tag testclock. Without the tag it does nothing.
type skew struct{}

func newSkew() skew { return skew{} }

func (skew) wall(t int64) int64 { return t }

func (skew) elapsed(t int64) int64 { return t }
