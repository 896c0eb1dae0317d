package server

import (
	"errors"
	"fmt"
	"time"

	"limitdb/internal/pulse"
	"limitdb/internal/stats"
)

// Figures are the server's counters for whoever publishes them. They count
// from the start of the process and never go down.
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

// Figures adds the counters up.
func (srv *Server) Figures() Figures {
	traffic := srv.counts.Traffic()
	c := &srv.counters
	f := Figures{
		Version: srv.version, Uptime: srv.clock.Now() - srv.started,
		Clients: int64(srv.clients.count()), MaxClients: srv.set.MaxClients.Get(),
		Parked: srv.parked.Load(), Paused: int64(srv.pause.held()), Monitors: int64(srv.monitors.count()),
		BufferBytes: srv.clientBytes.Load(), BufferBytesMax: srv.clientsBudget(),
		RejectedMax: c.rejected.Load(), RejectedMode: c.denied.Load(),
		AuthFailures: c.authFailures.Load(), ProtocolErrors: c.protocolErrors.Load(), Panics: c.panics.Load(),
		BytesIn: traffic.In, BytesOut: traffic.Out,
		Closed: make(map[string]uint64),
	}
	f.SlowlogEntries, f.SlowCommands = srv.slowlog.Len(), srv.slowlog.Total()
	f.Accepted = c.connections.Load() - f.RejectedMax - f.RejectedMode
	for i, name := range reasonNames() {
		f.Closed[name] = c.closed[i].Load()
	}
	for _, t := range srv.allTotals() {
		f.Commands = append(f.Commands, t.Command)
	}
	return f
}

// pulses are those of the goroutines that Run has.
type pulses struct{ house, sweep, ring pulse.Pulse }

// StuckAfter is for how long, in nanoseconds, something that takes milliseconds may go on
// before it counts as stuck.
const StuckAfter = int64(5 * time.Second)

// Live returns nil while the server's own goroutines make progress, and otherwise says which does not.
func (srv *Server) Live() error {
	now := srv.clock.Now()
	for _, p := range []struct {
		name string
		*pulse.Pulse
	}{{"housekeeping", &srv.pulses.house}, {"expiry", &srv.pulses.sweep}, {"waking who waits", &srv.pulses.ring}} {
		if stuck := p.Stuck(now); stuck > StuckAfter {
			return fmt.Errorf("%s has made no progress for %v", p.name, time.Duration(stuck).Round(time.Second))
		}
	}
	return nil
}

// Ready returns nil while decisions are served, and why not otherwise.
func (srv *Server) Ready() error {
	if srv.stopping.Load() {
		return errStopped
	}
	if srv.special.Load()&specialLoading != 0 {
		return errors.New("the state is being loaded")
	}
	return nil
}
