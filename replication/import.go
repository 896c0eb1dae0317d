package replication

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

// Import is a state from outside of any cluster, with which a new cluster can begin.
type Import struct {
	// Clock is the time from which decisions continue, Unix ns.
	Clock int64
	// Copy works as in Table.
	Copy func(cursor uint64, dst *journal.Buffer) (next uint64)
}

// importIndex and importTerm are those of the entry that stands for an imported state. It is not the first entry of the
// log: a leader sends the first entry to an empty node without checking what comes before it, and so would never send
// the snapshot.
const importIndex, importTerm = 2, 1

// importState begins a cluster of one node whose first snapshot is a state. The snapshot is durable when importState
// returns nil.
func importState(p *parts, server raft.Server, from *Import) error {
	if err := p.guarded.apart(func() error { return p.stable.SetUint64([]byte(termKey), importTerm) }); err != nil { // as before any entry
		return err
	}
	members := raft.Configuration{Servers: []raft.Server{server}}
	sink, err := p.snapshots.Create(raft.SnapshotVersionMax, importIndex, importTerm, members, importIndex, p.transport)
	if err != nil {
		return err
	}
	f := fence{clock: from.Clock}
	if err := writeSnapshot(sink, f.inForce(), f.appendTo(nil), from.Copy, func() (uint64, error) { return 0, nil }); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// Exported describes the state that Export has read.
type Exported struct {
	Clock int64  // the replicated time, Unix ns
	Index uint64 // of the last entry of the node's log
	Term  uint64 // of that entry
}

// Export loads a table with the state of a node that is stopped: its newest snapshot and its whole log. The end of the
// log may have changes that no majority had when the node stopped, and whose clients got no reply. Export changes
// nothing in the directory.
func Export(dir string, t Table) (Exported, error) {
	var x Exported
	if !exists(filepath.Join(dir, logDir)) {
		return x, fmt.Errorf("%w: %s has no log", ErrDirectory, dir)
	}
	who, err := identify(dir, "")
	if err != nil {
		return x, err
	}
	s, err := openStores(dir, who, true)
	if errors.Is(err, disk.ErrLocked) {
		err = fmt.Errorf("%w: stop the node first", err)
	}
	if err != nil {
		return x, err
	}
	defer func() { _ = s.close() }()
	n := &Node{table: t, parts: parts{logs: s.log, snapshots: &snapshotStore{fs: disk.OS{}, dir: filepath.Join(dir, snapshotsDir)}}}
	if err := s.verify(n.parts.snapshots); err != nil {
		return x, err
	}
	var m machine
	at, err := n.loadNewest(&m)
	if err != nil {
		return x, err
	}
	if newest, err := n.parts.snapshots.newest(); err == nil && newest != nil {
		x.Term = newest.Term
	}
	last, err := s.log.LastIndex()
	if err != nil {
		return x, err
	}
	for ; at < last; at++ {
		if err := n.replay(&m, at+1); err != nil {
			return x, err
		}
	}
	if last > 0 {
		var l raft.Log
		if err := s.log.GetLog(last, &l); err != nil {
			return x, err
		}
		x.Term = max(x.Term, l.Term)
	}
	x.Clock, x.Index = m.clock, at
	return x, nil
}
