package gen

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"

	"limitdb/simulate"
)

const (
	ms     = int64(1e6)
	second = 1000 * ms
	minute = 60 * second
)

// noon is when all traffic begins, in Unix ns: a full hour, so that clock windows begin with it.
const noon = int64(1_800_000_000) * second

// Traffic is a list of requests in order of time.
type Traffic struct {
	Name string
	// About describes it, for a limit of 100 a minute.
	About    string
	Requests []simulate.Request
}

// Traffics returns the traffic for measuring errors: 20 minutes each, for a limit of 100 a minute for each
// caller.
func Traffics() []Traffic {
	return []Traffic{
		steady(), bursty(), edge(),
		zipf("zipf", "three ask for more than the limit", 5000, 60, 0, 4),
		zipf("zipf and floods", "none reaches the limit, but two more ask 20 times a second for three minutes each", 20_000, 10, 2, 5),
	}
}

// stream gathers the requests of several callers.
type stream struct {
	requests []simulate.Request
	random   *rand.Rand
}

func newStream(seed uint64) *stream {
	return &stream{random: rand.New(rand.NewPCG(seed, 2026))}
}

// add adds a request of caller n.
func (s *stream) add(caller int, at int64) {
	s.requests = append(s.requests, simulate.Request{Time: at, Key: []byte{byte(caller >> 16), byte(caller >> 8), byte(caller)}, Cost: 1})
}

// sorted returns the requests in order of time.
func (s *stream) sorted() []simulate.Request {
	slices.SortStableFunc(s.requests, func(a, b simulate.Request) int {
		switch {
		case a.Time < b.Time:
			return -1
		case a.Time > b.Time:
			return 1
		}
		return 0
	})
	return s.requests
}

// between draws a number from least to most.
func (s *stream) between(least, most int64) int64 {
	return least + s.random.Int64N(most-least+1)
}

// steady has callers that ask for half of the limit up to twice as much, at random times.
func steady() Traffic {
	const callers, length = 24, 20 * minute
	s := newStream(1)
	for c := range callers {
		each := 50 + 150*c/(callers-1) // a minute
		for range each * 20 {
			s.add(c, noon+s.random.Int64N(length))
		}
	}
	return Traffic{"steady", "24 callers, each at its own rate of 50 to 200 a minute, at random times", s.sorted()}
}

// bursty has callers that ask for a page with everything on it, and then read.
func bursty() Traffic {
	const callers, length = 24, 20 * minute
	s := newStream(2)
	for c := range callers {
		for at := s.between(0, 30*second); at < length; at += s.between(2*second, 60*second) {
			for range s.between(10, 70) {
				s.add(c, noon+at)
				at += s.between(5*ms, 100*ms)
			}
		}
	}
	return Traffic{"bursty", "24 callers, each with bursts of 10 to 70 within seconds, 2 s to a minute apart", s.sorted()}
}

// edge has requests on and off around the edges of the clock's minutes, the worst case for windows that begin
// with the clock.
func edge() Traffic {
	const callers, length = 24, 20 * minute
	s := newStream(3)
	for c := range callers {
		for at := minute; at < length; at += 2 * minute {
			for range 240 {
				s.add(c, noon+at+s.between(-6*second, 6*second))
			}
		}
	}
	return Traffic{"on-off at the edge", "24 callers, each with 240 requests around every other full minute, from 6 s before to 6 s after, and none at other times", s.sorted()}
}

// zipf has callers of which a few ask for most, as on a public service, perSecond in total, and some more
// that flood it.
func zipf(name, about string, callers int, perSecond int64, floods int, seed uint64) Traffic {
	const length = 20 * minute
	s := newStream(seed)
	sums := make([]uint64, callers)
	sum := uint64(0)
	for c := range sums {
		sum += 1e12 / uint64(c+1)
		sums[c] = sum
	}
	for range length / second * perSecond {
		draw := s.random.Uint64N(sum)
		s.add(sort.Search(callers, func(c int) bool { return sums[c] > draw }), noon+s.random.Int64N(length))
	}
	for f := range floods {
		from := noon + int64(f+1)*6*minute + 17*second
		for range 3 * 60 * 20 {
			s.add(callers+f, from+s.random.Int64N(3*minute))
		}
	}
	return Traffic{name, fmt.Sprintf("%s callers, the nth of whom asks for 1/n of what the first does; %s", grouped(callers), about), s.sorted()}
}
