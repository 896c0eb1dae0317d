package server

import (
	"cmp"
	"context"
	"slices"
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
		case <-srv.evict:
			srv.pulses.house.Beat(srv.clock.Now())
			srv.evictClients()
		case <-tick.C:
			now := srv.clock.Now()
			srv.pulses.house.Beat(now)
			srv.checkClients(ctx, now)
			srv.pause.expire(now)
			srv.authDelays.Release(now)
			srv.leaderless.Wake()
			srv.rates.Sample(now, srv.counts.Traffic())
			_, heap, _ := srv.memory.Read(now)
			srv.peakMemory(heap)
		}
	}
}

// peakMemory returns the bytes of memory in use, with a heap of some bytes, and the most that there have been.
func (srv *Server) peakMemory(heap uint64) (used, peak uint64) {
	used = heap + uint64(srv.states().Bytes())
	for {
		before := srv.peakBytes.Load()
		if peak = max(used, uint64(before)); peak == uint64(before) || srv.peakBytes.CompareAndSwap(before, int64(peak)) {
			return used, peak
		}
	}
}

// checkClients closes clients that are over a deadline or a limit, and corrects the sum of
// the clients' buffers.
func (srv *Server) checkClients(ctx context.Context, now int64) {
	var sum, exempt, query, unsent int64
	srv.clients.each(func(s *session) {
		if reason := srv.overdue(s, now); reason != nil {
			srv.log.Log(ctx, LevelVerbose, "client closed", "id", s.id, "addr", s.pub.addr(), "reason", reason)
			s.conn.Close(reason)
			return
		}
		if s.conn.Pending() > s.OutputLimit() || s.pub.overSoft(now) {
			srv.closeForOutput(s)
		}
		held := s.pub.holding()
		s.pub.accounted.Store(held)
		sum += held
		if s.pub.noEvict.Load() {
			exempt += held
		}
		query, unsent = max(query, s.pub.buffered.Load()), max(unsent, s.conn.Pending())
	})
	srv.queryMost.Store(query)
	srv.unsentMost.Store(unsent)
	srv.clientBytes.Store(sum)
	srv.exemptBytes.Store(exempt)
	if most := srv.clientsBudget(); most > 0 && max(exempt, sum-exempt) > most {
		srv.evictClients()
	}
}

// overSoft reports whether the client's unsent replies have exceeded the soft limit of its
// class for longer than that limit allows.
func (p *public) overSoft(now int64) bool {
	l := p.srv.set.ClientOutputBufferLimit.Get(p.class())
	if l.Soft == 0 || p.conn.Pending() <= l.Soft {
		p.softSince.Store(0)
		return false
	}
	if p.softSince.CompareAndSwap(0, now) {
		return false
	}
	return now-p.softSince.Load() > int64(l.SoftTime)
}

// clientsBudget returns maxmemory-clients in bytes, 0 for no limit. A percentage is of
// maxmemory or, without it, of the memory that the process may use.
func (srv *Server) clientsBudget() int64 {
	whole := srv.set.MaxMemory.Get()
	if whole == 0 {
		whole = srv.opts.Memory
	}
	return srv.set.MaxMemoryClients.Get(whole)
}

// overdue returns why s must be closed at now, or nil.
func (srv *Server) overdue(s *session, now int64) error {
	if s.far != nil {
		return nil // its own node sees to it
	}
	after := func(since int64, d time.Duration) bool { return d > 0 && now-since > int64(d) }
	if !s.pub.authed.Load() && after(s.pub.created, srv.set.AuthTimeout.Get()) {
		return errAuthTime
	}
	if since := s.pub.partialSince.Load(); since != 0 && after(since, srv.set.CommandTimeout.Get()) {
		return errCommandTime
	}
	if s.conn.Pending() > 0 {
		if after(s.conn.Progress(), srv.set.WriteTimeout.Get()) {
			return errWriteTime
		}
		return nil
	}
	if s.pub.parked.Load() || s.pub.monitor.Load() || s.pub.subscribed.Load() > 0 {
		return nil
	}
	if after(s.pub.lastActive.Load(), srv.set.Timeout.Get()) {
		return errIdle
	}
	return nil
}

// kickEviction asks the housekeeper to evict clients now rather than at its next tick.
func (srv *Server) kickEviction() {
	select {
	case srv.evict <- struct{}{}:
	default:
	}
}

// crowd is a group of clients whose buffers have maxmemory-clients to themselves.
type crowd struct {
	sum     int64
	holders []holder
}

type holder struct {
	s    *session
	held int64
}

// evictClients closes the clients that hold the most memory until the rest together fit in
// maxmemory-clients. Clients with CLIENT NO-EVICT are a crowd of their own: it is not for
// them that others are closed, nor they for others, but together they are bounded as well.
func (srv *Server) evictClients() {
	limit := srv.clientsBudget()
	var ordinary, exempt crowd
	srv.clients.each(func(s *session) {
		if !s.life.Serving() {
			return // its loop closes it as soon as it can
		}
		of := &ordinary
		if s.pub.noEvict.Load() {
			of = &exempt
		}
		if held := s.pub.holding(); held > 0 {
			of.sum += held
			of.holders = append(of.holders, holder{s, held})
		}
	})
	if limit > 0 {
		srv.shed(&ordinary, limit)
		srv.shed(&exempt, limit)
	}
	srv.clientBytes.Store(ordinary.sum + exempt.sum)
	srv.exemptBytes.Store(exempt.sum)
}

// shed closes clients of a crowd, the largest first, until the rest hold no more than limit.
func (srv *Server) shed(of *crowd, limit int64) {
	if of.sum <= limit {
		return
	}
	slices.SortFunc(of.holders, func(a, b holder) int { return cmp.Compare(b.held, a.held) })
	for _, h := range of.holders {
		if of.sum <= limit {
			return
		}
		srv.log.Warn("client closed: the clients' buffers are over maxmemory-clients", "id", h.s.id, "addr", h.s.pub.addr(), "held", h.held, "limit", limit)
		h.s.conn.Close(errEvicted)
		of.sum -= h.held
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
		srv.authLimiter.Sweep(srv.clock.Now(), 100)
	}
}
