package replication

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// After an abdication, the table may have changes that are in no log. So the node rebuilds it from the
// newest snapshot and the log up to the applied index. Raft continues meanwhile, but the entries that it
// applies are only counted.

// errOvertaken ends a rebuilding when a snapshot is installed instead.
var errOvertaken = errors.New("overtaken by a snapshot")

// rebuildSoon starts to rebuild the table. The lock is held.
func (n *Node) rebuildSoon() {
	n.rebuilding = true
	n.rebuilds++
	if n.leaving.Load() {
		return
	}
	if stopped(n.stop) {
		return
	}
	number := n.rebuilds
	n.loops.Add(1)
	go func() {
		defer n.loops.Done()
		err := n.rebuild(number)
		if err != nil && !errors.Is(err, errOvertaken) {
			n.mu.Lock()
			n.fail(fmt.Errorf("the table cannot be built anew: %w", err))
			n.mu.Unlock()
		}
		signal(n.retry)
	}()
}

// overhear notes who leads, from an entry that is only counted, and makes the node tell its clients. The
// lock is held.
func (n *Node) overhear(l *raft.Log) {
	if e, err := parseEntry(l.Data); err == nil && e.kind == kindEpoch {
		n.overheard = entry{epoch: e.epoch, address: e.address}
		n.changed()
	}
}

func (n *Node) rebuild(number uint64) error {
	n.building.Lock()
	defer n.building.Unlock()
	var m machine
	at, err := n.loadNewest(&m)
	if err != nil {
		return err
	}
	for {
		n.mu.Lock()
		to := n.applied
		switch {
		case n.rebuilds != number:
			n.mu.Unlock()
			return errOvertaken
		case at >= to:
			n.machine, n.rebuilding = m, false
			n.clockAt = n.clock.Elapsed()
			n.mu.Unlock()
			n.changed()
			return nil
		}
		n.mu.Unlock()
		for ; at < to; at++ {
			if stopped(n.stop) {
				return raft.ErrRaftShutdown
			}
			if err := n.replay(&m, at+1); err != nil {
				return err
			}
		}
	}
}

// loadNewest loads the newest snapshot, if there is one, and returns its index.
func (n *Node) loadNewest(m *machine) (index uint64, err error) {
	all, err := n.parts.snapshots.List()
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, n.table.Clear()
	}
	meta, from, err := n.parts.snapshots.Open(all[0].ID)
	if err != nil {
		return 0, err
	}
	defer func() { _ = from.Close() }()
	return meta.Index, n.load(m, from)
}

// replay applies an entry again.
func (n *Node) replay(m *machine, index uint64) error {
	var l raft.Log
	if err := n.parts.logs.GetLog(index, &l); err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	if l.Type != raft.LogCommand {
		return nil
	}
	e, err := parseEntry(l.Data)
	if err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	r, err := m.apply(&e, l.Term)
	if err == nil && r.accepted {
		err = applyGroup(n.table, m, index, r.records)
	}
	return err
}
