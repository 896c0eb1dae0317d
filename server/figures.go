package server

import "limitdb/internal/stats"

// Figures holds the server's counters for metrics. They count from the start of the process and
// never decrease.
type Figures struct {
	Version string
	// Uptime is in nanoseconds.
	Uptime                               int64
	Clients, MaxClients                  int64
	Parked, Paused, Monitors             int64
	BufferBytes, BufferBytesMax          int64
	Accepted, RejectedMax, RejectedMode  uint64
	AuthFailures, ProtocolErrors, Panics uint64
	BytesIn, BytesOut                    uint64
	Closed                               map[string]uint64 // by reason
	Commands                             []stats.Command   // those that were called
	SlowlogEntries                       int64
	SlowCommands                         uint64
}

// Figures returns the sums of the counters.
func (srv *Server) Figures() Figures {
	traffic := srv.counts.Traffic()
	c := &srv.counters
	f := Figures{
		Version: srv.version, Uptime: srv.clock.Now() - srv.started,
		Clients: int64(srv.clients.count()), MaxClients: srv.set.MaxClients.Get(),
		Parked: srv.parked.Load(), Paused: int64(srv.pause.held.Len()), Monitors: int64(srv.monitors.count()),
		BufferBytes: srv.clientBytes.Load(), BufferBytesMax: srv.clientsBudget(),
		RejectedMax: c.rejected.Load(), RejectedMode: c.denied.Load(),
		AuthFailures: c.authFailures.Load(), ProtocolErrors: c.protocolErrors.Load(), Panics: c.panics.Load(),
		BytesIn: traffic.In, BytesOut: traffic.Out,
		Closed: make(map[string]uint64), Commands: srv.allTotals(),
	}
	f.SlowlogEntries, f.SlowCommands = srv.slowlog.Len(), srv.slowlog.Total()
	f.Accepted = c.connections.Load() - f.RejectedMax - f.RejectedMode
	for i, name := range reasonNames() {
		f.Closed[name] = c.closed[i].Load()
	}
	return f
}
