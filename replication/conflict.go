package replication

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// A node may get a snapshot whose last entry its log does not have: the log ends before it, or has another entry there, of a
// leader that was deposed. Raft's paper discards such a log. hashicorp/raft 1.7 keeps it, which does harm in two ways:
//
//   - If the log goes on behind the snapshot, the node looks for the entry before the next one in that log, finds the wrong
//     term, and refuses. The leader then sends the same snapshot again, and so on without an end.
//   - Entries before the snapshot, which no majority ever had, stay in the log. As a leader, the node would send them to others.
//
// So the node discards all entries up to the snapshot's, and answers for that entry from the snapshot. Raft itself then removes
// what conflicts behind it. If the log has the snapshot's entry, all of the log is right, and the node keeps it: it may have
// acknowledged what is behind.

// discardConflicting removes the entries up to the newest snapshot's from a log that does not have that
// entry. logs is the guarded log with its cache. It is called where Raft does not use the log.
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

// GetLog returns an entry. For the last entry of the newest snapshot, which the log need not have, it returns
// one with its index and term. Raft asks for it to compare the terms. It never sends it: it would look at the entry before it first, does not
// find that, and sends the snapshot.
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
