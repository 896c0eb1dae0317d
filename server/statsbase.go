package server

import (
	"sync"

	"limitdb/engine"
)

// statsBase is what the counters stood at when CONFIG RESETSTAT was called.
// Counters only ever grow, as Prometheus needs them; INFO shows the difference.
type statsBase struct {
	mu       sync.Mutex // guards all below
	commands map[int]totals
	values   map[string]uint64
}

// since returns all less what was there at the last reset.
func (b *statsBase) since(all []totals) []totals {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.commands) == 0 {
		return all
	}
	out := all[:0]
	for _, t := range all {
		base := b.commands[t.cmd.id]
		t.calls -= base.calls
		t.rejected -= base.rejected
		t.failed -= base.failed
		t.ns -= base.ns
		for i := range t.hist {
			t.hist[i] -= base.hist[i]
		}
		if t.calls+t.rejected > 0 {
			out = append(out, t)
		}
	}
	return out
}

// value returns a counter less what it was at the last reset.
func (b *statsBase) value(name string, now uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now - b.values[name]
}

// resetStats starts the figures of INFO anew.
func (srv *Server) resetStats() {
	commands := make(map[int]totals)
	for _, t := range srv.allTotals() {
		commands[t.cmd.id] = t
	}
	values := make(map[string]uint64)
	e := srv.engine.Stats()
	for _, v := range srv.statValues(&e) {
		values[v.name] = v.n
	}
	srv.errors.reset()
	b := &srv.statsBase
	b.mu.Lock()
	b.commands, b.values = commands, values
	b.mu.Unlock()
	srv.clients.max.Store(int64(srv.clients.count()))
}

// statValue is one counter of INFO stats that CONFIG RESETSTAT starts anew.
type statValue struct {
	name string
	n    uint64
}

// statValues lists them as they stand since the start; e is the engine's.
func (srv *Server) statValues(e *engine.Stats) []statValue {
	calls, in, out := srv.traffic()
	c := &srv.counters
	return []statValue{
		{"total_connections_received", c.connections.Load()},
		{"total_commands_processed", calls},
		{"total_net_input_bytes", in},
		{"total_net_output_bytes", out},
		{"rejected_connections", c.rejected.Load()},
		{"denied_connections", c.denied.Load()},
		{"expired_keys", e.Expired},
		{"evicted_keys", e.Evicted},
		{"evicted_denied_keys", e.EvictedDenied},
		{"evicted_clients", c.closed[reasonOf(errEvicted)].Load()},
		{"client_output_buffer_limit_disconnections", c.closed[reasonOf(errOutput)].Load()},
		{"client_timeout_disconnections", c.timedOut()},
		{"acl_access_denied_auth", c.authFailures.Load()},
		{"protocol_errors", c.protocolErrors.Load()},
		{"cross_protocol_connections", c.crossProtocol.Load()},
		{"unknown_commands", c.unknown.Load()},
		{"panics_contained", c.panics.Load()},
		{"decisions_allowed", e.Allowed},
		{"decisions_limited", e.Limited},
		{"decisions_peeked", e.Peeked},
		{"decisions_refunded", e.Refunded},
		{"decisions_refused_oom", e.Refused},
		{"decisions_forgiven_ns", e.Forgiven},
		{"decisions_waited", e.Waited},
	}
}

// traffic is the number of commands run, and of bytes read and written, since the start.
func (srv *Server) traffic() (calls, in, out uint64) {
	for i := range srv.stripes {
		st := &srv.stripes[i]
		in += st.bytesIn.Load()
		out += st.bytesOut.Load()
		for id := range st.commands {
			calls += st.commands[id].calls.Load()
		}
	}
	return calls, in, out
}
