package serve

import (
	"sync/atomic"
	"time"
)

// rateEvery is how often a node looks how many decisions its groups have made.
const rateEvery = time.Second

// rates has how many decisions a second each group makes on this node. One goroutine looks.
type rates struct {
	of   []atomic.Uint64 // by group
	made []uint64        // by group, decisions at the last look
	at   int64           // elapsed then, 0 before the first look
}

func newRates(groups int) *rates {
	return &rates{of: make([]atomic.Uint64, groups), made: make([]uint64, groups)}
}

// look sets the rates since the last look. elapsed is a monotonic time in ns, more than 0. made returns how many decisions a group has made; with fewer
// than at the last look, it counts anew.
func (r *rates) look(elapsed int64, made func(group int) uint64) {
	took := uint64(elapsed - r.at)
	for g := range r.of {
		now, rate := made(g), uint64(0)
		if r.at > 0 && took > 0 && now > r.made[g] {
			rate = ((now-r.made[g])*uint64(time.Second) + took/2) / took
		}
		r.of[g].Store(rate)
		r.made[g] = now
	}
	r.at = elapsed
}

// watchRates looks how many decisions the groups have made.
func (s *several) watchRates() {
	s.rates.look(s.p.clock.Elapsed(), func(g int) uint64 {
		if s.replicas[g].node.Load() == nil {
			return 0
		}
		states := s.replicas[g].states.Load().Stats()
		return states.Allowed + states.Limited
	})
}
