package replication

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/replication/redo"
)

// stores are the log and the votes of a node's directory, and how far the log must reach.
type stores struct {
	log   *diskLog
	votes *votes
	last  *lastIndex
}

// createStores creates the stores of a new node, and then stores who it is. It returns ErrDirectory if the directory has
// anything that a node has written, besides what an earlier call that failed has left.
func createStores(dir string, who *identity) error {
	for _, inner := range []string{logDir, snapshotsDir} {
		switch entries, err := os.ReadDir(filepath.Join(dir, inner)); {
		case len(entries) > 0:
			return fmt.Errorf("%w: %s has a %s, but no file %q that says whose it is", ErrDirectory, dir, inner, nodeFile)
		case errors.Is(err, os.ErrNotExist):
			err = os.Mkdir(filepath.Join(dir, inner), 0o700)
			if err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	lock, err := disk.Lock(filepath.Join(dir, logDir), false)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if exists(who.path) {
		return fmt.Errorf("%w: %s", disk.ErrLocked, dir) // it has made the file meanwhile
	}
	path := filepath.Join(dir, voteFile)
	var old votes
	switch err := old.read(path); {
	case err == nil && len(old.ballot.Values) > 0:
		return fmt.Errorf("%w: %s has votes, but no file %q that says whose they are", ErrDirectory, dir, nodeFile)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return ofFile(path, err)
	}
	err = createVotes(path, ballot{Node: who.Incarnation})
	if err == nil {
		err = disk.WriteRecord(disk.OS{}, filepath.Join(dir, lastFile), lastKind, storedLast{Node: who.Incarnation})
	}
	if err == nil {
		err = who.store()
	}
	return err
}

// openStores opens the stores of a node; with readOnly, it changes nothing. The errors are disk.ErrLocked, errFiles, errLog, ErrNewer and those of
// the system.
func openStores(dir string, who *identity, readOnly bool, again *redo.Log) (s stores, err error) {
	for _, inner := range []string{logDir, snapshotsDir} {
		if path := filepath.Join(dir, inner); !exists(path) {
			return s, fmt.Errorf("replication: %w: %s is missing", errFiles, path)
		}
	}
	if s.log, err = openLog(disk.OS{}, filepath.Join(dir, logDir), readOnly, again); err != nil {
		return s, fmt.Errorf("replication: %w", err)
	}
	if s.last, err = openLast(disk.OS{}, dir, who.Incarnation); err == nil {
		s.log.shorten = s.last.cut
		s.votes, err = openVotes(filepath.Join(dir, voteFile), who.Incarnation, readOnly)
	}
	if err != nil {
		return s, errors.Join(fmt.Errorf("replication: %w", err), s.close())
	}
	return s, nil
}

// verify returns errFiles if the log and the snapshots lack entries that the node has had, or the votes lack a term that it has seen.
func (s *stores) verify(snapshots *snapshotStore) error {
	newest, err := snapshots.newest()
	if err != nil {
		return err
	}
	var last raft.Log
	if last.Index, _ = s.log.LastIndex(); last.Index > 0 {
		if err := s.log.GetLog(last.Index, &last); err != nil {
			return err
		}
	}
	first, _ := s.log.FirstIndex()
	if newest == nil {
		newest = &raft.SnapshotMeta{}
	}
	if first > newest.Index+1 {
		return fmt.Errorf("replication: %w: the log begins with entry %d, and the newest snapshot ends with %d", errFiles, first, newest.Index)
	}
	if seen, had := max(last.Term, newest.Term), s.votes.term(); had < seen {
		return fmt.Errorf("replication: %w: %s has the term %d, and the log %d", errFiles, voteFile, had, seen)
	}
	return s.reaches(snapshots, s.last.Last)
}

// reaches returns errFiles if neither the log nor a snapshot reaches an entry that the node has had.
func (s *stores) reaches(snapshots *snapshotStore, had uint64) error {
	newest, err := snapshots.newest()
	if err != nil {
		return err
	}
	last, _ := s.log.LastIndex()
	if newest != nil {
		last = max(last, newest.Index)
	}
	if last < had {
		return fmt.Errorf("replication: %w: %w: with entry %d, and the node has had entry %d", errFiles, errShort, last, had)
	}
	return nil
}

// close closes them.
func (s *stores) close() error {
	err := s.log.Close()
	if s.votes != nil {
		err = errors.Join(err, s.votes.Close())
	}
	return err
}
