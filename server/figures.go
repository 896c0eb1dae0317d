package server

import (
	"time"

	"limitdb/internal/stats"
)

// Figures returns the figures of the server, for metrics.
func (srv *Server) Figures() stats.Server {
	c := &srv.counters
	rejected, denied := c.rejected.Load(), c.denied.Load()
	f := stats.Server{
		Version: srv.version, Uptime: time.Duration(srv.clock.Now() - srv.started),
		Clients: stats.Clients{
			Connected: int64(srv.clients.count()), Max: srv.set.MaxClients.Get(),
			Blocked: srv.parked.Load(), Paused: int64(srv.pause.held.Len()), Monitors: int64(srv.monitors.count()),
			BufferBytes: srv.clientBytes.Load(), BufferBytesMax: srv.clientsBudget(),
			Accepted:     c.connections.Load() - rejected - denied,
			Rejected:     []stats.Count{{Name: "maxclients", N: rejected}, {Name: "protected-mode", N: denied}},
			AuthFailures: c.authFailures.Load(), ProtocolErrors: c.protocolErrors.Load(), Panics: c.panics.Load(),
		},
		Traffic: srv.counts.Traffic(), Commands: srv.allTotals(),
		SlowlogEntries: srv.slowlog.Len(), SlowCommands: srv.slowlog.Total(),
	}
	for i, name := range reasonNames() {
		f.Clients.Closed = append(f.Clients.Closed, stats.Count{Name: name, N: c.closed[i].Load()})
	}
	return f
}
