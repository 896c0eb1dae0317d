package server

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"limitdb/internal/pulse"
	"limitdb/server/group"
)

// Run does the server's periodic work until ctx ends: deadlines, expiry, eviction of clients,
// rates, and requests that wait for their turn.
func (srv *Server) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { srv.keepHouse(ctx) })
	for _, g := range srv.every {
		wg.Go(func() { ring(ctx, g) })
	}
	wg.Go(func() { srv.sweep(ctx) })
	wg.Go(func() { srv.watchScripts(ctx) })
	wg.Wait()
}

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
			srv.returns.Again()
			srv.rates.Sample(now, srv.counts.Traffic())
			srv.rules.Look(now)
			srv.history.Look(now)
			_, heap, _ := srv.memory.Read(now)
			srv.memory.Peak(heap + uint64(srv.bytes()))
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

// sweep drops expired keys of all groups, and evicts keys after maxmemory was lowered. It goes over all groups hz times a
// second, and more often over those in which there is much to drop. One timer is for all: most groups have nothing to drop.
func (srv *Server) sweep(ctx context.Context) {
	much := make([]bool, len(srv.every)) // by group, whether it is to be swept again
	rest := time.Duration(0)             // until all groups are
	for wait := sweepRest; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		all := rest <= wait
		if rest -= wait; all {
			rest = time.Second / time.Duration(max(1, srv.set.Hz.Get()))
			srv.auth.Sweep(srv.clock.Now())
		}
		wait = rest
		for i, g := range srv.every {
			if much[i] = (all || much[i]) && srv.sweepGroup(g); much[i] {
				wait = min(wait, sweepRest)
			}
		}
	}
}

// sweepGroup takes one step, and reports whether there is much more to drop.
func (srv *Server) sweepGroup(g *group.Group) bool {
	if g.Special.Load()&specialLoading != 0 {
		return false // the clock may be wrong while loading, and an engine's time never goes back
	}
	g.Sweeps.Beat(srv.clock.Now())
	defer g.Sweeps.Rest()
	return g.Engine.Load().Sweep(g.Now(), sweepBudget) > sweepBudget/20
}

// ringMost is the longest sleep before ring reads the clock again. The engine's deadlines are
// in the group's time, which may be set while a sleep runs in monotonic time.
const ringMost = time.Second / 4

// ring makes the engine decide the requests that wait, when their time has come.
func ring(ctx context.Context, g *group.Group) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		g.Rings.Rest()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-g.Engine.Load().Sooner():
		case <-g.Swapped():
		}
		g.Rings.Beat(g.Clock.Now())
		if next := g.Engine.Load().Wake(g.Now()); next != math.MaxInt64 {
			timer.Reset(min(ringMost, max(0, time.Duration(next-g.Now()))))
		}
	}
}

// StuckAfter is how long, in nanoseconds, a task that takes milliseconds may run before it
// counts as stuck.
const StuckAfter = int64(5 * time.Second)

// Live returns nil if the server's own goroutines make progress. Otherwise its error names
// one that does not.
func (srv *Server) Live() error {
	now := srv.clock.Now()
	type task struct {
		name string
		*pulse.Pulse
	}
	tasks := []task{{"housekeeping", &srv.pulses.house}, {"watching scripts", &srv.pulses.watch}}
	for _, g := range srv.every {
		tasks = append(tasks, task{"expiry", &g.Sweeps}, task{"waking the requests that wait", &g.Rings})
	}
	for _, p := range tasks {
		if stuck := p.Stuck(now); stuck > StuckAfter {
			return fmt.Errorf("%s has made no progress for %v", p.name, time.Duration(stuck).Round(time.Second))
		}
	}
	return nil
}
