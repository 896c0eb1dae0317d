package serve

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/engine"
	"limitdb/groups"
	"limitdb/internal/journal"
	"limitdb/internal/stats"
	"limitdb/replication"
	"limitdb/server"
	"limitdb/server/group"
)

// replica is a group of keys on this node. It connects the group's engine and the server with the group's log, and holds its table.
//
// Each time the node begins to lead, the server gets a new engine, which is closed for good when the node stops
// leading. A late decision finds the engine closed, so it cannot change the table to which the node applies entries of
// the log. That table is another engine, which no client sees before the node leads again.
type replica struct {
	p      *process
	number int
	kept   *keptRules // what is kept in the group's log beside keys: of group 0, and of the only group; nil for others
	all    *several   // nil for the only group
	node   atomic.Pointer[replication.Node]
	states atomic.Pointer[engine.Engine] // the node's table
	uplinks

	turns    atomic.Uint64 // see replication.Options.Turns: a replica may go and come back
	leads    atomic.Bool   // the server decides on states
	smallest atomic.Int64  // of the maxmemory of the other voters that answer, 0 if they have none
	over     atomic.Bool   // the node holds more than its maxmemory
}

// newReplica returns the replica of the only group of a cluster, or of one of several.
func newReplica(p *process, number int, all *several) *replica {
	r := &replica{p: p, number: number, all: all, uplinks: uplinks{look: make(chan struct{}, 1)}}
	if all == nil || number == 0 {
		r.kept = &p.kept
	}
	r.states.Store(r.newEngine())
	p.registry.OnChange(func() error {
		if node := r.node.Load(); node != nil {
			return node.SetTimeouts(p.set.RaftHeartbeat.Get(), p.set.RaftElection.Get())
		}
		return nil
	}, p.set.RaftHeartbeat, p.set.RaftElection)
	return r
}

// leastShards is the least number of shards of an engine that is one of several.
const leastShards = 4

// newEngine returns an engine for the group. Several groups have fewer shards each, since so many more engines have some.
func (r *replica) newEngine() *engine.Engine {
	shards := int(r.p.set.Shards.Get())
	if r.all != nil {
		shards = max(min(shards, leastShards), shards/r.all.count)
	}
	return r.p.newEngine(shards)
}

// group returns what the group is to the server.
func (r *replica) group() *group.Group {
	if r.all != nil {
		return r.p.server.Groups()[r.number]
	}
	return r.p.server.Group()
}

// newEngine returns an engine. All engines of the process hash alike, so that the place of a key in one, which a command may have
// when a node begins to lead, is its place in the next. The first call is before any goroutine's.
func (p *process) newEngine(shards int) *engine.Engine {
	for p.seed == 0 {
		p.seed = rand.Uint64()
	}
	return engine.New(engine.Options{Shards: shards, Seed: p.seed})
}

// states returns the engine whose figures the server shows; of several, that of group 0.
func (p *process) states() *engine.Engine {
	if p.member != nil {
		return p.member.replica.states.Load()
	}
	return p.engine
}

// kickOf returns the function that begins the syncs for which replies wait.
func kickOf(p *process) func() {
	if p.member != nil && p.member.several != nil {
		return p.member.several.kick
	}
	return p.keeper().Kick
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
	o.Table, o.Log, o.Changed, o.Turns = r, p.log, r.changed, &r.turns
	if r.all != nil {
		o.Log = p.log.With("group", r.number)
	}
	o.Clock = replication.Clock{Wall: p.clock.Wall, Elapsed: p.clock.Elapsed, Boot: p.boot}
	o.Heartbeat, o.Election, o.Lease = set.RaftHeartbeat.Get(), set.RaftElection.Get(), set.RaftLease.Get()
	node, err := replication.Open(o, d)
	if err != nil {
		return err
	}
	r.node.Store(node)
	return nil
}

// shut stops the group's node, if there is one.
func (r *replica) shut() error {
	node := r.node.Swap(nil)
	if node == nil {
		return nil
	}
	return node.Close()
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
	every(ctx, sweepPause, func() { r.sweepOnce() })
}

// sweepOnce returns how many keys it has dropped.
func (r *replica) sweepOnce() int {
	if node := r.node.Load(); node != nil && node.Turn() == 0 {
		return r.states.Load().Sweep(node.Expired(), sweepSlots)
	}
	return 0
}

// The methods below implement replication.Table.

// Lead hands the table to the server, which begins to decide.
func (r *replica) Lead(ahead int64, gate *journal.Gate, dirtied func()) {
	e := r.states.Load()
	ahead -= r.p.clock.Offset()
	e.StartJournal(0, gate, dirtied)
	e.RecordWhole(r.p.clock.Now() + ahead) // others may have dropped what expired before this epoch
	if r.kept != nil {
		r.p.rulesLoaded()
		r.p.countersLoaded()
		r.p.usersLoaded()
		// Any change that began in an earlier turn has failed by now. Changes that begin now see the rules in the log.
		r.kept.resume(0, dirtied)
		r.p.keepSecret()
	}
	r.leads.Store(true)
	_ = r.p.budgetChanged() // it never fails
	r.group().Lead(e, ahead)
}

// Pause has the server refuse commands about keys, and waits for those that are being decided.
func (r *replica) Pause() {
	r.group().Follow()
	r.p.server.Settle()
}

// Follow takes the table back from the server and closes it.
func (r *replica) Follow() {
	e := r.states.Load()
	r.leads.Store(false)
	r.group().Follow()
	if r.kept != nil {
		r.kept.follow()
	}
	e.Close()
	e.StopJournal()
}

// Dirty reports whether there is anything to cut.
func (r *replica) Dirty() bool { return r.states.Load().Dirty() || r.kept != nil && r.kept.dirty() }

// Cut sets aside the records of all changes.
func (r *replica) Cut(reached int64) {
	e := r.states.Load()
	e.RecordWhole(reached)
	e.Cut()
	if r.kept != nil {
		r.kept.cutOff()
	}
}

// Drain adds records that Cut has set aside, about limit bytes, and reports whether there may be more.
func (r *replica) Drain(dst *journal.Buffer, limit int) (more bool) {
	if r.kept != nil {
		r.kept.drain(dst, limit)
	}
	return r.states.Load().Drain(dst, limit)
}

// Clear replaces the table by an empty one.
func (r *replica) Clear() error {
	e := r.newEngine()
	r.states.Swap(e).Close()
	if r.kept != nil {
		r.kept.clear()
	}
	return nil
}

// Apply applies records to the table. It returns journal.ErrNewer for a Flush, which no node proposes.
func (r *replica) Apply(_ int64, records []journal.Record) error {
	for i := range records {
		if records[i].Op == journal.Flush {
			return journal.ErrNewer
		}
	}
	if r.kept != nil {
		records = r.applyKept(records)
	}
	return r.states.Load().Restore(records, 0, 1)
}

// applyKept takes the records of what is kept beside keys, and returns the others.
func (r *replica) applyKept(records []journal.Record) (others []journal.Record) {
	users, rules := haveKept(records, usersText), haveKept(records, rulesText) || haveKept(records, rulesSecret)
	others = r.kept.apply(records)
	if users { // clients of this node have other rights now
		r.p.usersLoaded()
	}
	if rules && r.all != nil { // this node may lead a group of keys to which they apply
		r.p.rulesLoaded()
	}
	return others
}

// Missed returns a key whose state a record should have changed, and that is not there.
func (r *replica) Missed(now int64) (string, bool) { return r.states.Load().Missed(now) }

// Copy adds the states that have not expired at now, beginning at a cursor, and returns the next cursor.
func (r *replica) Copy(now int64, cursor uint64, dst *journal.Buffer) uint64 {
	if cursor == 0 && r.kept != nil {
		r.kept.copyTo(dst)
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
		Wait: r.wait,
		// A replica that has gone meanwhile has left replies of which nobody says any more whether they count.
		Holds: func() bool { return r.all != nil || r.node.Load() != nil },
		Kick: func() {
			if node := r.node.Load(); node != nil {
				node.Kick()
			}
		},
		Sync:     func() error { return errByRaft },
		Switch:   func() error { return errByRaft },
		Snapshot: r.snapshot,
		Backup: func(string) (string, error) {
			return "", errors.New("a node makes no folder with its data: limitdb backup makes a backup of it")
		},
		Stats: func() stats.Durability { return stats.Durability{Kept: true} },
	}
}

// wait is server.Durability.Wait. The turn of a replica that has gone is over, and it comes in no other replica.
func (r *replica) wait(turn uint64, fn func(error)) bool {
	switch node := r.node.Load(); {
	case node != nil:
		node.Wait(turn, fn)
	case turn != 0: // the replica is gone since
		fn(replication.ErrUnknown)
	default:
		return false
	}
	return true
}

// snapshot makes a snapshot, of the replicas of all groups if this is that of group 0.
func (r *replica) snapshot() error {
	node := r.node.Load()
	switch {
	case node == nil:
		return replication.ErrNotReady
	case r.all != nil && r.number == 0:
		return r.all.each(func(_ *replica, node *replication.Node) error { return node.Snapshot() })
	}
	return node.Snapshot()
}

// status is what the node knows of itself and the cluster.
func (r *replica) status() stats.Replication {
	if node := r.node.Load(); node == nil && r.all != nil {
		return r.all.absent(r.number)
	} else if node != nil {
		s := node.Status()
		s.OverMemory = r.over.Load()
		s.Begins = r.all != nil && r.number == 0 && !r.all.knows()
		return s
	}
	return stats.Replication{On: true}
}

// forServer returns what the server asks about the nodes.
func (r *replica) forServer() *server.Replication {
	o := &server.Replication{
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
	if r.all != nil {
		r.all.ofGroup(r.number, o)
	}
	return o
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
	case errors.Is(err, replication.ErrLags), errors.Is(err, replication.ErrUnreachable), errors.Is(err, groups.ErrStale), errors.Is(err, errNotNow):
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
