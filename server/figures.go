package server

import (
	"errors"
	"fmt"
	"time"

	"limitdb/internal/pulse"
	"limitdb/internal/stats"
	"limitdb/server/clients"
)

// Figures returns the figures of the server, for metrics.
func (srv *Server) Figures() stats.Server {
	c := &srv.counters
	rejected, denied := c.rejected.Load(), c.denied.Load()
	f := stats.Server{
		Version: srv.version, Uptime: time.Duration(srv.clock.Now() - srv.started),
		Clients: stats.Clients{
			Connected: int64(srv.clients.Near()), Max: srv.set.MaxClients.Get(),
			Blocked: srv.clients.Parked.Load(), Paused: int64(srv.pause.Held.Len()), Monitors: int64(srv.monitors.Len()),
			BufferBytes: srv.clients.Bytes.Load(), BufferBytesMax: srv.clients.Budget(),
			Accepted: c.connections.Load() - rejected - denied,
			Rejected: []stats.Count{{Name: "maxclients", N: rejected}, {Name: "protected-mode", N: denied}},
			Closed:   srv.clients.Closed.Counts(), AuthFailures: c.authFailures.Load(), ProtocolErrors: c.protocolErrors.Load(), Panics: c.panics.Load(),
		},
		Traffic: srv.counts.Traffic(), Commands: srv.table.Totals(srv.counts),
		SlowlogEntries: srv.slowlog.Len(), SlowCommands: srv.slowlog.Total(),
	}
	return f
}

// StuckAfter is how long, in nanoseconds, a task that takes milliseconds may run before it
// counts as stuck.
const StuckAfter = int64(5 * time.Second)

// Live returns nil if the server's own goroutines make progress. Otherwise its error names
// one that does not.
func (srv *Server) Live() error {
	now := srv.clock.Now()
	for _, p := range []struct {
		name string
		*pulse.Pulse
	}{{"housekeeping", &srv.pulses.house}, {"expiry", &srv.pulses.sweep}, {"waking the requests that wait", &srv.pulses.ring}, {"watching scripts", &srv.pulses.watch}} {
		if stuck := p.Stuck(now); stuck > StuckAfter {
			return fmt.Errorf("%s has made no progress for %v", p.name, time.Duration(stuck).Round(time.Second))
		}
	}
	return nil
}

// Ready returns nil if the server serves decisions, and otherwise an error that says why not.
func (srv *Server) Ready() error {
	if srv.stopping.Load() {
		return clients.ErrStopped
	}
	if srv.special.Load()&specialLoading != 0 {
		return errors.New("the state is being loaded")
	}
	if srv.Refusing() {
		return errors.New("the log cannot be written, so commands that change something are refused (MISCONF)") // anybody may read this: no path
	}
	if r := srv.opts.Replication; r != nil {
		s := r.Status()
		if why := s.Unready(); why != "" {
			return errors.New(why)
		}
	}
	return nil
}
