package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"limitdb/internal/clock"
	"limitdb/internal/disk"
)

// Each second, a node notes beside its log the replicated time and how long the machine has been running. After all
// nodes were down, the log shows only when the last decision was made. The note shows how long ago that was, if the
// machine has not been rebooted since. Without a note, the time stands still while no node runs, which admits less,
// never more. So the note is not synced, and a damaged note is ignored.

// noteFile is the note's name in the node's directory.
const (
	noteFile = "clock"
	noteKind = "time"
)

// noteEvery is how often the note is written.
const noteEvery = time.Second

// noteAhead is by how many ns a note's time may be ahead of the wall clock, and of the log's time plus how long the
// machine has run. Clocks that are wrong by less are common.
const noteAhead = int64(24 * time.Hour)

// note is the content of the file. Times are in ns.
type note struct {
	Clock   int64  // the replicated time, Unix
	Boot    uint64 // the id of the machine's boot
	Elapsed int64  // since the boot, when the time was Clock
	Last    uint64 // the log reached this entry: see lastindex.go
}

// ErrClock is returned for a note whose time cannot be right, if this machine's clock is.
var ErrClock = errors.New("replication: the note of the time is far ahead of this machine's clock")

// readNote reads the note at a path, and returns what it says that the time is now. It returns nil if there is none that
// counts: one from before the machine was rebooted does not. The errors are disk.ErrDamaged, disk.ErrNewer, ErrClock,
// errLog, and those of the system.
//
// Where the machine's clock is wrong, or was when the cluster began, the time of the log is as far ahead as the note's.
func readNote(path string, c Clock, logs raft.LogStore) (was *note, now int64, err error) {
	was, err = disk.ReadNote(disk.OS{}, path, noteKind, func(a, b *note) bool { return a.Elapsed > b.Elapsed }) // both are of one boot
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	boot, elapsed := c.Boot()
	now, same := clock.Mark{Time: was.Clock, Boot: was.Boot, Elapsed: was.Elapsed}.Now(boot, elapsed)
	if !same {
		return nil, 0, nil
	}
	logged, err := lastClock(logs)
	if err != nil {
		return nil, 0, err
	}
	ahead := was.Clock - c.Wall() + elapsed - was.Elapsed
	if ahead > noteAhead && was.Clock-logged-was.Elapsed > noteAhead {
		return nil, 0, fmt.Errorf("%w: by %v, says %s, and the log does not bear that out: if this machine's clock is right, remove that file; then the time has stood still while this node was down",
			ErrClock, time.Duration(ahead).Round(time.Second), path)
	}
	return was, now, nil
}

// lastClock returns the time of the last entry of a log that has one, and 0 if none has.
func lastClock(logs raft.LogStore) (int64, error) {
	first, err := logs.FirstIndex()
	if err != nil {
		return 0, err
	}
	last, err := logs.LastIndex()
	for at := last; err == nil && at > 0 && at >= first; at-- {
		var l raft.Log
		if err := logs.GetLog(at, &l); err != nil {
			return 0, err
		}
		if e, err := parseEntry(l.Data); l.Type == raft.LogCommand && err == nil {
			return e.clock, nil
		}
	}
	return 0, err
}

// clockFile is the note of a running node, in its file.
type clockFile struct {
	path      string     // "" for none
	file      *disk.Note // nil before the first write
	clock     Clock
	logs      raft.LogStore
	snapshots *snapshotStore
	stores    *stores // nil for a node in memory
	log       *slog.Logger
	// reached returns the earliest value that the replicated time can have now, and false before the first.
	reached func() (at int64, known bool)
}

// recall returns the time that the replicated time has reached now, if the machine has run since the note was written, and else
// 0. The errors are ErrClock, errFiles for a log that does not reach what the note says, ErrNewer, and those of the system.
func (n *clockFile) recall() (now int64, err error) {
	if n.clock.Boot == nil || n.path == "" {
		return 0, nil
	}
	was, now, err := readNote(n.path, n.clock, n.logs)
	switch {
	case errors.Is(err, disk.ErrDamaged):
		n.log.Warn("the note of the time is damaged: while no node ran, the time of limits has stood still", "err", err)
		return 0, nil
	case errors.Is(err, disk.ErrNewer):
		return 0, ofFile(n.path, err)
	case err != nil || was == nil:
		return 0, err
	}
	if n.stores != nil {
		if err := n.stores.reaches(n.snapshots, was.Last); err != nil {
			return 0, err
		}
	}
	return now, nil
}

// keep writes the note until the node stops, and at times makes the end of the log durable.
func (n *clockFile) keep(stop <-chan struct{}) {
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for written := 1; ; written++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if err := n.write(); err != nil {
			n.log.Warn("the note of the time cannot be written", "err", err)
		}
		if s := n.stores; s != nil && written%lastEvery == 0 {
			if err := s.last.reach(s.log); err != nil {
				n.log.Warn("the end of the log cannot be noted", "err", err)
			}
		}
	}
}

// write writes the note.
func (n *clockFile) write() error {
	if n.clock.Boot == nil || n.path == "" {
		return nil
	}
	at, known := n.reached()
	was := note{Clock: at}
	was.Boot, was.Elapsed = n.clock.Boot()
	if !known || was.Boot == 0 {
		return nil
	}
	if s := n.stores; s != nil {
		s.last.mu.Lock() // so that nothing is cut off meanwhile
		defer s.last.mu.Unlock()
		was.Last, _ = s.log.LastIndex() // never fails
	}
	if n.file == nil {
		n.file = disk.NewNote(disk.OS{}, n.path, noteKind)
	}
	return n.file.Write(was)
}

// forgetNote removes the note in a directory, if there is one.
func forgetNote(fsys disk.FS, dir string) error {
	err := fsys.Remove(filepath.Join(dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
