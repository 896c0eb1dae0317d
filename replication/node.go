package replication

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/replication/peers"
)

// Node is one of the nodes that hold the same state. It joins its parts with Raft; none of them knows the node.
type Node struct {
	*Cluster
	*Primary
	o         Options
	log       *slog.Logger
	parts     parts
	raft      *raft.Raft
	life      *lifetime
	stopOnce  sync.Once
	started   atomic.Bool
	replica   *replica
	clockFile *clockFile
	compact   *compactor
	settings  *settings
	survey    *survey
	retry     chan struct{} // tells lead to look again

	// transfer is held during a transfer of the leadership. While handing is set, this node opens no epoch.
	transfer sync.Mutex
	handing  atomic.Bool
}

// newNode returns a node that does nothing yet.
func newNode(o Options, p parts) *Node {
	n := &Node{o: o, log: o.Log, parts: p, life: newLifetime(), retry: make(chan struct{}, 1)}
	n.compact = newCompactor(&o, n.life)
	n.Primary = newPrimary(o.Table, o.Clock.Elapsed, n.life, o.Beat)
	n.replica = &replica{
		replayer: replayer{o.Table, p.logs, p.snapshots, n.life.stop},
		clock:    o.Clock, log: o.Log, life: n.life, guarded: p.guarded, primary: n.Primary, time: logTime{clock: o.Clock},
		told: events{changed: n.changed, fatal: o.Fatal, grew: n.compact.grew, inForce: p.inForce, rebuilt: func() { signal(n.retry) }},
	}
	if o.Idle != nil {
		n.idle = o.Idle
	}
	if o.Turns != nil {
		n.count = o.Turns
	}
	n.send = func(entry []byte) outcome { return n.raft.Apply(entry, enqueueTimeout) }
	n.lost = n.replica.abdicate
	n.clockFile = &clockFile{path: p.note, clock: o.Clock, logs: p.logs, snapshots: p.snapshots, stores: p.stores, log: o.Log, reached: n.replica.reached}
	n.Cluster = &Cluster{
		wire: p.wire, self: Member{ID: o.ID, Client: o.Address, server: o.server}, elapsed: o.Clock.Elapsed, life: n.life,
		leads: func() bool { return n.Turn() != 0 },
	}
	n.settings = &settings{own: o.Agree, cluster: n.Cluster, elapsed: o.Clock.Elapsed, log: o.Log}
	n.survey = &survey{cluster: n.Cluster, settings: n.settings}
	return n
}

// start starts a node on its parts. The node closes them.
func start(o Options, p parts) (*Node, error) {
	if o.server == "" {
		o.server = o.ID
	}
	n := newNode(o, p)
	n.replica.time.at = o.Clock.Elapsed()
	now, err := n.clockFile.recall()
	if err != nil {
		return nil, err
	}
	if now != 0 {
		n.replica.time.noted = now - o.Clock.Elapsed()
	}
	if err := p.guarded.discardConflicting(p.logs); err != nil {
		return nil, err
	}
	if err := checkFormat(p.logs); err != nil {
		return nil, err
	}
	if p.wire != nil {
		p.wire.Stop, p.wire.Sends, p.wire.Handed = n.life.stop, checkedBy(n.compact.damaged), n.takesOver
		p.wire.Leads = func(term uint64) bool {
			return !n.started.Load() || n.raft.State() == raft.Leader && n.raft.CurrentTerm() == term
		}
	}
	if err := n.startRaft(); err != nil {
		return nil, err
	}
	n.started.Store(true)
	if p.wire != nil {
		p.wire.Layer.Admit(n.admits)
		if !n.o.Surveyed {
			n.life.start(n.survey.run)
		}
		n.life.start(n.leadAlone)
	}
	for _, loop := range []func(){func() { n.clockFile.keep(n.life.stop) }, n.compact.run, n.lead, n.Primary.run, n.answers} {
		n.life.start(loop)
	}
	return n, nil
}

// startRaft starts Raft, and joins it with the parts.
func (n *Node) startRaft() error {
	p := &n.parts
	return p.guarded.apart(func() (err error) {
		c := n.o.config()
		n.lease = c.LeaderLeaseTimeout
		if p.wire != nil {
			p.wire.SetHeartbeat(c.HeartbeatTimeout)
		}
		n.raft, err = raft.NewRaft(c, n.replica, p.logs, p.stable, p.snapshots, p.transport)
		n.Cluster.raft, n.compact.raft = n.raft, n.raft
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
		n.replica.abdicateAny(raft.ErrRaftShutdown) // at once, so that nobody waits for the end of what runs
		// Raft is shut down last: it then forgets accepted entries that its goroutine for Apply has not taken yet, and
		// whoever waits for them would wait for ever. Peers hear nothing any more, so a leader answers for all others
		// within a lease timeout.
		n.life.end()
		n.replica.abdicateAny(raft.ErrRaftShutdown) // from an epoch that has begun meanwhile
		err = n.raft.Shutdown().Error()
		if n.parts.close != nil {
			if cerr := n.parts.close(); err == nil {
				err = cerr
			}
		}
	})
	return err
}

// ID returns the node's raft-id.
func (n *Node) ID() string { return n.o.ID }

// Leader returns where clients reach the node that decides, or "" if this node knows of none. A Raft leader whose epoch
// is not open yet decides nothing.
func (n *Node) Leader() string {
	server, _, client := n.decides()
	if server == n.o.server && (n.Turn() == 0 || n.handing.Load()) {
		return ""
	}
	return client
}

// decides returns the server id of the node that decides, where peers dial it, and where clients reach it. All are ""
// if this node knows of none.
func (n *Node) decides() (server, peer, client string) {
	at, leader := n.raft.LeaderWithID()
	server, peer = string(leader), string(at)
	epoch, client, applied := n.replica.heard()
	switch {
	case server == "" || epoch.node != nodeNumber(server) && !(n.Turn() == 0 && n.survey.behind(applied)):
		return "", "", ""
	case epoch.node != nodeNumber(server): // the epoch is an old one, of another node
		client = n.parts.wire.Layer.Said(leader).Client
	}
	return server, peer, client
}

// Decides returns the raft-id of the node that decides, "" if this node knows of none.
func (n *Node) Decides() string {
	server, _, _ := n.decides()
	if server == n.o.server && n.Turn() == 0 {
		return ""
	}
	return peers.NameOf(server)
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
func (n *Node) Ready() bool { return n.replica.ready() }

// Now returns the time for decisions while the node's own epoch is open, and the replicated time otherwise.
func (n *Node) Now() int64 {
	if now, open := n.now(); open {
		return now
	}
	return n.replica.now()
}

// Expired returns the time up to which a node that does not decide may drop expired keys, or 0 while it may drop none.
// It is one group behind the replicated time: a decision in the next group may be older than the last group's clock,
// and may have changed a part of a state that had not expired then.
func (n *Node) Expired() int64 { return n.replica.expired() }

// Snapshot makes a snapshot, and blocks until it is durable. It returns ErrNotReady while the table is being rebuilt,
// and if the node abdicates meanwhile.
func (n *Node) Snapshot() error { return n.compact.snapshot() }

// VotersSay returns what the other voters that answer say of one of the settings of Options.Agree.
func (n *Node) VotersSay(name string) []string { return n.settings.votersSay(name) }

// SetTimeouts changes the timeouts of a running node: see Options.
func (n *Node) SetTimeouts(heartbeat, election time.Duration) error {
	c := n.raft.ReloadableConfig()
	c.HeartbeatTimeout, c.ElectionTimeout = orDefault(heartbeat, defaultHeartbeat), orDefault(election, defaultElection)
	if c.HeartbeatTimeout < n.lease {
		return fmt.Errorf("the lease timeout is %v since the start, and the heartbeat timeout must not be less", n.lease)
	}
	if n.parts.wire != nil {
		n.parts.wire.SetHeartbeat(c.HeartbeatTimeout)
	}
	return n.raft.ReloadConfig(c)
}

// leadRetry is how soon a node looks again whether it can lead, after it could not. leadLook is when it looks although nothing has happened.
const (
	leadRetry = 100 * time.Millisecond
	leadLook  = time.Second
)

// lead opens an epoch whenever Raft has made this node the leader.
//
// LeaderCh merges notifications: a node that has lost the leadership and regained it may see a single "true". So lead
// takes one only as a hint to look again. If an epoch stayed open meanwhile, the fence finds out.
func (n *Node) lead() {
	var refused refusals
	var kept streams
	tick := time.NewTicker(leadLook)
	defer tick.Stop()
	for pause := leadLook; ; {
		select {
		case <-n.life.stop:
			return
		case leads := <-n.raft.LeaderCh():
			if !leads {
				n.replica.abdicateAny(raft.ErrLeadershipLost)
			}
		case <-n.retry:
		case <-tick.C:
			if kept.unused(n.raft.State() == raft.Leader) && n.parts.wire != nil {
				n.parts.wire.CloseStreams() // those of other nodes to this one as well: they come back
			}
		}
		if n.raft.State() == raft.Leader && n.Turn() == 0 && n.Ready() && !n.handing.Load() {
			err := n.open()
			if err != nil {
				n.log.Info("the node leads, but its epoch has not begun", "err", err)
			}
			if refused.stuck(err) {
				n.replica.giveUp(errStuckTransfer)
			}
		}
		next := leadLook
		if leads := n.raft.State() == raft.Leader; kept.follows(leads) || leads && n.Turn() == 0 {
			next = leadRetry
		}
		if next != pause {
			pause = next
			tick.Reset(pause)
		}
	}
}

// streams says when to close the connections to the other nodes that Raft keeps, each with a buffer of 256 kB: when the node has led and leads no more. A
// node that begins a cluster of several groups leads them all at first.
type streams struct {
	led   bool
	since int // ticks of leadRetry since then
}

// follows notes whether the node leads, and reports whether ticks count.
func (s *streams) follows(leads bool) bool {
	if leads {
		*s = streams{led: true}
	}
	return s.led && !leads
}

// releaseAfter is after how many ticks without leading.
const releaseAfter = 100

// unused is called at each tick, and reports whether the connections are to be closed.
func (s *streams) unused(leads bool) bool {
	if !s.follows(leads) {
		return false
	}
	if s.since++; s.since < releaseAfter {
		return false
	}
	*s = streams{}
	return true
}

// open proposes an Epoch. Once it is applied, decisions use the table.
func (n *Node) open() error {
	if err := n.raft.Barrier(enqueueTimeout).Error(); err != nil {
		return err
	}
	format, err := n.format(n.replica.format())
	if err != nil {
		return err
	}
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // never fails
	own := id{node: nodeNumber(n.o.server), nonce: binary.LittleEndian.Uint64(nonce[:]) | 1}
	e, err := n.replica.ask(own, format, n.o.Address)
	if err != nil {
		return err
	}
	if err := n.raft.Apply(e.appendTo(nil), enqueueTimeout).Error(); err != nil {
		return err
	}
	return n.replica.opened(own, format)
}

// changed tells the server that another node decides, or none.
func (n *Node) changed() {
	if n.o.Changed != nil && n.started.Load() {
		n.o.Changed()
	}
}
