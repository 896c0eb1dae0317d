package serve

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/engine"
	"limitdb/internal/journal"
	"limitdb/internal/stats"
	"limitdb/replication"
	"limitdb/server"
)

// replica is a group of keys on this node. It connects the group's engine and the server with the group's log, and holds its table.
//
// Each time the node begins to lead, the server gets a new engine, which is closed for good when the node stops
// leading. A late decision finds the engine closed, so it cannot change the table to which the node applies entries of
// the log. That table is another engine, which no client sees before the node leads again.
type replica struct {
	p      *process
	node   atomic.Pointer[replication.Node]
	states atomic.Pointer[engine.Engine] // the node's table
	uplinks

	leads    atomic.Bool  // the server decides on states
	smallest atomic.Int64 // of the maxmemory of the other voters that answer, 0 if they have none
	over     atomic.Bool  // the node holds more than its maxmemory
}

func newReplica(p *process) *replica {
	r := &replica{p: p, uplinks: uplinks{look: make(chan struct{}, 1)}}
	r.states.Store(p.newEngine())
	return r
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
	if p.member != nil {
		return p.member.replica.states.Load()
	}
	return p.engine
}

// keeper returns the functions by which replies wait.
func (p *process) keeper() *server.Durability {
	if p.member != nil {
		return p.member.replica.keeper()
	}
	return p.durable.forServer()
}

// open opens the group on its directory. It adds to the options what is the group's.
func (r *replica) open(o replication.Options, d replication.Disk) error {
	p, set := r.p, r.p.set
	o.Table, o.Log, o.Changed = r, p.log, r.changed
	o.Clock = replication.Clock{Wall: p.clock.Wall, Elapsed: p.clock.Elapsed, Boot: p.boot}
	o.Heartbeat, o.Election, o.Lease = set.RaftHeartbeat.Get(), set.RaftElection.Get(), set.RaftLease.Get()
	node, err := replication.Open(o, d)
	if err != nil {
		return err
	}
	r.node.Store(node)
	p.registry.OnChange(func() error {
		return node.SetTimeouts(set.RaftHeartbeat.Get(), set.RaftElection.Get())
	}, set.RaftHeartbeat, set.RaftElection)
	return nil
}

// run starts what a group does all the time, until ctx ends.
func (r *replica) run(ctx context.Context, background *sync.WaitGroup, node *replication.Node) {
	background.Go(func() { r.followLeader(ctx, node) })
	background.Go(func() { r.sweep(ctx) })
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

// status is what the node knows of itself and the cluster.
func (r *replica) status() stats.Replication {
	if node := r.node.Load(); node != nil {
		s := node.Status()
		s.OverMemory = r.over.Load()
		return s
	}
	return stats.Replication{On: true}
}

// forServer returns what the server asks about the nodes.
func (r *replica) forServer() *server.Replication {
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
		Uplink: r.link,
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
