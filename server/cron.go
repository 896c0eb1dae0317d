package server

import (
	"context"
	"time"
)

// houseEvery is how often deadlines are checked.
const houseEvery = 100 * time.Millisecond

func (srv *Server) keepHouse(ctx context.Context) {
	tick := time.NewTicker(houseEvery)
	defer tick.Stop()
	for {
		srv.pulses.house.Rest()
		select {
		case <-ctx.Done():
			return
		case <-srv.clients.Kicked():
			srv.pulses.house.Beat(srv.clock.Now())
			srv.clients.Evict()
		case <-tick.C:
			now := srv.clock.Now()
			srv.pulses.house.Beat(now)
			srv.clients.Check(now)
			srv.pause.Expire(now)
			srv.auth.Delayed.Release(now)
			srv.leaderless.Wake()
			srv.rates.Sample(now, srv.counts.Traffic())
			_, heap, _ := srv.memory.Read(now)
			srv.memory.Peak(heap + uint64(srv.states().Bytes()))
		}
	}
}

// The sweeper's steps. Each step looks at sweepBudget slots of the table, which takes well
// under a millisecond. While there is much to drop, the sweeper rests only for sweepRest
// between steps, which still leaves most of a core to traffic.
const (
	sweepBudget = 4_000
	sweepRest   = 2 * time.Millisecond
)

// sweep drops expired keys, and evicts keys after maxmemory was lowered. It runs hz times a
// second, and more often while there is much to drop. Eviction removes a sixteenth of the keys
// that it looks at, so the threshold for "much" is below that.
func (srv *Server) sweep(ctx context.Context) {
	for wait := sweepRest; ; {
		srv.pulses.sweep.Rest()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		srv.pulses.sweep.Beat(srv.clock.Now())
		wait = time.Second / time.Duration(max(1, srv.set.Hz.Get()))
		if srv.special.Load()&specialLoading != 0 {
			continue // the clock may be wrong while loading, and an engine's time never goes back
		}
		if srv.states().Sweep(srv.clock.Now(), sweepBudget) > sweepBudget/20 {
			wait = min(wait, sweepRest)
		}
		srv.auth.Sweep(srv.clock.Now())
	}
}
