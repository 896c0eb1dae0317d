package replication

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"limitdb/internal/journal"
)

// fsm is the node as Raft sees it. Its methods must not call Raft, which would deadlock.
type fsm Node

// errSuperseded is the cause of an abdication that follows from the log.
var errSuperseded = errors.New("the log has it so")

// Apply applies an entry of the log.
func (f *fsm) Apply(l *raft.Log) any {
	n := (*Node)(f)
	n.mu.Lock()
	n.applied = l.Index
	n.grew(len(l.Data))
	if n.failed || n.rebuilding {
		n.overhear(l)
		n.mu.Unlock()
		return nil
	}
	lost, done := n.apply(l)
	n.mu.Unlock()
	tell(lost, ErrUnknown)
	tell(done, nil)
	return nil
}

// StoreConfiguration makes Raft count a change of the members as applied, so that a snapshot may follow it.
func (f *fsm) StoreConfiguration(index uint64, _ raft.Configuration) {
	n := (*Node)(f)
	n.mu.Lock()
	n.applied = index
	n.mu.Unlock()
	n.changed()
}

// apply applies an entry. It returns the waiters whose outcome is now unknown, and those whose outcome is now known.
// The lock is held.
func (n *Node) apply(l *raft.Log) (lost, done []waiter) {
	before := n.machine.clock
	e, err := parseEntry(l.Data)
	var r result
	if err == nil {
		r, err = n.machine.apply(&e, l.Term)
	}
	if err != nil {
		n.fail(fmt.Errorf("entry %d of the log: %w", l.Index, err))
		return nil, nil
	}
	if r.ignored {
		n.ignored++
	}
	if r.abdicate {
		lost = n.closed(errSuperseded)
	}
	if n.machine.clock > before || r.opened {
		n.clockAt = n.clock.Elapsed()
	}
	if r.accepted && len(r.records) > 0 {
		n.hashes.changed.Add(1)
	}
	switch {
	case r.accepted && r.own:
		n.primary.accepted++
		n.confirmed()
		done = n.primary.released()
		signal(n.advanced)
	case r.accepted && !n.rebuilding:
		if err := applyGroup(n.table, &n.machine, l.Index, r.records); err != nil {
			n.fail(fmt.Errorf("entry %d of the log: %w", l.Index, err))
		}
	}
	if r.accepted && len(r.records) == 0 && (!r.own || n.acceptedLocked()) {
		n.hashAt(l.Index)
	}
	if e.kind == kindEpoch && !r.ignored {
		n.tellFormat()
		n.log.Debug("an epoch begins", "epoch", e.epoch.String(), "index", l.Index, "clock", n.machine.clock)
		n.changed()
	}
	return lost, done
}

// errMissed is returned if the log changes a part of a state that does not exist.
var errMissed = errors.New("replication: the state that an entry changes is not there")

// applyGroup applies the records of an accepted group, whose last entry has the given index.
func applyGroup(t Table, m *machine, index uint64, records []byte) error {
	if err := applyRecords(t, m.clock, records); err != nil || index <= m.fuzzy {
		return err
	}
	if key, missed := t.Missed(m.clock); missed {
		return fmt.Errorf("%w: that of the key %.200q", errMissed, key)
	}
	return nil
}

// applyMost is the most records that are applied at once.
const applyMost = 512

// applyRecords applies the records in b.
func applyRecords(t Table, now int64, b []byte) error {
	var all [applyMost]journal.Record
	for len(b) > 0 {
		count := 0
		for ; count < len(all) && len(b) > 0; count++ {
			var err error
			if all[count], b, err = journal.Parse(b); err != nil {
				return err
			}
		}
		if err := t.Apply(now, all[:count]); err != nil {
			return err
		}
	}
	return nil
}

// Snapshot begins a snapshot.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	n := (*Node)(f)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rebuilding || n.failed {
		return nil, ErrNotReady // so nothing is compacted that the rebuilding reads
	}
	return &copying{n: n, fence: n.machine.appendTo(nil), format: n.machine.inForce(), broken: n.broken}, nil
}

// Restore replaces the node's state by a snapshot.
func (f *fsm) Restore(from io.ReadCloser) error {
	n := (*Node)(f)
	n.mu.Lock()
	n.broken++
	var lost []waiter
	if n.machine.close() {
		lost = n.closed(errSuperseded)
	}
	n.rebuilds++ // one that is under way ends
	n.rebuilding = true
	n.mu.Unlock()
	tell(lost, ErrUnknown)

	n.building.Lock()
	defer n.building.Unlock()
	var m machine
	err := n.load(&m, from)
	if err == nil {
		err = n.parts.guarded.discardConflicting(n.parts.logs)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.fail(fmt.Errorf("a snapshot cannot be loaded: %w", err))
		return err
	}
	n.machine, n.rebuilding = m, false
	n.tellFormat()
	n.clockAt = n.clock.Elapsed()
	n.changed()
	return nil
}

// load replaces the state of the table, and of m, by a snapshot.
func (n *Node) load(m *machine, from io.Reader) error {
	if err := n.table.Clear(); err != nil {
		return err
	}
	f, fuzzy, err := readSnapshot(bufio.NewReaderSize(untilStopped{from, n.stop}, blockBytes), n.table)
	if err == nil {
		m.restore(f)
		m.fuzzy = fuzzy
	}
	return err
}

// untilStopped reads from another reader until the node stops, and then returns raft.ErrRaftShutdown.
type untilStopped struct {
	from io.Reader
	stop <-chan struct{}
}

func (u untilStopped) Read(b []byte) (int, error) {
	if stopped(u.stop) {
		return 0, raft.ErrRaftShutdown
	}
	return u.from.Read(b)
}

// copying is a snapshot in progress.
type copying struct {
	n      *Node
	fence  []byte
	format uint8
	broken uint64
}

// Persist copies the table as it is when Persist runs. The copy may be ahead of the fence: those changes are from later
// entries, which follow in the log, and applying them again changes nothing. If the node's epoch is open, the copy may
// even have changes that are in no entry yet. So the snapshot is published only when a group is accepted whose drain
// began after the copy ended. That group's index is where the later changes end.
func (c *copying) Persist(sink raft.SnapshotSink) error {
	return writeSnapshot(newPaced(sink, c.n.stop, c.n.clock.Elapsed), c.format, c.fence, func(cursor uint64, dst *journal.Buffer) uint64 {
		return c.n.table.Copy(0, cursor, dst) // not at the replicated time: a later entry may change what has expired then
	}, func() (uint64, error) {
		err := c.n.awaitLogged(c.broken)
		c.n.mu.Lock()
		defer c.n.mu.Unlock()
		return c.n.applied, err
	})
}

// Release ends the snapshot.
func (c *copying) Release() {}

// awaitLogged waits until everything in the table is in the log. It fails if the node has abdicated since broken
// was read.
func (n *Node) awaitLogged(broken uint64) error {
	n.mu.Lock()
	turn := n.turn.Load()
	same := n.broken == broken
	n.mu.Unlock()
	switch {
	case !same:
		return ErrNotReady
	case turn == 0:
		return nil
	}
	done := make(chan error, 1)
	n.Wait(turn, func(err error) { done <- err })
	n.Kick()
	select {
	case err := <-done:
		return err
	case <-n.stop:
		return raft.ErrRaftShutdown
	}
}
