package replication

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
)

// snapshotStore keeps snapshots in a directory, each in one of its own with two files: state and meta.
//
// raft's FileSnapshotStore syncs once, at the end. This one syncs in stretches, so that the log waits for one stretch at most.
type snapshotStore struct {
	fs  disk.FS
	dir string
	mu  sync.Mutex
	// made is the number of the last snapshot that was begun: see number.
	made int
	// sees is told of the term of each snapshot before that is created; nil: nobody is.
	sees func(term uint64) error
	log  *slog.Logger // of what is damaged
}

const (
	// syncStretch is how many bytes of a snapshot are synced at once: see disk.Stretch.
	syncStretch = 1 << 20
	// keepSnapshots is how many snapshots are kept: the older one may still be being read when a new one is published.
	keepSnapshots = 2
	tmpSuffix     = disk.TmpSuffix
	stateFile     = "state"
	metaFile      = "meta"
	metaKind      = "meta" // of the record in that file: a raft.SnapshotMeta
)

// openSnapshots opens the directory, creates it if it is missing, and removes unfinished snapshots.
func openSnapshots(fsys disk.FS, dir string) (*snapshotStore, error) {
	if err := disk.MakeDir(fsys, dir); err != nil {
		return nil, err
	}
	// A process that was killed may have given a snapshot its name, or taken it away, and not synced that.
	if err := fsys.SyncDir(dir); err != nil {
		return nil, err
	}
	names, err := fsys.Dirs(dir)
	if err != nil {
		return nil, err
	}
	s := &snapshotStore{fs: fsys, dir: dir, log: slog.New(slog.DiscardHandler)}
	return s, s.remove(slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, tmpSuffix) }))
}

// Create begins a snapshot. It is published by Close.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if s.sees != nil {
		if err := s.sees(term); err != nil {
			return nil, err
		}
	}
	there, err := s.fs.Dirs(s.dir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	for _, name := range there {
		s.made = max(s.made, number(name))
	}
	s.made++
	name := fmt.Sprintf("%016x-%016x-%d", index, term, s.made)
	s.mu.Unlock()
	k := &sink{s: s, tmp: filepath.Join(s.dir, name+tmpSuffix), meta: raft.SnapshotMeta{
		Version: version, ID: name, Index: index, Term: term, Configuration: members, ConfigurationIndex: membersIndex,
	}}
	if err := s.fs.Mkdir(k.tmp); err != nil {
		return nil, err
	}
	f, err := s.fs.Create(filepath.Join(k.tmp, stateFile))
	if err != nil {
		return nil, errors.Join(err, disk.RemoveDir(s.fs, k.tmp))
	}
	k.f = &disk.Stretch{File: f, Bytes: syncStretch}
	return k, nil
}

// List describes the snapshots, the newest first. It returns an error if it cannot read the newest one's meta: the log may continue from that snapshot
// only.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	all, _, err := s.list()
	return all, err
}

// list is List, and returns the names of older snapshots whose meta is damaged or missing, too. Nothing continues from these.
func (s *snapshotStore) list() (all []*raft.SnapshotMeta, damaged []string, err error) {
	names, err := s.fs.Dirs(s.dir)
	if err != nil {
		return nil, nil, err
	}
	var first error // of the newest of those that are damaged
	for _, name := range names {
		if strings.HasSuffix(name, tmpSuffix) {
			continue
		}
		m, err := s.meta(name)
		if errors.Is(err, fs.ErrNotExist) {
			if now, derr := s.fs.Dirs(s.dir); derr == nil && !slices.Contains(now, name) {
				continue // reap has taken its name away meanwhile
			}
			err = fmt.Errorf("%w: %w", errSnapshot, err)
		}
		switch {
		case err == nil:
			all = append(all, m)
		case errors.Is(err, errSnapshot):
			if len(damaged) == 0 || compareNames(name, damaged[0]) < 0 {
				damaged, first = slices.Insert(damaged, 0, name), err
			} else {
				damaged = append(damaged, name)
			}
		default:
			return nil, nil, err
		}
	}
	slices.SortFunc(all, func(a, b *raft.SnapshotMeta) int {
		return cmp.Or(cmp.Compare(b.Index, a.Index), cmp.Compare(b.Term, a.Term), cmp.Compare(number(b.ID), number(a.ID)))
	})
	if len(damaged) > 0 && (len(all) == 0 || compareNames(damaged[0], all[0].ID) < 0) {
		return nil, nil, first
	}
	return all, damaged, nil
}

// compareNames compares the names of snapshots, as List sorts these: the newest comes first.
func compareNames(a, b string) int {
	end := func(name string) int { return max(strings.LastIndexByte(name, '-'), 0) }
	return cmp.Or(cmp.Compare(b[:end(b)], a[:end(a)]), cmp.Compare(number(b), number(a)))
}

// number returns the number at the end of a snapshot's name. A snapshot that was begun later has a higher one than those that were there then: of two
// with the same last entry it is the newer one. After Recover, only that has the new members.
func number(name string) int {
	name = strings.TrimSuffix(name, tmpSuffix)
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return n
}

// newest describes the newest snapshot, or returns nil if there is none.
func (s *snapshotStore) newest() (*raft.SnapshotMeta, error) {
	all, err := s.List()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

func (s *snapshotStore) meta(name string) (*raft.SnapshotMeta, error) {
	path := filepath.Join(s.dir, name, metaFile)
	var m raft.SnapshotMeta
	switch err := disk.ReadRecord(s.fs, path, metaKind, &m); {
	case errors.Is(err, disk.ErrNewer):
		return nil, fmt.Errorf("%w: %s", ErrNewer, path)
	case errors.Is(err, disk.ErrDamaged) || err == nil && m.ID != name:
		return nil, fmt.Errorf("%w: %s", errSnapshot, path)
	case err != nil:
		return nil, err
	}
	return &m, nil
}

// Open opens a snapshot's state.
func (s *snapshotStore) Open(name string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, err := s.meta(name)
	if err != nil {
		return nil, nil, err
	}
	f, err := s.fs.Open(filepath.Join(s.dir, name, stateFile))
	if err != nil {
		return nil, nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return m, state{io.NewSectionReader(f, 0, size), f}, nil
}

// state is a snapshot's state, as it is read.
type state struct {
	io.Reader
	io.Closer
}

// reap removes all but the newest keepSnapshots, and those whose meta is damaged or missing if there is a newer one.
func (s *snapshotStore) reap() error {
	all, names, err := s.list()
	if err != nil {
		return err
	}
	for _, name := range names {
		s.log.Warn("a snapshot on the disk is damaged and is removed, since there is a newer one", "snapshot", name)
	}
	for _, m := range all[min(len(all), keepSnapshots):] {
		names = append(names, m.ID)
	}
	var gone []string
	for _, name := range names {
		old := filepath.Join(s.dir, name)
		switch err := s.fs.Rename(old, old+tmpSuffix); {
		case errors.Is(err, fs.ErrNotExist): // one that was published meanwhile, as a leader has sent it, has removed this one
		case err != nil:
			return err
		default:
			gone = append(gone, name+tmpSuffix)
		}
	}
	return s.remove(gone)
}

// remove removes directories that are no snapshots any more by their names. That is durable before their files go: half
// of a snapshot must not look like one.
func (s *snapshotStore) remove(names []string) error {
	if len(names) == 0 {
		return nil
	}
	err := s.fs.SyncDir(s.dir)
	for _, name := range names {
		if err == nil {
			err = disk.RemoveDir(s.fs, filepath.Join(s.dir, name))
		}
	}
	return err
}

// sink is a snapshot that is being written.
type sink struct {
	s    *snapshotStore
	f    *disk.Stretch
	tmp  string
	meta raft.SnapshotMeta
	done bool
	// check checks what is written. A snapshot that another node sends may be damaged on that node's disk, and a node that loads a damaged one stops.
	check blockCheck
}

func (k *sink) ID() string { return k.meta.ID }

// Write writes a piece of the snapshot. It returns errSnapshot for one that is damaged.
func (k *sink) Write(b []byte) (int, error) {
	if _, err := k.check.Write(b); err != nil {
		return 0, err
	}
	return k.f.Write(b)
}

// Close publishes the snapshot, which is durable when Close returns nil. It returns errSnapshot, and publishes none, unless the snapshot is whole.
func (k *sink) Close() error {
	if k.done {
		return nil
	}
	if err := k.publish(); err != nil {
		return errors.Join(err, k.Cancel())
	}
	k.done = true
	return k.s.reap()
}

func (k *sink) publish() error {
	if err := k.check.whole(); err != nil {
		return err
	}
	if err := k.f.Sync(); err != nil {
		return err
	}
	k.meta.Size = k.f.End
	if err := disk.WriteRecord(k.s.fs, filepath.Join(k.tmp, metaFile), metaKind, k.meta); err != nil {
		return err
	}
	if err := k.f.Close(); err != nil {
		return err
	}
	return disk.Publish(k.s.fs, strings.TrimSuffix(k.tmp, tmpSuffix))
}

// Cancel gives the snapshot up.
func (k *sink) Cancel() error {
	if k.done {
		return nil
	}
	k.done = true
	_ = k.f.Close() // nobody reads it
	return disk.RemoveDir(k.s.fs, k.tmp)
}
