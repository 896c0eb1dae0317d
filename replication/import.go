package replication

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

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
	s, err := openStopped(dir)
	if err != nil {
		return x, err
	}
	defer func() { _ = s.close() }()
	r := replayer{table: t, logs: s.log, snapshots: &snapshotStore{fs: disk.OS{}, dir: filepath.Join(dir, snapshotsDir)}}
	if err := s.verify(r.snapshots); err != nil {
		return x, err
	}
	var m machine
	at, err := r.loadNewest(&m)
	if err != nil {
		return x, err
	}
	if x, err = s.end(r.snapshots); err != nil {
		return x, err
	}
	for ; at < x.Index; at++ {
		if err := r.replay(&m, at+1); err != nil {
			return x, err
		}
	}
	x.Clock = m.clock
	return x, nil
}

// Last returns where the log of a node ends that is stopped, without its Clock. Of two replicas of a group, the one whose last entry has the higher
// term, and among those the higher index, has all that the other has and that counts.
func Last(dir string) (Exported, error) {
	s, err := openStopped(dir)
	if err != nil {
		return Exported{}, err
	}
	defer func() { _ = s.close() }()
	return s.end(&snapshotStore{fs: disk.OS{}, dir: filepath.Join(dir, snapshotsDir)})
}

// openStopped opens the stores of a node that is stopped, to read them.
func openStopped(dir string) (s stores, err error) {
	if !exists(filepath.Join(dir, logDir)) {
		return s, fmt.Errorf("%w: %s has no log", ErrDirectory, dir)
	}
	who, err := identify(dir, "")
	if err != nil {
		return s, err
	}
	s, err = openStores(dir, who, true, nil)
	if errors.Is(err, disk.ErrLocked) {
		err = fmt.Errorf("%w: stop the node first", err)
	}
	return s, err
}

// end returns where the newest snapshot and the log end.
func (s *stores) end(snapshots *snapshotStore) (x Exported, err error) {
	if newest, err := snapshots.newest(); err != nil {
		return x, err
	} else if newest != nil {
		x.Index, x.Term = newest.Index, newest.Term
	}
	last, err := s.log.LastIndex()
	if err != nil || last == 0 {
		return x, err
	}
	var l raft.Log
	if err := s.log.GetLog(last, &l); err != nil {
		return x, err
	}
	return Exported{Index: max(x.Index, last), Term: max(x.Term, l.Term)}, nil
}

// backupID is the raft-id in a backup, which is the directory of no node: it has votes of no one, so none may start from it.
const backupID = "backup"

// Backup makes a directory with everything that the log of a node has had up to one index: by hard links, the newest snapshot and the
// log behind it, which ends with the last entry that the node has applied. Export and Check read the directory. While the node leads, every
// reply that it has sent before counts in it. dir must not exist, and be on the file system of the node's directory. Backup returns
// ErrNotReady while the node cannot tell; then the directory is not whole, as after any error.
func Backup(n *Node, dir string) error {
	if n.parts.stores == nil {
		return ErrNotReady
	}
	applied, err := n.replica.logged()
	if err != nil {
		return err
	}
	who := &identity{path: filepath.Join(dir, nodeFile), stored: stored{
		ID: backupID, Group: n.parts.who.Group, Groups: n.parts.who.Groups, Incarnation: draw(), Cluster: n.parts.who.cluster(),
	}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := createStores(dir, who); err != nil {
		return err
	}
	last, term, err := linkStores(n.parts.stores.log, n.parts.snapshots, dir, applied)
	if err != nil {
		return err
	}
	votes := ballot{Node: who.Incarnation, Values: map[string][]byte{termKey: binary.BigEndian.AppendUint64(nil, term)}}
	return cmp.Or(
		createVotes(filepath.Join(dir, voteFile), votes),
		disk.WriteRecord(disk.OS{}, filepath.Join(dir, lastFile), lastKind, storedLast{Node: who.Incarnation, Last: last}),
	)
}

// FillBackup makes the directories of a backup that are missing because a copy of its files has no empty ones.
func FillBackup(dir string) error {
	return cmp.Or(os.MkdirAll(filepath.Join(dir, logDir), 0o700), os.MkdirAll(filepath.Join(dir, snapshotsDir), 0o700))
}

// linkStores puts links to the newest snapshot, and to the log up to an index, into another directory. It returns the entry with which
// they end, and its term.
func linkStores(log *diskLog, snapshots *snapshotStore, dir string, last uint64) (uint64, uint64, error) {
	end, last, term, err := linkFiles(log, snapshots, dir, last)
	if err == nil && end != nil {
		err = end.copy()
	}
	return last, term, errors.Join(err, disk.OS{}.SyncDir(filepath.Join(dir, logDir)))
}

// linkFiles makes the links of linkStores. The segment in which they end must still be copied.
func linkFiles(log *diskLog, snapshots *snapshotStore, dir string, last uint64) (end *logEnd, to, term uint64, err error) {
	// A snapshot is published before the log is cut that it replaces. So without cuts, the newest one meets the log.
	log.cutting.Lock()
	defer log.cutting.Unlock()
	newest, err := snapshots.newest()
	if err != nil {
		return nil, 0, 0, err
	}
	if newest != nil {
		last, term = max(last, newest.Index), newest.Term
		if err := linkSnapshot(snapshots, newest.ID, filepath.Join(dir, snapshotsDir), last); err != nil {
			return nil, 0, 0, err
		}
	}
	if newest == nil || newest.Index < last {
		var l raft.Log
		if err := log.GetLog(last, &l); err != nil {
			return nil, 0, 0, err
		}
		term = l.Term
	}
	end, err = linkLog(log, filepath.Join(dir, logDir), last)
	return end, last, term, err
}

// logEnd is the segment in which a backup ends. The node may go on writing there, so the link to it has another name at first.
type logEnd struct {
	path  string // in the backup
	bytes int64  // that belong to the backup
}

// linkLog puts links to the segments up to an index into another directory. It returns the last of them, or nil if there is none.
func linkLog(d *diskLog, dir string, last uint64) (end *logEnd, err error) {
	d.mu.RLock()
	segments := slices.Clone(d.segments)
	d.mu.RUnlock()
	for _, s := range segments {
		if s.from > last {
			break
		}
		d.mu.RLock()
		next, at := s.next(), s.end
		if last+1 < next {
			at = int64(s.at[last+1-s.first])
		}
		d.mu.RUnlock()
		if err := s.settle(); err != nil {
			return nil, err
		}
		own := s.name(d.dir, s.from)
		as := filepath.Join(dir, filepath.Base(own))
		if last+1 <= next { // it ends here
			end = &logEnd{as, at}
			as += tmpSuffix
		}
		if err := os.Link(own, as); err != nil {
			return nil, err
		}
	}
	return end, nil
}

// copy makes the segment as it was, and removes the link.
func (e *logEnd) copy() error {
	from, err := os.Open(e.path + tmpSuffix)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(e.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(to, from, e.bytes)
	return cmp.Or(err, to.Sync(), to.Close(), os.Remove(e.path+tmpSuffix))
}

// linkSnapshot puts links to a snapshot into another directory. It returns ErrNotReady if the snapshot has effects of entries behind
// the last one.
func linkSnapshot(s *snapshotStore, name, dir string, last uint64) error {
	switch fuzzy, err := fuzzyEnd(filepath.Join(s.dir, name, stateFile)); {
	case err != nil:
		return err
	case fuzzy > last:
		return ErrNotReady
	}
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		return err
	}
	for _, file := range []string{stateFile, metaFile} {
		if err := os.Link(filepath.Join(s.dir, name, file), filepath.Join(dir, name, file)); err != nil {
			return err
		}
	}
	return disk.OS{}.SyncDir(dir)
}

// fuzzyEnd returns the index of the last entry whose effects a snapshot may include, from the block at its end.
func fuzzyEnd(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	var b [blockHead + 16]byte
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size < int64(len(b)) {
		return 0, cmp.Or(err, errSnapshot)
	}
	if _, err := f.ReadAt(b[:], size-int64(len(b))); err != nil {
		return 0, err
	}
	kind, _, err := readBlock(bytes.NewReader(b[:]), nil)
	if err != nil || kind&0xff != blockEnd {
		return 0, nil
	}
	return binary.LittleEndian.Uint64(b[blockHead+8:]), nil
}
