package serve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/cmd/limitdb/cli"
	"limitdb/engine"
	"limitdb/internal/journal"
	"limitdb/internal/stats"
	"limitdb/replication"
	"limitdb/replication/peers"
	"limitdb/server"
)

// replica connects the engine and the server with the node of a cluster. It holds the node's table.
//
// Each time the node begins to lead, the server gets a new engine, which is closed for good when the node stops
// leading. A late decision finds the engine closed, so it cannot change the table to which the node applies entries of
// the log. That table is another engine, which no client sees before the node leads again.
type replica struct {
	p        *process
	node     atomic.Pointer[replication.Node]
	states   atomic.Pointer[engine.Engine] // the node's table
	certs    *peers.Certificates           // nil without raft-tls-cert-file
	uplinks  uplinks
	password secretSum

	leads    atomic.Bool  // the server decides on states
	smallest atomic.Int64 // of the maxmemory of the other voters that answer, 0 if they have none
	over     atomic.Bool  // the node holds more than its maxmemory
}

// onlyGroup is the number of the group that has all keys, and RaftDir the node's directory for it inside the data directory.
const (
	onlyGroup = 1
	RaftDir   = "raft/1"
)

func newReplica(p *process) (*replica, error) {
	certs, err := loadNodeTLS(p.set)
	if err != nil {
		return nil, fmt.Errorf("raft-tls: %w", err)
	}
	r := &replica{p: p, certs: certs}
	r.uplinks.p, r.uplinks.look = p, make(chan struct{}, 1)
	r.states.Store(p.newEngine())
	p.engine.Close()
	p.kept.follow()
	return r, nil
}

// newEngine returns an engine. All engines of the process hash alike, so that the place of a key in one, which a command may have
// when a node begins to lead, is its place in the next. The first call is before any goroutine's.
func (p *process) newEngine() *engine.Engine {
	for p.seed == 0 {
		p.seed = rand.Uint64()
	}
	return engine.New(engine.Options{Shards: int(p.set.Shards.Get()), Seed: p.seed})
}

// states returns the engine whose figures the server shows.
func (p *process) states() *engine.Engine {
	if p.replica != nil {
		return p.replica.states.Load()
	}
	return p.engine
}

// keeper returns the functions by which replies wait.
func (p *process) keeper() *server.Durability {
	if p.replica != nil {
		return p.replica.keeper()
	}
	return p.durable.forServer()
}

// open starts the node. The ports must be open, since the node tells the others where clients reach it.
func (r *replica) open(ctx context.Context, background *sync.WaitGroup) error {
	if r == nil {
		return nil
	}
	p, set := r.p, r.p.set
	address, err := r.advertised()
	if err != nil {
		return err
	}
	dir := filepath.Join(p.durable.dir, RaftDir)
	bootstrap, err := r.begins(ctx, dir)
	if err != nil {
		return err
	}
	alone, err := r.openStandalone(dir)
	if err != nil {
		return err
	}
	node, err := replication.Open(replication.Options{
		ID: set.RaftID.Get(), Address: address, Table: r,
		Clock: replication.Clock{Wall: p.clock.Wall, Elapsed: p.clock.Elapsed, Boot: p.boot},
		Fatal: r.fatal, Log: p.log, Agree: r.agree,
		Changed: r.uplinks.changed, Clients: r.uplinks.serve,
		Heartbeat: set.RaftHeartbeat.Get(), Election: set.RaftElection.Get(), Lease: set.RaftLease.Get(),
	}, replication.Disk{Dir: dir, Group: onlyGroup, Address: set.RaftAddr.Get(), Certificates: r.certs, Bootstrap: bootstrap, Import: alone.read})
	if err != nil {
		alone.release()
		if replication.Damaged(err) {
			err = cli.WithStatus(err, cli.ExitCorrupt)
		}
		return err
	}
	if err := alone.retire(); err != nil {
		return errors.Join(err, node.Close())
	}
	r.node.Store(node)
	p.registry.OnChange(func() error {
		return node.SetTimeouts(set.RaftHeartbeat.Get(), set.RaftElection.Get())
	}, set.RaftHeartbeat, set.RaftElection)
	p.log.Info("this is a node of a cluster, whose log takes the place of appendonly and appendfsync", "raft-id", node.ID(), "raft-addr", set.RaftAddr.Get())
	background.Go(func() { r.followLeader(ctx, node) })
	background.Go(func() { r.sweep(ctx) })
	background.Go(func() { r.watchBudget(ctx) })
	if set.RaftJoin.Get() != "" {
		background.Go(func() { r.joiner().run(ctx, node) })
	}
	return nil
}

// leave hands the leadership over before the node stops, so that clients wait only for that.
func (r *replica) leave() {
	if r == nil || r.node.Load() == nil {
		return
	}
	node := r.node.Load()
	led := node.Turn() != 0
	switch err := node.Leave(); {
	case err != nil:
		r.p.log.Warn("the node stops while it leads: clients wait until another one is elected", "err", err)
	case led && node.Turn() == 0:
		time.Sleep(parting)
	}
}

// parting is for how long a node that has led serves on when another one leads. Meanwhile busy clients that know clusters are told so, and
// have left when their connection ends.
const parting = 100 * time.Millisecond

func (r *replica) close() error {
	if r == nil || r.node.Load() == nil {
		return nil
	}
	return r.node.Load().Close()
}

// sweepSlots is how many slots of the table one sweep looks at, and sweepPause the time between two sweeps.
const (
	sweepSlots = 4_000
	sweepPause = 10 * time.Millisecond
)

// sweep removes what has expired at the replicated time while this node makes no decisions. At other times
// the server does it.
func (r *replica) sweep(ctx context.Context) {
	every(ctx, sweepPause, func() {
		if node := r.node.Load(); node.Turn() == 0 {
			r.states.Load().Sweep(node.Expired(), sweepSlots)
		}
	})
}

// The methods below implement replication.Table.

// Lead hands the table to the server, which begins to decide.
func (r *replica) Lead(ahead int64, gate *journal.Gate, dirtied func()) {
	e := r.states.Load()
	ahead -= r.p.clock.Offset()
	e.StartJournal(0, gate, dirtied)
	e.RecordWhole(r.p.clock.Now() + ahead) // others may have dropped what expired before this epoch
	r.p.rulesLoaded()
	r.p.usersLoaded()
	// Any change that began in an earlier turn has failed by now. Changes that begin now see the rules in the log.
	r.p.kept.resume(0, dirtied)
	r.p.keepSecret()
	r.leads.Store(true)
	_ = r.p.budgetChanged() // it never fails
	r.p.server.Group().Lead(e, ahead)
}

// Pause has the server refuse commands about keys, and waits for those that are being decided.
func (r *replica) Pause() {
	r.p.server.Group().Follow()
	r.p.server.Settle()
}

// Follow takes the table back from the server and closes it.
func (r *replica) Follow() {
	e := r.states.Load()
	r.leads.Store(false)
	r.p.server.Group().Follow()
	r.p.kept.follow()
	e.Close()
	e.StopJournal()
}

// Dirty reports whether there is anything to cut.
func (r *replica) Dirty() bool { return r.states.Load().Dirty() || r.p.kept.dirty() }

// Cut sets aside the records of all changes.
func (r *replica) Cut(reached int64) {
	e := r.states.Load()
	e.RecordWhole(reached)
	e.Cut()
	r.p.kept.cutOff()
}

// Drain adds records that Cut has set aside, about limit bytes, and reports whether there may be more.
func (r *replica) Drain(dst *journal.Buffer, limit int) (more bool) {
	r.p.kept.drain(dst, limit)
	return r.states.Load().Drain(dst, limit)
}

// Clear replaces the table by an empty one.
func (r *replica) Clear() error {
	e := r.p.newEngine()
	r.states.Swap(e).Close()
	r.p.kept.clear()
	return nil
}

// Apply applies records to the table. It returns journal.ErrNewer for a Flush, which no node proposes.
func (r *replica) Apply(_ int64, records []journal.Record) error {
	for i := range records {
		if records[i].Op == journal.Flush {
			return journal.ErrNewer
		}
	}
	known := haveUsers(records)
	others := r.p.kept.apply(records)
	if known { // clients of this node have other rights now
		r.p.usersLoaded()
	}
	return r.states.Load().Restore(others, 0, 1)
}

// Missed returns a key whose state a record should have changed, and that is not there.
func (r *replica) Missed(now int64) (string, bool) { return r.states.Load().Missed(now) }

// Copy adds the states that have not expired at now, beginning at a cursor, and returns the next cursor.
func (r *replica) Copy(now int64, cursor uint64, dst *journal.Buffer) uint64 {
	if cursor == 0 {
		r.p.kept.copyTo(dst)
	}
	return r.states.Load().Copy(now, cursor, dst)
}

// errByRaft is the answer to commands that make no sense in a cluster.
var errByRaft = errors.New("with raft-addr, the state is kept in the log of the cluster")

// keeper returns the functions by which replies wait for a majority of the nodes.
func (r *replica) keeper() *server.Durability {
	p := r.p
	return &server.Durability{
		Turn: func() uint64 {
			if node := r.node.Load(); node != nil {
				if p.set.RaftAck.Get() == "leader" {
					return node.Deciding()
				}
				return node.Turn()
			}
			return 0
		},
		Wait: func(turn uint64, fn func(error)) bool {
			if node := r.node.Load(); node != nil {
				node.Wait(turn, fn)
				return true
			}
			return false
		},
		Holds: func() bool { return r.node.Load() != nil },
		Kick: func() {
			if node := r.node.Load(); node != nil {
				node.Kick()
			}
		},
		Sync:   func() error { return errByRaft },
		Switch: func() error { return errByRaft },
		Snapshot: func() error {
			if node := r.node.Load(); node != nil {
				return node.Snapshot()
			}
			return replication.ErrNotReady
		},
		Backup: func(string) (string, error) {
			return "", errors.New("a node makes no folder with its data: limitdb backup makes a backup of it")
		},
		Stats: func() stats.Durability { return stats.Durability{Kept: true} },
	}
}

// status is what the node knows of itself and the cluster, all 0 where the server stands alone.
func (r *replica) status() stats.Replication {
	if r == nil {
		return stats.Replication{}
	}
	if node := r.node.Load(); node != nil {
		s := node.Status()
		s.OverMemory = r.over.Load()
		return s
	}
	return stats.Replication{On: true}
}

// forServer returns what the server asks about the nodes, or nil for a standalone server.
func (r *replica) forServer() *server.Replication {
	if r == nil {
		return nil
	}
	return &server.Replication{
		Leader: func() (id, leader string) {
			if node := r.node.Load(); node != nil {
				return node.ID(), node.Leader()
			}
			return "", ""
		},
		Members: func() ([]server.Member, error) {
			node := r.node.Load()
			if node == nil {
				return nil, replication.ErrNotReady
			}
			all, err := node.Members()
			members := make([]server.Member, len(all))
			for i, m := range all {
				members[i] = server.Member{ID: m.ID, Address: m.Address, Voter: m.Voter, Leader: m.Leader, Self: m.Self, Client: m.Client, Contact: m.Contact, Last: m.Last}
			}
			return members, err
		},
		Status: r.status,
		Uplink: r.uplinks.link,
		Read:   r.read,
		Table:  r.states.Load,
		Add: func(id, address string) error {
			node := r.node.Load()
			if node == nil {
				return replication.ErrNotReady
			}
			return raftError(node.Add(id, address))
		},
		Remove:   r.change((*replication.Node).Remove),
		Promote:  r.change((*replication.Node).Promote),
		Demote:   r.change((*replication.Node).Demote),
		Transfer: r.change((*replication.Node).Transfer),
	}
}

// change returns a change of the members as the server calls it.
func (r *replica) change(fn func(*replication.Node, string) error) func(string) error {
	return func(id string) error {
		node := r.node.Load()
		if node == nil {
			return replication.ErrNotReady
		}
		return raftError(fn(node, id))
	}
}

// raftError translates the errors that the server replies to in its own way.
func raftError(err error) error {
	switch {
	case errors.Is(err, replication.ErrNotLeader):
		return withKind{err, server.ErrNotLeading}
	case errors.Is(err, replication.ErrLags), errors.Is(err, replication.ErrUnreachable):
		return withKind{err, server.ErrNotYet}
	}
	return err
}

// withKind is an error that is one of the server's as well.
type withKind struct {
	error
	kind error
}

func (w withKind) Is(target error) bool { return target == w.kind }
func (w withKind) Unwrap() error        { return w.error }
