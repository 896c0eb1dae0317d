package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"limitdb/engine"
	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/cluster"
	"limitdb/server/spec"
	"limitdb/transport"
)

// Durability is the server's interface to the code that keeps its state on disk. Any
// goroutine may call the functions. Those that block say so.
type Durability struct {
	// Switch applies the current values of the directives appendonly and save. It blocks until
	// the whole state is durable, or the log has ended.
	Switch func() error
	// Turn identifies this node's current period of leadership. The server calls it before it
	// decides anything and passes the result to Wait. It is nil if there is only one node.
	Turn func() uint64
	// Wait arranges a call of fn once everything that can have been seen until now is durable.
	// fn receives an error if that can never be known. It must not block, and may be called
	// before Wait returns. Wait returns false if there is nothing to wait for; fn is then never
	// called. The sync begins at the next Kick.
	Wait func(turn uint64, fn func(err error)) bool
	// Holds reports whether Wait may return true. It is cheap.
	Holds func() bool
	// Kick begins the sync that callers of Wait are waiting for, if any. The transport calls it
	// after each round of its loops. The server calls it for connections that are in no loop.
	Kick func()
	// Sync makes everything until now durable, and blocks.
	Sync func() error
	// Snapshot writes a snapshot and blocks until it is durable. It returns ErrSnapshotting
	// while another is being written.
	Snapshot func() error
	// Backup makes a backup below the data directory and returns its path. It blocks.
	Backup func(name string) (path string, err error)
	// Stats returns the current figures.
	Stats func() stats.Durability
}

// ErrSnapshotting is what Durability.Snapshot and Backup return while a snapshot is being written.
var ErrSnapshotting = errors.New("a snapshot is being written")

// durable is the server's side of Durability.
type durable struct {
	*Durability             // nil if nothing can be kept
	running     atomic.Bool // BGSAVE
	// ackLeader is raft-ack leader.
	ackLeader atomic.Bool
	syncs     syncs // WAITAOF
}

// turns reports whether the server decides in turns: whether it is a node of a cluster.
func (d *durable) turns() bool { return d.Durability != nil && d.Turn != nil }

// turn returns the node's turn, before anything is decided, and specialFollowing if it has none.
func (d *durable) turn() (turn uint64, special uint32) {
	if !d.turns() {
		return 0, 0
	}
	if turn = d.Turn(); turn == 0 {
		return 0, specialFollowing
	}
	return turn, 0
}

// await blocks until everything seen so far in a turn is durable. known is false if that can never be known or, with
// ctx's error, if ctx ends first.
func (d *durable) await(ctx context.Context, turn uint64) (known bool, err error) {
	over := make(chan error, 1)
	if d.Durability == nil || !d.Holds() || !d.Wait(turn, func(err error) { over <- err }) {
		return true, nil
	}
	d.Kick()
	select {
	case lost := <-over:
		return lost == nil, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// beginTurn notes the node's turn.
func (s *session) beginTurn() {
	turn, special := s.srv.durable.turn()
	s.turn = turn
	s.early |= special
}

// stats returns the current figures.
func (d *durable) stats() stats.Durability {
	if d.Durability == nil {
		return stats.Durability{}
	}
	return d.Stats()
}

// SetLoading sets whether the state is being loaded. While it is, the server refuses all but a
// few commands with -LOADING. Loading may set the clock, and the engine must not remember an
// earlier reading, so call SetLoading(true) before Run.
func (srv *Server) SetLoading(on bool) { srv.setSpecial(specialLoading, on) }

// SetRefusing makes the server refuse commands that write with -MISCONF, for the reason err.
// If err is nil, it accepts them again.
func (srv *Server) SetRefusing(err error) {
	if err != nil {
		text := "MISCONF limitdb cannot write its log and refuses commands that change something until it can (" + resp.Excerpt([]byte(spec.Plain(err))) + ")"
		srv.misconf.Store(&text)
	}
	srv.setSpecial(specialMisconf, err != nil)
	if err != nil {
		srv.checkWaits()
	}
}

// Refusing reports whether commands that write are refused. See SetRefusing.
func (srv *Server) Refusing() bool { return srv.special.Load()&specialMisconf != 0 }

// owed holds the replies that wait until the state they reveal is durable. Only the session
// uses its fields, except due and lost, which the syncing goroutine sets before it wakes the
// session. Replies that reveal no state (PING, INFO, CONFIG, what the gate refuses) wait only for the
// replies before them.
//
// One wait is under way at a time. Replies of commands that run meanwhile are appended, and
// get a wait of their own when the first is over.
type owed struct {
	s       *session
	b       []byte
	covered int // the wait under way is for these first bytes of b
	waiting bool
	told    bool   // the bytes after covered reveal state
	turn    uint64 // of the bytes after covered; 0: of more than one turn
	due     atomic.Bool
	lost    atomic.Bool // the outcome of the covered commands is unknown
	wake    func(err error)
}

// tell notes whether the reply of cmd, which begins at mark, reveals state.
func (s *session) tell(cmd *spec.Command, mark int) {
	if s.told || cmd.Flags&(spec.Write|spec.Readonly) == 0 || len(s.call.Out) <= mark {
		return
	}
	s.tellFirst(cmd, mark)
}

// tellFirst is tell for the first reply of a batch that may reveal state. With raft-ack leader, most replies need not
// wait. It is a function of its own so that the compiler inlines tell.
//
//go:noinline
func (s *session) tellFirst(cmd *spec.Command, mark int) {
	c := &s.call
	if !c.Reveals(cmd) || c.Table != nil || s.srv.durable.ackLeader.Load() && cmd.Flags&spec.Quorum == 0 && s.pending == nil {
		return
	}
	s.tellAll(mark)
}

// tellAll records that the replies from mark on reveal state.
func (s *session) tellAll(mark int) {
	if !s.told {
		s.told, s.quiet = true, mark
	}
}

// hold keeps the replies back if they must wait, and reports whether it did. If told is true,
// the replies after the first quiet bytes reveal state.
func (s *session) hold(told bool) bool {
	if s.owed == nil {
		if s.srv.durable.Durability == nil || !s.srv.durable.Holds() {
			return false
		}
		s.owed = &owed{s: s}
		o := s.owed
		conn := s.conn
		o.wake = func(err error) {
			o.lost.Store(err != nil)
			o.due.Store(true)
			conn.Wake()
		}
	}
	o := s.owed
	if o.waiting {
		switch {
		case len(o.b) == o.covered:
			o.turn = s.turn
		case o.turn != s.turn:
			o.turn = 0
		}
		o.b = append(o.b, s.call.Out...)
		o.told = o.told || told
	} else {
		if !o.await(s.turn) {
			return false
		}
		if s.quiet > 0 {
			s.conn.Write(s.call.Out[:s.quiet])
		}
		o.b = append(o.b, s.call.Out[s.quiet:]...)
		o.waiting, o.covered = true, len(o.b)
	}
	s.call.Out = s.call.Out[:0]
	if s.life.Open() && int64(len(o.b))+s.conn.Pending() > s.OutputLimit() {
		s.pub.CloseForOutput()
	}
	return true
}

// await begins to wait until everything seen so far in a turn is durable.
func (o *owed) await(turn uint64) bool {
	s := o.s
	if !s.srv.durable.Wait(turn, o.wake) {
		return false
	}
	if in, ok := s.conn.(interface{ CallsAfterInput() bool }); !ok || !in.CallsAfterInput() {
		s.srv.durable.Kick()
	}
	return true
}

// release sends replies whose wait is over.
func (o *owed) release() {
	if o == nil || !o.due.Swap(false) {
		return
	}
	s := o.s
	if o.lost.Load() {
		writeUnknown(s.conn, o.b[:o.covered])
	} else {
		s.conn.Write(o.b[:o.covered])
	}
	o.b = append(o.b[:0], o.b[o.covered:]...)
	o.waiting, o.covered = false, 0
	if len(o.b) > 0 {
		if o.told && o.await(o.turn) {
			o.waiting, o.covered, o.told = true, len(o.b), false
			return
		}
		o.told = false
		s.conn.Write(o.b)
		o.b = o.b[:0]
	}
	if cap(o.b) > flushAt {
		o.b = nil
	}
	s.end()
}

// writeUnknown sends an error in place of each reply in b. If b has only part of a reply, which
// a large reply sent in pieces may leave, it sends nothing and closes the connection.
func writeUnknown(conn transport.Conn, b []byte) {
	from := bufio.NewReader(bytes.NewReader(b))
	var out []byte
	for {
		v, err := resp.ReadReply(from, len(b))
		if err == io.EOF {
			break
		}
		if err != nil {
			conn.Close(errUnknown)
			return
		}
		if v.Kind != '>' {
			out = resp.AppendError(out, errUnknownOutcome)
		}
	}
	conn.Write(out)
}

// errUnknown closes a connection on which half of a reply was sent.
var errUnknown = errors.New("the outcome of a command is not known")

// owing reports whether replies are held back.
func (o *owed) owing() bool { return o != nil && o.waiting }

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

// Settle returns when the sessions have ended the batches that they ran when it was called, or after a second. After Follow and Settle,
// no session decides anything that is not yet in the engine, and all their replies that reveal it wait for its outcome.
func (srv *Server) Settle() { srv.clients.Settle() }

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
	if s := c.client; c.srv.forwards() && (s == nil || !s.redirected() && !s.tracking.announced()) {
		return spec.ErrNoLeader
	}
	return c.srv.opts.Replication.Elsewhere(&c.cmd.Command, c.Args)
}

// syncs lets many clients that wait for durability share syncs. One goroutine runs the syncs, one
// after the other, as long as a client waits. Clients that give up on a disk that hangs leave
// nothing behind, however many they are.
type syncs struct {
	mu      sync.Mutex // guards all below
	running bool
	next    []chan error // receivers that wait for a sync that has not begun
}

// join returns a channel that receives the error of a sync that begins after the call. A
// receiver that gives up calls leave.
func (y *syncs) join(run func() error) chan error {
	done := make(chan error, 1)
	y.mu.Lock()
	defer y.mu.Unlock()
	y.next = append(y.next, done)
	if !y.running {
		y.running = true
		go y.work(run)
	}
	return done
}

// leave forgets a receiver.
func (y *syncs) leave(done chan error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i, c := range y.next {
		if c == done {
			y.next = append(y.next[:i], y.next[i+1:]...)
			return
		}
	}
}

func (y *syncs) work(run func() error) {
	for {
		y.mu.Lock()
		now := y.next
		y.next = nil
		if len(now) == 0 {
			y.running = false
			y.mu.Unlock()
			return
		}
		y.mu.Unlock()
		err := run()
		for _, c := range now {
			c <- err
		}
	}
}
