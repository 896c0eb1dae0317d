package clients

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"limitdb/config"
)

// LevelVerbose is the log level, between debug and info, of events that a single client causes.
const LevelVerbose = slog.Level(-2)

// Check closes clients that are over a deadline or a limit, and corrects the sum of the clients' buffers.
func (s *Set) Check(now int64) {
	var sum, exempt, query, unsent int64
	s.Each(func(c *Client) {
		if reason := c.overdue(now); reason != nil {
			s.log.Log(context.Background(), LevelVerbose, "client closed", "id", c.ID, "addr", c.Addr(), "reason", reason)
			c.Conn.Close(reason)
			return
		}
		if c.Conn.Pending() > c.OutputLimit() || c.overSoft(now) {
			c.CloseForOutput()
		}
		held := c.holding()
		c.accounted.Store(held)
		sum += held
		if c.noEvict.Load() {
			exempt += held
		}
		query, unsent = max(query, c.Buffered.Load()), max(unsent, c.Conn.Pending())
	})
	s.QueryMost.Store(query)
	s.UnsentMost.Store(unsent)
	s.Bytes.Store(sum)
	s.Exempt.Store(exempt)
	if most := s.Budget(); most > 0 && max(exempt, sum-exempt) > most {
		s.Evict()
	}
}

// overdue returns why c must be closed at now, or nil.
func (c *Client) overdue(now int64) error {
	if c.Far {
		return nil // its own node sees to it
	}
	set := c.set.settings
	after := func(since int64, d time.Duration) bool { return d > 0 && now-since > int64(d) }
	if !c.Authed.Load() && after(c.created, set.AuthTimeout.Get()) {
		return ErrAuthTime
	}
	if since := c.PartialSince.Load(); since != 0 && after(since, set.CommandTimeout.Get()) {
		return ErrCommandTime
	}
	if c.Conn.Pending() > 0 {
		if after(c.Conn.Progress(), set.WriteTimeout.Get()) {
			return ErrWriteTime
		}
		return nil
	}
	if c.Parked() || c.Monitor.Load() || c.SubCount() > 0 {
		return nil
	}
	if after(c.LastActive.Load(), set.Timeout.Get()) {
		return ErrIdle
	}
	return nil
}

// Budget returns maxmemory-clients in bytes, 0 for no limit. A percentage is of maxmemory or, without it, of the memory that the process
// may use.
func (s *Set) Budget() int64 {
	whole := s.settings.MaxMemory.Get()
	if whole == 0 {
		whole = s.memory
	}
	return s.settings.MaxMemoryClients.Get(whole)
}

// MostUnsent returns the number of unsent bytes above which the transport stops reading from a client. It is three quarters of
// client-output-buffer-limit, so that a pipeline cannot take its client over the limit, however slowly the client reads the replies.
func (s *Set) MostUnsent() int64 {
	most := s.settings.ClientOutputBufferLimit.Get(config.NormalClient).Hard
	if most == 0 {
		most = s.Budget() // may also be 0, for no limit
	}
	if most == 0 {
		return math.MaxInt64
	}
	return most / 4 * 3
}

// Kicked returns the channel from which one receives when Evict must be called at once.
func (s *Set) Kicked() <-chan struct{} { return s.kicked }

func (s *Set) kick() {
	select {
	case s.kicked <- struct{}{}:
	default:
	}
}

// crowd is a group of clients whose buffers have maxmemory-clients to themselves.
type crowd struct {
	sum     int64
	holders []holder
}

type holder struct {
	c    *Client
	held int64
}

// Evict closes the clients that hold the most memory until the rest together fit in maxmemory-clients. Clients with CLIENT NO-EVICT are
// a crowd of their own: it is not for them that others are closed, nor they for others, but together they are bounded as well.
func (s *Set) Evict() {
	limit := s.Budget()
	var ordinary, exempt crowd
	s.Each(func(c *Client) {
		if !c.Conn.Life().Serving() {
			return // its loop closes it as soon as it can
		}
		of := &ordinary
		if c.noEvict.Load() {
			of = &exempt
		}
		if held := c.holding(); held > 0 {
			of.sum += held
			of.holders = append(of.holders, holder{c, held})
		}
	})
	if limit > 0 {
		s.shed(&ordinary, limit)
		s.shed(&exempt, limit)
	}
	s.Bytes.Store(ordinary.sum + exempt.sum)
	s.Exempt.Store(exempt.sum)
}

// shed closes clients of a crowd, the largest first, until the rest hold no more than limit.
func (s *Set) shed(of *crowd, limit int64) {
	if of.sum <= limit {
		return
	}
	slices.SortFunc(of.holders, func(a, b holder) int { return cmp.Compare(b.held, a.held) })
	for _, h := range of.holders {
		if of.sum <= limit {
			return
		}
		s.log.Warn("client closed: the clients' buffers are over maxmemory-clients", "id", h.c.ID, "addr", h.c.Addr(), "held", h.held, "limit", limit)
		h.c.Conn.Close(ErrEvicted)
		of.sum -= h.held
	}
}
