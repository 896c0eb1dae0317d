package crossing

import (
	"slices"

	"limitdb/groups/across"
	"limitdb/server/group"
	"limitdb/server/handler"
)

// mostAtOnce is how many requests of a Series are under way at the same time.
const mostAtOnce = 16

// A Series is the requests that one command makes. Those that have a key in common are decided in their order, each after the result of the one before, and
// others at the same time. Once one of them has failed, no other begins. One goroutine at a time calls its methods.
type Series struct {
	all     []member
	ready   []int // those that may begin
	running []int
	over    bool // no other begins
	ways    Ways
	wake    func()
}

// member is a request of a Series.
type member struct {
	*Crossing
	before int   // how many must end before it begins; one that has several keys in common may count more than once
	after  []int // those for which it counts
}

// NewSeries returns the requests for all that is asked for, as New does for each.
func NewSeries(all []handler.Asked, of func(key []byte) *group.Group) *Series {
	s := &Series{all: make([]member, len(all))}
	last := map[string]int{} // the last request that has a key
	for i := range all {
		m := &s.all[i]
		m.Crossing = New(all[i].Together, all[i].Each, of)
		for _, key := range all[i].Keys {
			if n, ok := last[string(key)]; ok && n != i {
				s.all[n].after = append(s.all[n].after, i)
				m.before++
			}
			last[string(key)] = i
		}
		if m.before == 0 {
			s.ready = append(s.ready, i)
		}
	}
	return s
}

// Begin begins the requests. Any goroutine may call wake, after which Resume is to be called.
func (s *Series) Begin(ways Ways, wake func()) {
	s.ways, s.wake = ways, wake
	s.begin()
}

// begin begins as many as may.
func (s *Series) begin() {
	for len(s.ready) > 0 && len(s.running) < mostAtOnce && !s.over {
		i := s.ready[0]
		s.ready, s.running = s.ready[1:], append(s.running, i)
		s.all[i].Begin(s.ways, s.wake)
	}
}

// Resume goes on after Begin and after each wake-up, and reports whether all that were begun have a result. Groups may still be giving back.
func (s *Series) Resume() (done bool) {
	for {
		n := len(s.running)
		s.running = slices.DeleteFunc(s.running, func(i int) bool {
			done := s.all[i].Resume()
			if done {
				s.ended(i)
			}
			return done
		})
		if len(s.running) == n {
			return n == 0
		}
		s.begin()
	}
}

// ended notes that a request has a result.
func (s *Series) ended(i int) {
	m := &s.all[i]
	if o := m.Result().Outcome; o != across.Granted && o != across.Denied {
		s.over = true
	}
	for _, n := range m.after {
		if s.all[n].before--; s.all[n].before == 0 {
			s.ready = append(s.ready, n)
		}
	}
}

// Abandon has the requests go on without their caller.
func (s *Series) Abandon() {
	woken := make(chan struct{}, 1)
	s.ways.Kicks = true
	s.wake = func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	for _, i := range s.running {
		s.all[i].left(s.wake)
	}
	go func() {
		for !s.Resume() {
			<-woken
		}
	}()
}

// Result returns the result of one request, after Resume has returned true. Its outcome is 0 if the request was not begun.
func (s *Series) Result(i int) Result { return s.all[i].result }

// Outcome returns what has become of all, after Resume has returned true: Granted if each was granted or denied; Failed if one has failed, and others
// were not decided. Leaderless says that none was granted.
func (s *Series) Outcome() across.Outcome {
	var n [across.Unknown + 1]int
	for i := range s.all {
		n[s.all[i].result.Outcome]++
	}
	switch {
	case n[across.Unknown] > 0, n[across.Leaderless] > 0 && n[across.Granted] > 0:
		return across.Unknown
	case n[across.Leaderless] > 0:
		return across.Leaderless
	case n[across.Failed] > 0:
		return across.Failed
	}
	return across.Granted
}
