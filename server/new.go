package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"math"
	"runtime"
	"unsafe"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/script"
	"limitdb/server/audit"
	"limitdb/server/auth"
	"limitdb/server/clients"
	"limitdb/server/denials"
	"limitdb/server/group"
	"limitdb/server/guests"
	"limitdb/server/handler"
	"limitdb/server/history"
	"limitdb/server/limits"
	"limitdb/server/memory"
	"limitdb/server/pubsub"
	"limitdb/server/redact"
	"limitdb/server/rulebook"
	"limitdb/server/spec"
	"limitdb/server/users"
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
		bounds:   script.Bounds{Steps: scriptSteps, Memory: scriptMemory},

		auth: auth.New(o.Settings, o.Users),
	}
	addGroups(srv, o)
	srv.accounts = Accounts{srv.auth, o.Settings}
	lanes := 2 * runtime.GOMAXPROCS(0)
	srv.rules = rulebook.New(rulebook.Options{
		Source: o.Rules, Parts: &srv.parts, Replication: o.Replication, Clock: o.Clock, Log: o.Log, Lanes: lanes, Changed: srv.clients.WakeWaiting,
	})
	srv.guests = guests.Door{
		Settings: o.Settings, Clients: srv.clients, Auth: srv.auth, Clock: o.Clock, Log: o.Log, Stopping: &srv.stopping, As: srv.accounts.as, Certified: srv.accounts.certified,
		Connections: &srv.counters.connections, Rejected: &srv.counters.rejected, Failures: &srv.counters.authFailures,
	}
	srv.table = srv.newCommands()
	srv.auth.Catalog, srv.auth.Changed = srv.table, func(by any) { usersChanged(srv, by) }
	srv.auth.Begin()
	srv.history.Node = func() string { return nodeName(srv) }
	srv.history.Read = func() history.Figures { return historyFigures(srv) }
	srv.history.Checks = func() []history.Checks { return checkTimes(srv) }
	srv.slowlog.Settings, srv.latency.Settings = o.Settings, o.Settings
	srv.latency.Commands = func() []stats.Command { return srv.base.Commands(srv.table.Totals(srv.counts)) }
	for _, g := range srv.every {
		g.GoneBack = func(b *engine.GoneBack) { limits.NoteGoneBack(srv.parts.Decisions, b) }
		g.Engine.Load().TellGoneBack(g.GoneBack)
	}
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
	wide := flagged(spec.Wide)
	srv.wide = func(name []byte) bool { return wide(name) || string(name) == partOf }
	srv.long = flagged(spec.Long)
	srv.audited = audit.Views{Registry: o.Registry, Rules: srv.rules.Set, Keys: func() int64 { return srv.stats().Keys }, User: srv.auth.Line}
	if o.Replication != nil {
		srv.audited.Members = o.Replication.Members
	}
	followSettings(srv)
	return srv
}

// addGroups gives a new server its groups: those of the options or, with none, one.
func addGroups(srv *Server, o Options) {
	if len(o.Groups) == 0 {
		o.Groups = []GroupOptions{{o.Engine, o.Durability, o.Replication}}
	}
	for number, g := range o.Groups {
		of := group.New(g.Engine, o.Clock, g.Durability, g.Replication)
		of.Number = number
		srv.every = append(srv.every, of)
	}
	srv.group, srv.keyed = srv.every[0], srv.every[min(1, len(srv.every)-1):]
	srv.durable = &srv.group.Keeper
	srv.disturbs = math.MaxUint32
	if srv.several() {
		srv.disturbs &^= specialFollowing
		srv.scripts.KeepsSources = true
		for _, g := range srv.keyed {
			if o.Replication != nil {
				o.Replication.Keyed = append(o.Replication.Keyed, g.Replication)
			}
		}
		srv.parts.GroupOf = func(key []byte) *handler.Group { return &srv.groupOf(key).Group }
		srv.parts.Look = looks(srv)
	}
}

// followSettings makes of some directives what the server works with, now and when they change.
func followSettings(srv *Server) {
	registry := srv.registry
	keep := func() error {
		srv.parts.Denials.Store(denials.New(srv.set.RecentDenials.Get()))
		return nil
	}
	_ = keep() // it never fails
	registry.OnChange(keep, srv.set.RecentDenials)
	srv.ackChanged()
	registry.OnChange(func() error { srv.ackChanged(); return nil }, srv.set.RaftAck)
	srv.timingChanged()
	registry.OnChange(func() error { srv.timingChanged(); return nil }, srv.set.SlowlogLogSlowerThan, srv.set.LatencyThreshold)
	registry.OnChange(func() error { srv.lengths.Add(1); return nil }, srv.set.ProtoMaxBulkLen, srv.set.ClientQueryBufferLimit)
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
	for _, g := range srv.every {
		g.Keeper.AckLeader.Store(g.Replication != nil && srv.set.RaftAck.Get() == "leader")
	}
}

// Accept returns the session of a new connection, or refuses the connection with an error
// that says why.
func (srv *Server) Accept(c transport.Conn) transport.Session {
	srv.counters.connections.Add(1)
	s := &session{srv: srv, peer: peer{conn: c, life: c.Life()}}
	s.call = srv.newCall(srv.group, 0, resp.RESP2, nil)
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
	srv.introduce(s, forwarded)
	s.rd.setLimits(s.srv, s.authed)
	refuse := ""
	switch {
	case srv.stopping.Load() && forwarded:
		c.CloseAfterFlush(uplink.ErrNotLeading)
	case srv.stopping.Load():
		c.CloseAfterFlush(clients.ErrRefused) // without a reply: a client library then connects again, but gives up after an error
	case !forwarded && protected(srv, c):
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
	s.call.Lane = laneOf(srv, c, s.pub.ID)
	s.stripe = srv.counts.Stripe(s.call.Lane)
	if refuse != "" {
		c.Write(resp.AppendError(nil, refuse))
		c.CloseAfterFlush(clients.ErrRefused)
	}
	return s
}

// introduce says who the client of a new session is: the user default, or whom its own node has asked it for.
func (srv *Server) introduce(s *session, forwarded bool) {
	r := srv.auth.Default()
	s.authed = forwarded || srv.auth.Open()
	if forwarded {
		if name := s.far.Client().User; name != "" {
			if r = srv.auth.Get(name); r == nil {
				r = users.Reset(name, 0) // this node does not know it, or no longer
			}
		}
	} else {
		s.auto = s.authed && !srv.auth.Loaded()
		s.certify = s.conn.TLS() && srv.set.TLSClientsUser.Get() == "CN"
	}
	s.call.Rights, s.limited = r, !r.Free()
	s.pub.User.Store(r)
	s.pub.Authed.Store(s.authed)
}

// usersChanged has the sessions look at their users, and closes the connections of those that were deleted, or that receive what they may no
// longer. by is the client that has changed them, which looks after its command.
func usersChanged(srv *Server, by any) {
	srv.lengths.Add(1)
	own, _ := by.(*handlerClient)
	srv.clients.Each(func(c *clients.Client) {
		old := c.User.Load()
		if old == nil || c.Far || own != nil && c == &own.pub {
			return
		}
		if now := srv.auth.Now(old); now == nil || now != old && receivesTooMuch(srv, c, now) {
			c.Conn.Close(clients.ErrUserGone)
		}
	})
}

// receivesTooMuch reports whether a client is sent what its user may not see: messages of a channel, or everybody's commands.
func receivesTooMuch(srv *Server, c *clients.Client, r *users.Rights) bool {
	if monitor := srv.table.Find([]byte("MONITOR")); c.Monitor.Load() && r.Check(monitor, nil).Reason != users.Allowed {
		return true
	}
	if c.SubCount() == 0 {
		return false
	}
	for kind := range pubsub.Kinds {
		for _, name := range c.Subs.List(kind) {
			if !r.MayHear([]byte(name), kind == pubsub.Pattern) {
				return true
			}
		}
	}
	return false
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
	for _, ch := range s.call.changes {
		ch.End(srv.clock.Now(), "not known: the client has gone")
	}
	if w, ok := s.pending.(*crossed); ok {
		w.Abandon()
	}
	if w := s.pub.Waits.Load(); w != nil {
		w.Group.Engine.Load().Cancel(w.Group.At(srv.clock.Now()), w.Waiter, nil)
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
func laneOf(srv *Server, c transport.Conn, id int64) int {
	n := srv.counts.Stripes() / 2
	if loop := c.Loop(); loop >= 0 {
		return loop % n
	}
	return n + int(id)%n
}

// protected reports whether protected mode refuses this peer.
func protected(srv *Server, c transport.Conn) bool {
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
