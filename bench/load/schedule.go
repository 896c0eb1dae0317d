package load

import (
	"math/bits"
	"time"
)

// schedule says when the pipelines of one connection are due in an open loop. The pipelines of all
// connections together are numbered from 0, due at regular intervals, and dealt out in turn: connection i has
// i, i+connections, and so on. It uses only integers, so that a long run does not drift.
type schedule struct {
	rate, pipeline uint64 // requests a second; requests that are sent together
	connections    uint64
	index          uint64
}

// due returns when pipeline k of this connection is due, counted from the start.
func (s *schedule) due(k uint64) time.Duration {
	requests := (k*s.connections + s.index) * s.pipeline
	hi, lo := bits.Mul64(requests, uint64(time.Second))
	ns, _ := bits.Div64(hi, lo, s.rate)
	return time.Duration(ns)
}

// before returns how many pipelines of all connections are due before t.
func (s *schedule) before(t time.Duration) uint64 {
	hi, lo := bits.Mul64(uint64(t), s.rate)
	n, rest := bits.Div64(hi, lo, s.pipeline*uint64(time.Second))
	if rest > 0 {
		n++
	}
	return n
}

// count returns how many pipelines this connection sends in the run that c describes, in the warm-up and in
// the measurement.
func (s *schedule) count(c *Config) uint64 {
	warm := s.before(c.Warmup)
	all := uint64(1 << 63)
	if c.Duration > 0 {
		all = s.before(c.Warmup + c.Duration)
	}
	if c.Requests > 0 {
		all = min(all, warm+(c.Requests-1)/s.pipeline+1)
	}
	if all <= s.index {
		return 0
	}
	return (all-s.index-1)/s.connections + 1
}
