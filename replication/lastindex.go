package replication

import (
	"path/filepath"
	"sync"

	"limitdb/internal/disk"
)

// A log whose end is missing looks like one that never was longer, and its node would vote as if it had not acknowledged
// what is gone. So beside the log stands the index that it must reach. To sync that with each write would cost as much as
// the write, so two files have it. "last" is durable, and written when the node stops, at intervals, and before entries
// are removed from the end. The note of the time has it each second, and counts while the machine has not been rebooted:
// until then the log cannot have lost a write.

// lastFile is in the node's directory.
const (
	lastFile = "last"
	lastKind = "last"
	// lastEvery is after how many notes of the time the index is made durable.
	lastEvery = 10
)

// storedLast is the content of the file.
type storedLast struct {
	Node string // the incarnation
	Last uint64 // the log, or a snapshot, reaches this entry
}

// lastIndex is the index that a log must reach.
type lastIndex struct {
	fs  disk.FS
	dir string
	mu  sync.Mutex // also held while the note of the time is written
	storedLast
}

// openLast reads the file of a node. The errors are those of ofFile.
func openLast(fsys disk.FS, dir, node string) (*lastIndex, error) {
	l := &lastIndex{fs: fsys, dir: dir}
	path := filepath.Join(dir, lastFile)
	err := disk.ReadRecord(fsys, path, lastKind, &l.storedLast)
	if err == nil && l.Node != node {
		err = disk.ErrDamaged
	}
	if err != nil {
		return nil, ofFile(path, err)
	}
	return l, nil
}

// write makes an index durable. The lock is held, or no one else has l yet.
func (l *lastIndex) write(last uint64) error {
	if last == l.Last {
		return nil
	}
	next := storedLast{Node: l.Node, Last: last}
	if err := disk.WriteRecord(l.fs, filepath.Join(l.dir, lastFile), lastKind, next); err != nil {
		return err
	}
	l.storedLast = next
	return nil
}

// reach makes the end of a log durable.
func (l *lastIndex) reach(log *diskLog) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, err := log.LastIndex()
	if err != nil || last < l.Last { // a snapshot has it
		return err
	}
	return l.write(last)
}

// cut prepares for the removal of the entries from an index on: it makes the index before them durable, if they count, and
// removes the note of the time. Time stands still then, until the next note. It then calls forget, before anybody notes again how far the log reaches.
func (l *lastIndex) cut(index uint64, forget func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := forgetNote(l.fs, l.dir); err != nil {
		return err
	}
	if err := l.write(min(l.Last, index-1)); err != nil {
		return err
	}
	forget()
	return nil
}
