package replication

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// A node may get a snapshot whose last entry is not in its log: the log ends before that entry, or has another one
// there, from a leader that was deposed. Raft's paper discards such a log. hashicorp/raft 1.7 keeps it, which does harm
// in two ways:
//
//   - If the log continues behind the snapshot, the node looks for the entry before the next one in that log, finds the wrong
//     term, and refuses. The leader then sends the same snapshot again, and so on without an end.
//   - Entries before the snapshot, which no majority ever had, stay in the log. As a leader, the node would send them to others.
//
// So the node discards all entries up to the snapshot's, and answers for that entry from the snapshot. Raft itself then removes
// what conflicts behind it. If the log has the snapshot's entry, all of the log is right, and the node keeps it: it may have
// acknowledged what is behind.

// discardConflicting removes the entries up to the end of the newest snapshot from a log that does not have the
// snapshot's last entry. logs is the guarded log with its cache. Call it only where Raft does not use the log.
func (g *guarded) discardConflicting(logs raft.LogStore) error {
	if g.snapshots == nil {
		return nil
	}
	newest, err := g.snapshots.newest()
	if err != nil || newest == nil {
		return err
	}
	first, err := g.FirstIndex()
	if err != nil {
		return err
	}
	last, err := g.LastIndex()
	if err != nil || last == 0 || first > newest.Index {
		return err
	}
	var l raft.Log
	switch err := g.LogStore.GetLog(newest.Index, &l); {
	case err == nil && l.Term == newest.Term:
		return nil
	case err != nil && !errors.Is(err, raft.ErrLogNotFound):
		return fmt.Errorf("replication: entry %d: %w", newest.Index, err)
	}
	return logs.DeleteRange(first, min(last, newest.Index))
}

// GetLog returns an entry. The log need not have the last entry of the newest snapshot; for that one, GetLog returns an
// entry with its index and term. Raft asks for it to compare terms, and never sends it: to send it, Raft would first
// look at the entry before it, not find that one, and send the snapshot instead.
func (g *guarded) GetLog(index uint64, l *raft.Log) error {
	err := g.LogStore.GetLog(index, l)
	if g.snapshots == nil || !errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	if newest, nerr := g.snapshots.newest(); nerr == nil && newest != nil && newest.Index == index && index > 1 {
		*l = raft.Log{Index: index, Term: newest.Term, Type: raft.LogNoop}
		return nil
	}
	return err
}
