package server

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/engine"
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
			Blocked: srv.clients.Parked.Load(), Paused: int64(srv.pause.held.Len()), Monitors: int64(srv.monitors.Len()),
			BufferBytes: srv.clients.Bytes.Load(), BufferBytesMax: srv.clients.Budget(),
			Accepted: c.connections.Load() - rejected - denied,
			Rejected: []stats.Count{{Name: "maxclients", N: rejected}, {Name: "protected-mode", N: denied}},
			Closed:   srv.clients.Closed.Counts(), AuthFailures: c.authFailures.Load(), ProtocolErrors: c.protocolErrors.Load(), Panics: c.panics.Load(),
		},
		Traffic: srv.counts.Traffic(), Commands: srv.allTotals(),
		SlowlogEntries: srv.slowlog.Len(), SlowCommands: srv.slowlog.Total(),
	}
	return f
}

// allTotals returns the figures of every command that was called since the
// start, by id.
func (srv *Server) allTotals() []stats.Command {
	out := make([]stats.Command, 0, len(srv.table.All))
	for id, c := range srv.table.All {
		t := srv.counts.Command(id)
		if t.Calls()+t.Rejected > 0 {
			t.Name = c.Full
			out = append(out, t)
		}
	}
	return out
}

// commandTotals is allTotals since CONFIG RESETSTAT.
func (srv *Server) commandTotals() []stats.Command { return srv.statsBase.since(srv.allTotals()) }

// statsBase holds the values of the counters at the last CONFIG RESETSTAT. Counters only grow,
// as Prometheus requires; INFO shows the difference.
type statsBase struct {
	mu       sync.Mutex // guards all below
	commands map[string]stats.Command
	values   map[string]uint64
}

// since returns all less their values at the last reset.
func (b *statsBase) since(all []stats.Command) []stats.Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := all[:0]
	for _, t := range all {
		t = t.Since(b.commands[t.Name])
		if t.Calls()+t.Rejected > 0 {
			out = append(out, t)
		}
	}
	return out
}

// value returns a counter less its value at the last reset.
func (b *statsBase) value(name string, now uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now - b.values[name]
}

// resetStats restarts the figures of INFO from zero.
func (srv *Server) resetStats() {
	commands := make(map[string]stats.Command)
	for _, t := range srv.allTotals() {
		commands[t.Name] = t
	}
	values := make(map[string]uint64)
	e := srv.states().Stats()
	for _, v := range srv.statValues(&e) {
		values[v.name] = v.n
	}
	srv.parts.Errors.Reset()
	b := &srv.statsBase
	b.mu.Lock()
	b.commands, b.values = commands, values
	b.mu.Unlock()
}

// statValue is one counter of INFO stats that CONFIG RESETSTAT resets.
type statValue struct {
	name string
	n    uint64
}

// statValues returns these counters since the start of the process; e has the engine's.
func (srv *Server) statValues(e *engine.Stats) []statValue {
	traffic := srv.counts.Traffic()
	c := &srv.counters
	return []statValue{
		{"total_connections_received", c.connections.Load()},
		{"total_commands_processed", traffic.Calls},
		{"total_net_input_bytes", traffic.In},
		{"total_net_output_bytes", traffic.Out},
		{"rejected_connections", c.rejected.Load()},
		{"denied_connections", c.denied.Load()},
		{"expired_keys", e.Expired},
		{"evicted_keys", e.Evicted},
		{"evicted_denied_keys", e.EvictedDenied},
		{"evicted_clients", srv.clients.Closed.Of(clients.ErrEvicted)},
		{"client_output_buffer_limit_disconnections", srv.clients.Closed.Of(clients.ErrOutput)},
		{"client_timeout_disconnections", srv.clients.Closed.Of(clients.ErrIdle, clients.ErrAuthTime, clients.ErrCommandTime, clients.ErrWriteTime)},
		{"acl_access_denied_auth", c.authFailures.Load()},
		{"protocol_errors", c.protocolErrors.Load()},
		{"cross_protocol_connections", c.crossProtocol.Load()},
		{"unknown_commands", c.unknown.Load()},
		{"panics_contained", c.panics.Load()},
		{"decisions_allowed", e.Allowed + srv.Rules().Free()},
		{"decisions_limited", e.Limited},
		{"decisions_shadow_limited", srv.Rules().Shadowed()},
		{"decisions_peeked", e.Peeked},
		{"decisions_refunded", e.Refunded},
		{"decisions_refused_oom", e.Refused},
		{"decisions_forgiven_ns", e.Forgiven},
		{"decisions_waited", e.Waited},
	}
}

// counters holds the counters that change rarely enough for all sessions to share them.
type counters struct {
	connections  atomic.Uint64 // accepted
	rejected     atomic.Uint64 // over maxclients
	denied       atomic.Uint64 // protected mode
	authFailures atomic.Uint64
	// forwarded counts commands that were sent to the leader, unknownOutcomes those that got no reply.
	forwarded, unknownOutcomes atomic.Uint64
	protocolErrors             atomic.Uint64
	crossProtocol              atomic.Uint64
	panics                     atomic.Uint64
	unknown                    atomic.Uint64 // unknown commands
}

// pulses are the pulses of the goroutines that Run starts.
type pulses struct{ house, sweep, ring, watch pulse.Pulse }

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
