package replication

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/journal"
)

// Options configure a node.
type Options struct {
	// ID is the node's name in its cluster, which never changes. Address is where clients reach it.
	ID, Address string
	Table       Table
	Clock       Clock
	// Fatal is called once when the node cannot continue. It must not block.
	Fatal func(error)
	// Changed is called when the node begins to lead, stops leading, or learns of another leader. It must not block.
	Changed func()
	Log     *slog.Logger
	// Clients serves a connection on which another node forwards its clients' commands, and closes it. from names that
	// node. If Clients is nil, such connections are refused.
	Clients func(c net.Conn, from string)
	// Agree returns the settings that must be the same on all nodes, by name. Nodes compare them, and warn.
	Agree func() map[string]string
	// Heartbeat is after how long without the leader a node asks for votes, Election how long it waits for them, Lease
	// after how long without a majority a leader steps down. 0 stands for the default. That of Lease is Heartbeat: with
	// a shorter one, a stall that no follower has noticed would cost the leadership.
	Heartbeat, Election, Lease time.Duration
	// SnapshotBytes is after how many bytes of log a snapshot is made, TrailingBytes about how many stay behind it. 0
	// stands for the default.
	SnapshotBytes, TrailingBytes int64

	server string        // the node's server id: see identity.go; in tests, just its ID
	stall  time.Duration // how long a write of the log may take; 0 for stallLimit
}

// Node is one of the nodes that hold the same state.
type Node struct {
	o     Options
	table Table
	clock Clock
	log   *slog.Logger
	parts parts
	raft  *raft.Raft

	gate                    journal.Gate
	dirtied, kick, advanced chan struct{}
	retry                   chan struct{} // tells lead to look again
	grown                   chan struct{} // a snapshot is due
	proposed                chan proposal
	stop                    chan struct{}
	stopOnce                sync.Once
	started                 atomic.Bool
	loops                   sync.WaitGroup
	unkicked                atomic.Bool

	// turn is not 0 while the node's own epoch is open and decisions use the table. Each epoch has another turn. It is
	// changed under mu.
	turn atomic.Uint64
	// until is the Elapsed up to which Deciding allows decisions, lease the lease timeout.
	until atomic.Int64
	lease time.Duration

	// buf, and the sequence of an epoch's last batch, belong to the proposer.
	buf        journal.Buffer
	sequence   uint64
	sequenceOf uint64 // a turn
	lastClock  int64  // of the turn's last group
	// refusing counts the attempts in a row to open an epoch that Raft has refused because of a transfer. Only lead
	// uses it.
	refusing int
	// transfer is held during a transfer of the leadership. While handing is set, this node opens no epoch. leaving is
	// set when the node is about to stop, so its table need not be rebuilt.
	transfer         sync.Mutex
	handing, leaving atomic.Bool

	// draining is held while the table is cut and drained. Whoever holds it takes no other lock of the node.
	draining sync.Mutex

	// building is held, outside of mu, by whoever rebuilds the table.
	building sync.Mutex

	// mu guards the fields below. It is not held during a call of Raft.
	mu       sync.Mutex
	machine  machine
	primary  primary
	turns    uint64 // epochs that this node has opened
	noted    int64  // what an earlier run has noted: the time has reached this plus Elapsed; 0 without a note
	clockAt  int64  // Elapsed when the newest time was applied
	failed   bool
	applied  uint64 // index of the last entry
	rebuilds uint64 // begun, or made unnecessary
	ignored  uint64 // entries that the fence has stopped
	// rebuilding is set while the table is being rebuilt. Entries are only counted meanwhile.
	rebuilding bool
	// goal is the last entry that the others had when this node first asked one of them, or 0 before that. A node that has
	// applied it has caught up.
	goal uint64
	// overheard is the newest Epoch that was counted meanwhile. It is not known yet whether the fence accepts it.
	overheard entry
	differ    differs // see agree.go
	// broken counts the events that make a copy of the table worthless: abdications and installed snapshots.
	broken uint64
	hashes hashes
	sizes  groupSizes
	// logBytes and logEntries count what was logged since the last snapshot began.
	logBytes, logEntries uint64
}

// parts are where Raft stores its data, and what it talks through.
type parts struct {
	logs      raft.LogStore
	stable    raft.StableStore
	guarded   *guarded // below logs
	snapshots *snapshotStore
	transport raft.Transport
	wire      *wire        // the transport, nil for one in memory
	who       *identity    // nil for a node in memory
	stores    *stores      // nil for a node in memory
	note      string       // the path of the note, "" for none
	close     func() error // after Raft has stopped
}

// The defaults of the timeouts. A follower whose disk stalls for longer than the heartbeat's timeout asks for votes,
// because heartbeats wait for the disk.
const (
	defaultHeartbeat = 500 * time.Millisecond
	defaultElection  = 500 * time.Millisecond
)

// config is Raft's, see PROTOCOL.md for the reasons.
func (o *Options) config() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.server)
	c.HeartbeatTimeout = orDefault(o.Heartbeat, defaultHeartbeat)
	c.ElectionTimeout = orDefault(o.Election, defaultElection)
	c.LeaderLeaseTimeout = orDefault(o.Lease, c.HeartbeatTimeout)
	c.MaxAppendEntries = 64 // or fewer, by their bytes: see fit
	c.BatchApplyCh = false
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	// Bytes of log trigger snapshots, not entries.
	c.SnapshotThreshold = 1 << 62
	c.SnapshotInterval = 24 * time.Hour
	c.TrailingLogs = trailingLeast
	c.Logger = newRaftLog(o.Log)
	return c
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// newNode returns a node that does nothing yet.
func newNode(o Options, p parts) *Node {
	return &Node{
		o: o, table: o.Table, clock: o.Clock, log: o.Log, parts: p,
		dirtied: make(chan struct{}, 1), kick: make(chan struct{}, 1), advanced: make(chan struct{}, 1), retry: make(chan struct{}, 1), grown: make(chan struct{}, 1),
		proposed: make(chan proposal, maxProposed), stop: make(chan struct{}),
	}
}

// start starts a node on its parts. The node closes them.
func start(o Options, p parts) (*Node, error) {
	if o.server == "" {
		o.server = o.ID
	}
	n := newNode(o, p)
	n.clockAt = n.clock.Elapsed()
	if err := n.recallNote(); err != nil {
		return nil, err
	}
	if err := p.guarded.discardConflicting(p.logs); err != nil {
		return nil, err
	}
	if err := n.checkFormat(); err != nil {
		return nil, err
	}
	if p.wire != nil {
		p.wire.stop = n.stop
	}
	if err := n.startRaft(); err != nil {
		return nil, err
	}
	n.started.Store(true)
	n.loops.Add(5)
	if p.wire != nil {
		admits := n.admits
		p.wire.l.admits.Store(&admits)
		n.loops.Go(n.askPeers)
		n.loops.Go(n.leadAlone)
	}
	go n.takeNotes()
	go n.compact()
	go n.lead()
	go n.propose()
	go n.answers()
	return n, nil
}

// startRaft starts Raft.
func (n *Node) startRaft() error {
	p := &n.parts
	return p.guarded.apart(func() (err error) {
		c := n.o.config()
		n.lease = c.LeaderLeaseTimeout
		n.raft, err = raft.NewRaft(c, (*fsm)(n), p.logs, p.stable, p.snapshots, p.transport)
		return err
	})
}

// leadAlone makes the only voter of a cluster lead at once: without it, the node would first wait a heartbeat timeout for
// a leader. After an error it does.
func (n *Node) leadAlone() {
	members, err := n.Members()
	if err != nil || len(members) == 0 || slices.ContainsFunc(members, func(m Member) bool { return m.Voter != m.Self }) {
		return
	}
	now := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	_ = n.parts.wire.TimeoutNow(raft.ServerID(n.o.server), n.parts.wire.LocalAddr(), now, &raft.TimeoutNowResponse{})
}

// bootstrap makes the node the only member of a new cluster.
func bootstrap(o Options, p parts, members ...raft.Server) error {
	if o.server == "" {
		o.server = o.ID
	}
	return p.guarded.apart(func() error {
		return raft.BootstrapCluster(o.config(), p.logs, p.stable, p.snapshots, p.transport, raft.Configuration{Servers: members})
	})
}

// Close stops the node. The outcome of steps that are decided but not accepted is ErrUnknown.
func (n *Node) Close() error {
	var err error
	n.stopOnce.Do(func() {
		n.abdicateAny(raft.ErrRaftShutdown)
		n.mu.Lock() // whoever adds to loops holds it, and looks at stop before
		close(n.stop)
		n.mu.Unlock()
		// Raft is shut down last: it then forgets accepted entries that its goroutine for Apply has not taken yet, and
		// whoever waits for them would wait for ever. Peers hear nothing any more, so a leader answers for all others
		// within a lease timeout.
		n.loops.Wait()
		err = n.raft.Shutdown().Error()
		if n.parts.close != nil {
			if cerr := n.parts.close(); err == nil {
				err = cerr
			}
		}
	})
	return err
}

// request makes a request of Raft and waits for the answer, as Close does. It returns raft.ErrRaftShutdown if the node
// stops.
func (n *Node) request(make func() raft.Future) error {
	n.mu.Lock()
	if stopped(n.stop) {
		n.mu.Unlock()
		return raft.ErrRaftShutdown
	}
	n.loops.Add(1)
	n.mu.Unlock()
	defer n.loops.Done()
	return make().Error()
}

// Leader returns where clients reach the node that decides, or "" if this node knows of none. A Raft leader whose epoch
// is not open yet decides nothing.
func (n *Node) Leader() string {
	server, _, client := n.decides()
	if server == n.o.server && (n.turn.Load() == 0 || n.handing.Load()) {
		return ""
	}
	return client
}

// decides returns the server id of the node that decides, where peers dial it, and where clients reach it. All are ""
// if this node knows of none.
func (n *Node) decides() (server, peer, client string) {
	at, leader := n.raft.LeaderWithID()
	server, peer = string(leader), string(at)
	n.mu.Lock()
	epoch, client := n.heard()
	behind := n.behind()
	n.mu.Unlock()
	switch {
	case server == "" || epoch.node != nodeNumber(server) && !behind:
		return "", "", ""
	case epoch.node != nodeNumber(server): // the epoch is an old one, of another node
		client = n.parts.wire.l.peer(leader).Client
	}
	return server, peer, client
}

// behind reports whether this node does not have all entries yet that the others had when it started. The lock is held.
func (n *Node) behind() bool {
	return n.turn.Load() == 0 && n.parts.wire != nil && (n.goal == 0 || n.applied < n.goal)
}

// heard returns the newest epoch that this node knows of, and where clients reach its primary. The lock is held.
func (n *Node) heard() (epoch id, address string) {
	if n.rebuilding {
		return n.overheard.epoch, n.overheard.address
	}
	return n.machine.epoch, n.machine.address
}

// Peer returns the address at which peers dial the node that decides. It returns "" if this node decides, or knows of
// no such node.
func (n *Node) Peer() string {
	server, peer, _ := n.decides()
	if server == n.o.server {
		return ""
	}
	return peer
}

// Ready reports whether the node's table is what its log says. It is not while the table is being rebuilt.
func (n *Node) Ready() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.rebuilding && !n.failed
}

// leadRetry is how soon a node looks again whether it can lead.
const leadRetry = 100 * time.Millisecond

// lead opens an epoch whenever Raft has made this node the leader.
//
// LeaderCh merges notifications: a node that has lost the leadership and regained it may see a single "true". So lead
// takes one only as a hint to look again. If an epoch stayed open meanwhile, the fence finds out.
func (n *Node) lead() {
	defer n.loops.Done()
	tick := time.NewTicker(leadRetry)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case leads := <-n.raft.LeaderCh():
			if !leads {
				n.abdicateAny(raft.ErrLeadershipLost)
			}
		case <-n.retry:
		case <-tick.C:
		}
		if n.raft.State() == raft.Leader && n.Turn() == 0 && n.Ready() && !n.handing.Load() {
			err := n.open()
			if err != nil {
				n.log.Info("the node leads, but its epoch has not begun", "err", err)
			}
			n.watchTransfer(err)
		}
	}
}

// open proposes an Epoch. Once it is applied, decisions use the table.
func (n *Node) open() error {
	if err := n.raft.Barrier(enqueueTimeout).Error(); err != nil {
		return err
	}
	format, err := n.chooseFormat()
	if err != nil {
		return err
	}
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // never fails
	own := id{node: nodeNumber(n.o.server), nonce: binary.LittleEndian.Uint64(nonce[:]) | 1}
	n.mu.Lock()
	if n.rebuilding || n.failed {
		n.mu.Unlock()
		return ErrNotReady
	}
	n.machine.ask(own)
	e := entry{format: format, kind: kindEpoch, epoch: own, after: n.machine.epoch, clock: n.beginning(), address: n.o.Address}
	n.mu.Unlock()
	if err := n.raft.Apply(e.appendTo(nil), enqueueTimeout).Error(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machine.own != own {
		return ErrNotReady
	}
	n.turns++
	n.primary = primary{epoch: own, format: format, start: n.machine.clock, since: n.clockAt}
	n.confirmed()
	n.table.Lead(n.primary.start-n.primary.since, &n.gate, func() { signal(n.dirtied) })
	n.turn.Store(n.turns)
	signal(n.kick) // with the next entry, the others learn at once that the Epoch is committed; without one, Raft tells them 50 ms later
	n.log.Info("this node leads", "epoch", own.String(), "term", n.machine.term)
	n.changed()
	return nil
}

// maxAhead is the most by which a new epoch moves the time ahead of the last replicated time plus what has elapsed
// since.
const maxAhead = int64(250 * time.Millisecond)

// beginning returns the time at which an epoch of this node would begin. It is the wall clock's time, but no earlier
// than the last replicated time plus what has elapsed since, and at most maxAhead later. If no time was ever
// replicated, it is the wall clock's.
func (n *Node) beginning() int64 {
	wall := n.clock.Wall()
	if n.machine.clock == 0 {
		return wall
	}
	least := n.reached()
	return max(least, min(wall, least+maxAhead))
}

// nodeNumber returns the number of a node in the ids of its epochs. Two nodes may share a number, because each id also
// has a random part.
func nodeNumber(name string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// abdicate closes the epoch if it is open. It is called from outside of Apply.
func (n *Node) abdicate(epoch id, cause error) {
	n.mu.Lock()
	var told []waiter
	if n.machine.own == epoch && n.machine.close() {
		told = n.closed(cause)
	}
	n.mu.Unlock()
	tell(told, ErrUnknown)
}

func (n *Node) abdicateAny(cause error) {
	n.mu.Lock()
	epoch := n.machine.own
	n.mu.Unlock()
	if epoch != (id{}) {
		n.abdicate(epoch, cause)
	}
}

// closed does what follows when the machine has closed the node's own epoch. It returns the waiters whose outcome is
// now unknown. The lock is held, so no entry is applied while decisions may still use the table. It does not call Raft.
func (n *Node) closed(cause error) []waiter {
	n.broken++
	told := n.primary.waiters
	led := n.turn.Load() != 0
	n.turn.Store(0)
	n.primary = primary{}
	if led {
		n.draining.Lock() // no drain is in progress, and none begins
		n.table.Follow()
		n.draining.Unlock()
		n.log.Warn("this node no longer leads", "cause", cause)
		n.rebuildSoon()
		n.changed()
	}
	return told
}

func tell(all []waiter, err error) {
	for _, w := range all {
		w.fn(err)
	}
}

func (n *Node) changed() {
	if n.o.Changed != nil && n.started.Load() {
		n.o.Changed()
	}
}

// fail ends the node's part in the cluster, unless err only says that the node stops. The lock is held.
func (n *Node) fail(err error) {
	if n.failed || errors.Is(err, raft.ErrRaftShutdown) {
		return
	}
	n.failed = true
	n.log.Error("the node stops", "err", err)
	n.o.Fatal(err)
}
