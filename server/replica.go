package server

import (
	"maps"
	"time"

	"limitdb/engine"
	"limitdb/server/cluster"
	"limitdb/server/spec"
)

// Of package cluster, for the owner of a server.
type (
	// Replication is the server's interface to the code that keeps its state on several nodes.
	Replication = cluster.Replication
	// Member is a node of the cluster.
	Member = cluster.Member
)

// ErrNotLeading and ErrNotYet are returned by functions of Replication.
var (
	ErrNotLeading = cluster.ErrNotLeading
	ErrNotYet     = cluster.ErrNotYet
)

// states returns the engine in force.
func (srv *Server) states() *engine.Engine { return srv.parts.Engine.Load() }

// Lead puts an engine in force and allows decisions on it.
func (srv *Server) Lead(e *engine.Engine) {
	srv.parts.Engine.Store(e)
	srv.setSpecial(specialFollowing, false)
	select {
	case srv.swapped <- struct{}{}:
	default:
	}
}

// Follow makes the server refuse commands that read or change state from now on, and tell
// clients which node serves them. Commands admitted before still reach the engine, which the
// caller closes.
func (srv *Server) Follow() { srv.setSpecial(specialFollowing, true) }

const (
	// settleTime is the longest time that Settle waits, and settleLook the time between two looks.
	settleTime = time.Second
	settleLook = time.Millisecond
)

// Settle returns when the sessions have ended the batches that they ran when it was called, or after settleTime. After Follow and Settle,
// no session decides anything that is not yet in the engine, and all their replies that reveal it wait for its outcome.
func (srv *Server) Settle() {
	busy := map[*session]int64{}
	srv.clients.each(func(s *session) {
		if n := s.pub.batches.Load(); n%2 == 1 {
			busy[s] = n
		}
	})
	for range settleTime / settleLook {
		maps.DeleteFunc(busy, func(s *session, n int64) bool { return s.pub.batches.Load() != n })
		if len(busy) == 0 {
			return
		}
		time.Sleep(settleLook)
	}
}

// held returns the engine that holds the server's states, also while another node leads.
func (srv *Server) held() *engine.Engine {
	if r := srv.opts.Replication; r != nil {
		return r.Table()
	}
	return srv.states()
}

// elsewhere returns the error for a command that another node must serve. A client that relies on this node to forward it is not told
// where: the node cannot reach the leader itself.
func (c *call) elsewhere() string {
	if s := c.client; c.srv.forwards() && (s == nil || !s.redirected() && !s.caching()) {
		return spec.ErrNoLeader
	}
	return c.srv.opts.Replication.Elsewhere(&c.cmd.Command, c.Args)
}
