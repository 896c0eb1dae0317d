package replication

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
)

// snapshotStore keeps snapshots in a directory, each in one of its own with two files: state and meta.
//
// raft's FileSnapshotStore syncs once, at the end, which holds up the syncs of the log for as long as it takes to write
// a whole snapshot. This one syncs in stretches, so that the log waits for one stretch at most.
type snapshotStore struct {
	dir string
	mu  sync.Mutex
	// made counts the snapshots that this process has begun, for their names.
	made int
}

const (
	// syncStretch is how many bytes of a snapshot are synced at once.
	syncStretch = 1 << 20
	// keepSnapshots is how many snapshots are kept: the older one may still be being read when a new one is published.
	keepSnapshots = 2
	tmpSuffix     = disk.TmpSuffix
	stateFile     = "state"
	metaFile      = "meta"
	metaKind      = "meta" // of the record in that file: a raft.SnapshotMeta
)

// openSnapshots opens the directory, creates it if it is missing, and removes unfinished snapshots.
func openSnapshots(dir string) (*snapshotStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tmpSuffix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	return &snapshotStore{dir: dir}, nil
}

// Create begins a snapshot. It is published by Close.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	s.mu.Lock()
	s.made++
	name := fmt.Sprintf("%016x-%016x-%d", index, term, s.made)
	for exists(filepath.Join(s.dir, name)) {
		s.made++
		name = fmt.Sprintf("%016x-%016x-%d", index, term, s.made)
	}
	s.mu.Unlock()
	k := &sink{s: s, tmp: filepath.Join(s.dir, name+tmpSuffix), meta: raft.SnapshotMeta{
		Version: version, ID: name, Index: index, Term: term, Configuration: members, ConfigurationIndex: membersIndex,
	}}
	if err := os.Mkdir(k.tmp, 0o700); err != nil {
		return nil, err
	}
	var err error
	if k.f, err = os.OpenFile(filepath.Join(k.tmp, stateFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(k.tmp))
	}
	return k, nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// List describes the snapshots, the newest first. It returns an error if it cannot read a snapshot's meta: the log may
// continue from that snapshot only.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var all []*raft.SnapshotMeta
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tmpSuffix) {
			continue
		}
		m, err := s.meta(e.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *raft.SnapshotMeta) int { return strings.Compare(b.ID, a.ID) })
	return all, nil
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
	switch err := disk.ReadRecord(path, metaKind, &m); {
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
	f, err := os.Open(filepath.Join(s.dir, name, stateFile))
	if err != nil {
		return nil, nil, err
	}
	return m, f, nil
}

// reap removes all but the newest keepSnapshots.
func (s *snapshotStore) reap() error {
	all, err := s.List()
	if err != nil {
		return err
	}
	for _, m := range all[min(len(all), keepSnapshots):] {
		// First its name: half of a snapshot must not look like one.
		old := filepath.Join(s.dir, m.ID)
		if err := os.Rename(old, old+tmpSuffix); err != nil {
			return err
		}
		if err := os.RemoveAll(old + tmpSuffix); err != nil {
			return err
		}
	}
	return nil
}

// sink is a snapshot that is being written.
type sink struct {
	s        *snapshotStore
	f        *os.File
	tmp      string
	meta     raft.SnapshotMeta
	unsynced int64
	done     bool
}

func (k *sink) ID() string { return k.meta.ID }

func (k *sink) Write(b []byte) (int, error) {
	n, err := k.f.Write(b)
	k.meta.Size += int64(n)
	if k.unsynced += int64(n); err == nil && k.unsynced >= syncStretch {
		k.unsynced = 0
		err = k.f.Sync()
	}
	return n, err
}

// Close publishes the snapshot. The snapshot is durable when Close returns nil.
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
	if err := k.f.Sync(); err != nil {
		return err
	}
	if err := disk.WriteRecord(filepath.Join(k.tmp, metaFile), metaKind, k.meta); err != nil {
		return err
	}
	if err := k.f.Close(); err != nil {
		return err
	}
	if err := os.Rename(k.tmp, strings.TrimSuffix(k.tmp, tmpSuffix)); err != nil {
		return err
	}
	return disk.SyncDir(k.s.dir)
}

// Cancel gives the snapshot up.
func (k *sink) Cancel() error {
	if k.done {
		return nil
	}
	k.done = true
	_ = k.f.Close() // nobody reads it
	return os.RemoveAll(k.tmp)
}
