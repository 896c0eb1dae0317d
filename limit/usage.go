package limit

import (
	"encoding/binary"
	"math/bits"
)

// Bound returns the Level, 0 or more, from which l denies a cost. It is a measure to
// compare keys by, not a decision. For buckets it may be too low by one part in
// eight, or by one arrival of INTERVAL, so that it seldom needs a division. For
// WARMUP it is Warm, because its states say when they deny.
func Bound(l *Limit, cost int64) int64 {
	switch l.Algorithm {
	case GCRA, TOKEN, LEAKY:
		return l.boundTime(l.Burst - cost)
	case QUEUE:
		return l.boundTime(l.Burst - cost + 1)
	case WARMUP:
		return l.Warm
	}
	return max(0, l.Max-cost+1)
}

// boundTime returns roughly how long it takes until so many tokens are back.
func (l *Limit) boundTime(tokens int64) int64 {
	switch {
	case tokens <= 0 || l.Max <= 0:
		return 0
	case tokens == l.Max-1 && l.Interval:
		return 0 // all come at once
	case tokens == l.Max-1 && l.Max >= 8:
		return l.Period - l.Period>>3
	}
	hi, lo := bits.Mul64(uint64(tokens), uint64(l.Period))
	if hi >= uint64(l.Max) {
		return MaxSpan
	}
	t, _ := bits.Div64(hi, lo, uint64(l.Max))
	if l.Interval {
		t -= min(t, uint64(l.Period))
	}
	return int64(min(t, uint64(MaxSpan)))
}

// Usage returns how much of its limit a state uses at now: used out of of, both 0
// or more, in the units of Level. The limit denies if used reaches of. bound is what
// Bound has returned for the limit.
func Usage(k Kind, state []byte, now, bound int64) (used, of int64) {
	used = Level(k, state, now)
	if k != WARMUP.Kind() || len(state) < 8 {
		return used, bound
	}
	heat := int64(0)
	if len(state) > 8 {
		heat, _ = readCount(state[8:])
	}
	if int64(binary.LittleEndian.Uint64(state))-heat > now {
		return used, min(used, heat) // it owes time, and denies
	}
	return used, max(bound, used+1)
}
