package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"math"
	"runtime"
	"unsafe"

	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/script"
	"limitdb/server/auth"
	"limitdb/server/clients"
	"limitdb/server/memory"
	"limitdb/server/redact"
	"limitdb/server/rulebook"
	"limitdb/server/spec"
	"limitdb/transport"
	"limitdb/uplink"
)

// New returns a server that has no listeners yet.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if all := int64(min(memory.TotalMemory(), math.MaxInt64)); o.Memory == 0 || all > 0 && all < o.Memory {
		o.Memory = all
	}
	srv := &Server{
		set:      o.Settings,
		registry: o.Registry,
		clock:    o.Clock,
		log:      o.Log,
		version:  o.Version,
		opts:     o,
		runID:    newRunID(),
		started:  o.Clock.Now(),
		clients:  clients.New(o.Settings, o.Log, o.Memory, int64(unsafe.Sizeof(session{}))),
		swapped:  make(chan struct{}, 1),
		bounds:   script.Bounds{Steps: scriptSteps, Memory: scriptMemory},

		auth: auth.New(o.Settings),
	}
	lanes := 2 * runtime.GOMAXPROCS(0)
	srv.rules = rulebook.New(rulebook.Options{
		Source: o.Rules, Parts: &srv.parts, Replication: o.Replication, Clock: o.Clock, Log: o.Log, Lanes: lanes, Changed: srv.clients.WakeWaiting,
	})
	srv.table = srv.newCommands()
	srv.slowlog.Settings, srv.latency.Settings = o.Settings, o.Settings
	srv.latency.Commands = func() []stats.Command { return srv.base.Commands(srv.table.Totals(srv.counts)) }
	srv.streams.Client = uplink.Client{Remote: httpAddr, Local: httpAddr, Unix: true, RESP3: true}
	srv.parts.Settings, srv.parts.Decisions, srv.parts.Clustered = o.Settings, o.Decisions, o.Replication != nil
	srv.counts = stats.NewCounters(lanes, len(srv.table.All))
	srv.monitors.Changed = func(any bool) { srv.setSpecial(specialMonitor, any) }
	srv.redact = redact.Redactor{Registry: o.Registry, Resolve: srv.table.callable}
	srv.pause.Clock, srv.pause.Changed = srv.clock, func(on bool) { srv.setSpecial(specialPause, on) }
	flagged := func(flag spec.Flags) func(name []byte) bool {
		return func(name []byte) bool {
			c := srv.table.find(name)
			return c != nil && c.Flags&flag != 0
		}
	}
	srv.wide, srv.long = flagged(spec.Wide), flagged(spec.Long)
	srv.parts.Engine.Store(o.Engine)
	srv.durable.Source = o.Durability
	srv.ackChanged()
	o.Registry.OnChange(func() error { srv.ackChanged(); return nil }, srv.set.RaftAck)
	srv.timingChanged()
	o.Registry.OnChange(func() error { srv.timingChanged(); return nil }, srv.set.SlowlogLogSlowerThan, srv.set.LatencyThreshold)
	o.Registry.OnChange(func() error { srv.lengths.Add(1); return nil }, srv.set.ProtoMaxBulkLen, srv.set.ClientQueryBufferLimit)
	return srv
}

// timeEachBelow is the slowlog threshold in µs below which every command is timed individually, not as its
// share of a batch.
const timeEachBelow = 1000

// timingChanged decides from the thresholds of the slow log and the latency monitor whether every command
// is timed individually.
func (srv *Server) timingChanged() {
	us := srv.set.SlowlogLogSlowerThan.Get()
	srv.setSpecial(specialTimeEach, us >= 0 && us < timeEachBelow || srv.set.LatencyThreshold.Get() > 0)
}

func (srv *Server) ackChanged() {
	srv.durable.AckLeader.Store(srv.opts.Replication != nil && srv.set.RaftAck.Get() == "leader")
}

// Accept returns the session of a new connection, or refuses the connection with an error
// that says why.
func (srv *Server) Accept(c transport.Conn) transport.Session {
	srv.counters.connections.Add(1)
	s := &session{srv: srv, conn: c, life: c.Life()}
	s.call = srv.newCall(0, resp.RESP2, nil)
	s.call.client, s.call.Client = s, (*handlerClient)(s)
	srv.clients.Init(&s.pub, c, srv.clock.Now())
	s.pub.Subs = &s.subs
	s.rd.Wide, s.rd.Long = srv.wide, srv.long
	s.subs.Topics, s.subs.Owner = &srv.topics, &s.pub
	far, forwarded := c.(*uplink.Conn)
	if forwarded {
		s.far, s.pub.Far = far, true
		s.adopt(far.Client())
	}
	s.authed = forwarded || srv.auth.Open() // the client's node has asked it
	s.pub.Authed.Store(s.authed)
	s.rd.setLimits(s.srv, s.authed)
	refuse := ""
	switch {
	case srv.stopping.Load() && forwarded:
		c.CloseAfterFlush(uplink.ErrNotLeading)
	case srv.stopping.Load():
		c.CloseAfterFlush(clients.ErrRefused) // without a reply: a client library then connects again, but gives up after an error
	case !forwarded && srv.protected(c):
		srv.counters.denied.Add(1)
		refuse = errProtectedMode
	default:
		oldest, ok := srv.clients.Add(&s.pub)
		if !ok {
			srv.counters.rejected.Add(1)
			refuse = errMaxClients
		}
		if oldest != nil {
			srv.log.Log(context.Background(), clients.LevelVerbose, "client closed", "id", oldest.ID, "addr", oldest.Addr(), "reason", clients.ErrGaveWay)
			oldest.Conn.Close(clients.ErrGaveWay)
		}
	}
	s.call.Lane = srv.laneOf(c, s.pub.ID)
	s.stripe = srv.counts.Stripe(s.call.Lane)
	if refuse != "" {
		c.Write(resp.AppendError(nil, refuse))
		c.CloseAfterFlush(clients.ErrRefused)
	}
	return s
}

// Closed implements transport.Session. It drops everything that the server holds for the session.
func (s *session) Closed(reason error) {
	srv := s.srv
	if !srv.clients.Remove(&s.pub, reason) {
		return
	}
	if s.gone != nil {
		close(s.gone)
	}
	srv.monitors.Remove(&s.pub)
	if s.subs.Len() > 0 {
		s.subs.Clear()
		s.pub.CountSubs()
	}
	s.multi.end(s)
	track(s, false)
	srv.pause.Held.Remove(s.conn)
	srv.auth.Leave(s.conn.RemoteAddr(), srv.clock.Now(), s.conn, s.knows)
	if s.fwd != nil {
		s.fwd.close()
		srv.leaderless.Remove(s.conn)
	}
	if w := s.pub.Waits.Load(); w != nil {
		srv.states().Cancel(srv.clock.Now(), w, nil)
	}
}

// adopt makes the session that of another node's client.
func (s *session) adopt(client *uplink.Client) {
	if client.RESP3 {
		s.call.Proto = resp.RESP3
		s.pub.RESP3.Store(true)
	}
	s.pub.Say(&s.pub.Name, []byte(client.Name), errClientName)
}

// laneOf returns the number of the counters of a connection's session. Each loop has its own, which no
// other core writes, unless there are more loops than processors. Connections with a goroutine
// of their own share the other half.
func (srv *Server) laneOf(c transport.Conn, id int64) int {
	n := srv.counts.Stripes() / 2
	if loop := c.Loop(); loop >= 0 {
		return loop % n
	}
	return n + int(id)%n
}

// protected reports whether protected mode refuses this peer.
func (srv *Server) protected(c transport.Conn) bool {
	return srv.set.ProtectedMode.Get() && srv.auth.Open() && !clients.IsLocal(c.RemoteAddr())
}

// Stopping makes the server refuse new clients and answer the clients that wait for their turn.
// From now on Ready returns an error. The owner of the transport then closes the connections.
func (srv *Server) Stopping() {
	srv.stopping.Store(true)
	srv.clients.WakeWaiting()
}

// newRunID returns 40 random hexadecimal digits, as in Redis' run_id.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
