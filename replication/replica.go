package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"limitdb/internal/group"
	"limitdb/internal/journal"
)

// replica is the node's copy of the state that the log makes. It is the FSM of Raft: its methods must not call Raft, which
// would deadlock.
type replica struct {
	replayer
	clock   Clock
	log     *slog.Logger
	life    *lifetime
	guarded *guarded // below the log
	primary *Primary
	told    events
	leaving atomic.Bool // the node is about to stop, so its table need not be rebuilt

	// building is held, outside of mu, by whoever rebuilds the table.
	building sync.Mutex

	// mu guards the fields below. It is not held during a call of Raft.
	mu       sync.Mutex
	machine  machine
	time     logTime
	failed   bool
	applied  uint64 // index of the last entry
	ignored  uint64 // entries that the fence has stopped
	rebuilds uint64 // begun, or made unnecessary
	// rebuilding is set while the table is being rebuilt. Entries are only counted meanwhile.
	rebuilding bool
	// overheard is the newest Epoch that was counted meanwhile. It is not known yet whether the fence accepts it.
	overheard entry
	// members are those of the newest configuration that was applied since the start, and membersAt is its index, 0 for none yet.
	members   raft.Configuration
	membersAt uint64
	// handed is the epoch of a node that has handed over to this one. The next epoch is planned if it follows that one.
	handed id
	// broken counts the events that make a copy of the table worthless: abdications and installed snapshots.
	broken uint64
	hashes hashes
}

// events are what the rest of a node learns from its replica. None may block.
type events struct {
	changed func()             // another node decides, or none, or the members have changed
	fatal   func(error)        // the node cannot continue
	grew    func(bytes int)    // the log has another entry
	inForce func(format uint8) // the epoch has this format
	rebuilt func()             // the table is what the log says again
}

// Causes of an abdication: what follows from the log, and a transfer, which is planned.
var (
	errSuperseded = errors.New("the log has it so")
	errTransfer   = errors.New("the leadership is transferred")
)

// Apply applies an entry of the log.
func (r *replica) Apply(l *raft.Log) any {
	r.mu.Lock()
	r.applied = l.Index
	r.told.grew(len(l.Data))
	if r.failed || r.rebuilding {
		r.overhear(l)
		r.mu.Unlock()
		return nil
	}
	lost, done := r.apply(l)
	r.mu.Unlock()
	lost.Tell(ErrUnknown)
	done.Tell(nil)
	return nil
}

// StoreConfiguration makes Raft count a change of the members as applied, so that a snapshot may follow it.
func (r *replica) StoreConfiguration(index uint64, servers raft.Configuration) {
	r.mu.Lock()
	r.applied = index
	r.members, r.membersAt = servers.Clone(), index
	r.mu.Unlock()
	r.told.changed()
}

// apply applies an entry. It returns the waiters whose outcome is now unknown, and those whose outcome is now known.
// The lock is held.
func (r *replica) apply(l *raft.Log) (lost, done group.Told) {
	before := r.machine.clock
	e, err := parseEntry(l.Data)
	var did result
	if err == nil {
		did, err = r.machine.apply(&e, l.Term)
	}
	if err != nil {
		r.fail(fmt.Errorf("entry %d of the log: %w", l.Index, err))
		return nil, nil
	}
	if did.ignored {
		r.ignored++
	}
	if did.abdicate {
		lost = r.closed(errSuperseded)
	}
	if r.machine.clock > before || did.opened {
		r.time.at = r.clock.Elapsed()
	}
	if did.accepted && len(did.records) > 0 {
		r.hashes.changed.Add(1)
	}
	switch {
	case did.accepted && did.own:
		done = r.primary.acceptedOne()
	case did.accepted && !r.rebuilding:
		if err := applyGroup(r.table, &r.machine, l.Index, did.records); err != nil {
			r.fail(fmt.Errorf("entry %d of the log: %w", l.Index, err))
		}
	}
	if did.accepted && len(did.records) == 0 && (!did.own || r.primary.logged()) {
		r.hashAt(l.Index)
	}
	if e.kind == kindEpoch && !did.ignored {
		r.told.inForce(r.machine.inForce())
		r.log.Debug("an epoch begins", "epoch", e.epoch.String(), "index", l.Index, "clock", r.machine.clock)
		r.told.changed()
	}
	return lost, done
}

// abdicate closes the epoch if it is open. It is called from outside of Apply.
func (r *replica) abdicate(epoch id, cause error) {
	r.mu.Lock()
	var told group.Told
	if r.machine.own == epoch && r.machine.close() {
		told = r.closed(cause)
	}
	r.mu.Unlock()
	told.Tell(ErrUnknown)
}

// abdicateAny closes the node's own epoch, if one is open.
func (r *replica) abdicateAny(cause error) {
	r.mu.Lock()
	epoch := r.machine.own
	r.mu.Unlock()
	if epoch != (id{}) {
		r.abdicate(epoch, cause)
	}
}

// closed does what follows when the machine has closed the node's own epoch. It returns the waiters whose outcome is
// now unknown. The lock is held.
func (r *replica) closed(cause error) group.Told {
	r.broken++
	told, led := r.primary.end()
	if led {
		level := slog.LevelWarn
		if errors.Is(cause, errTransfer) || errors.Is(cause, raft.ErrRaftShutdown) { // as planned
			level = slog.LevelInfo
		}
		r.log.Log(context.Background(), level, "this node no longer leads", "cause", cause)
		r.rebuildSoon()
		r.told.changed()
	}
	return told
}

// ask prepares an Epoch of this node, which it is about to propose. It returns ErrNotReady while the table is not what the
// log says.
func (r *replica) ask(own id, format uint8, address string) (entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rebuilding || r.failed {
		return entry{}, ErrNotReady
	}
	r.machine.ask(own)
	after := r.machine.epoch
	planned := after == r.handed && after != (id{})
	return entry{format: format, kind: kindEpoch, epoch: own, after: after, clock: r.time.beginning(r.machine.clock, planned), address: address}, nil
}

// opened lets decisions begin, now that the Epoch of this node is applied. It returns ErrNotReady if that did not open the
// epoch, or if it is over.
func (r *replica) opened(own id, format uint8) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.machine.own != own {
		return ErrNotReady
	}
	r.primary.begin(own, format, r.machine.clock, r.time.at)
	r.log.Info("this node leads", "epoch", own.String(), "term", r.machine.term)
	r.told.changed()
	return nil
}

// fail ends the node's part in the cluster, unless err only says that the node stops. The lock is held.
func (r *replica) fail(err error) {
	if r.failed || errors.Is(err, raft.ErrRaftShutdown) {
		return
	}
	r.failed = true
	r.log.Error("the node stops", "err", err)
	r.told.fatal(err)
}

// giveUp ends the node's part in the cluster.
func (r *replica) giveUp(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail(err)
}

// format returns the format in force.
func (r *replica) format() uint8 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machine.inForce()
}

// ready reports whether the table is what the log says.
func (r *replica) ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.rebuilding && !r.failed
}

// now returns the replicated time.
func (r *replica) now() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machine.clock
}

// expired is Node.Expired.
func (r *replica) expired() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.primary.turn.Load() != 0 || r.rebuilding || r.failed {
		return 0
	}
	return r.machine.earlier
}

// reached returns the earliest value that the replicated time can have now, and false before the first.
func (r *replica) reached() (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.time.reached(r.machine.clock), r.machine.clock != 0
}

// heard returns the newest epoch that this node knows of, where clients reach its primary, and the last entry applied.
func (r *replica) heard() (epoch id, address string, applied uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rebuilding {
		return r.overheard.epoch, r.overheard.address, r.applied
	}
	return r.machine.epoch, r.machine.address, r.applied
}

// Snapshot begins a snapshot.
func (r *replica) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rebuilding || r.failed {
		return nil, ErrNotReady // so nothing is compacted that the rebuilding reads
	}
	return &copying{r: r, fence: r.machine.appendTo(nil), format: r.machine.inForce(), broken: r.broken}, nil
}

// Restore replaces the node's state by a snapshot.
func (r *replica) Restore(from io.ReadCloser) error {
	r.mu.Lock()
	r.broken++
	r.members, r.membersAt = raft.Configuration{}, 0
	var lost group.Told
	if r.machine.close() {
		lost = r.closed(errSuperseded)
	}
	r.rebuilds++ // one that is under way ends
	r.rebuilding = true
	r.mu.Unlock()
	lost.Tell(ErrUnknown)

	r.building.Lock()
	defer r.building.Unlock()
	var m machine
	err := r.load(&m, from)
	if err == nil {
		err = r.guarded.discardConflicting(r.logs)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.fail(fmt.Errorf("a snapshot cannot be loaded: %w", err))
		return err
	}
	r.told.inForce(m.inForce())
	r.replace(m)
	return nil
}

// replace ends a rebuilding. The lock is held.
func (r *replica) replace(m machine) {
	r.machine, r.rebuilding = m, false
	r.time.at = r.clock.Elapsed()
	r.told.changed()
}

// copying is a snapshot in progress.
type copying struct {
	r      *replica
	fence  []byte
	format uint8
	broken uint64
}

// Persist copies the table as it is when Persist runs. The copy may be ahead of the fence: those changes are from later
// entries, which follow in the log, and applying them again changes nothing. If the node's epoch is open, the copy may
// even have changes that are in no entry yet. So the snapshot is published only when a group is accepted whose drain
// began after the copy ended. That group's index is where the later changes end.
func (c *copying) Persist(sink raft.SnapshotSink) error {
	return writeSnapshot(newPaced(sink, c.r.life.stop, c.r.clock.Elapsed), c.format, c.fence, func(cursor uint64, dst *journal.Buffer) uint64 {
		return c.r.table.Copy(0, cursor, dst) // not at the replicated time: a later entry may change what has expired then
	}, func() (uint64, error) {
		err := c.r.awaitLogged(c.broken)
		c.r.mu.Lock()
		defer c.r.mu.Unlock()
		return c.r.applied, err
	})
}

// Release ends the snapshot.
func (c *copying) Release() {}

// awaitLogged waits until everything in the table is in the log. It fails if the node has abdicated since broken
// was read.
func (r *replica) awaitLogged(broken uint64) error {
	r.mu.Lock()
	turn := r.primary.turn.Load()
	same := r.broken == broken
	r.mu.Unlock()
	switch {
	case !same:
		return ErrNotReady
	case turn == 0:
		return nil
	}
	return r.primary.await(turn)
}

// logged waits until everything in the table is in the log, and returns the last entry applied. It returns ErrNotReady while
// the node cannot tell.
func (r *replica) logged() (applied uint64, err error) {
	r.mu.Lock()
	broken := r.broken
	r.mu.Unlock()
	if err := r.awaitLogged(broken); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rebuilding || r.failed {
		return 0, ErrNotReady
	}
	return r.applied, nil
}
