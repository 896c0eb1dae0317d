package persistence

import (
	"encoding/hex"
	"errors"

	"limitdb/internal/disk"
)

// Close stops the store's goroutines, makes everything durable, notes that in CLEAN, and unlocks the
// directory. The caller must have stopped making changes. Without CLEAN, the next start knows that something
// may be missing. Errors: ErrClosed, ErrFailed, and those of the file system.
func (s *Store) Close() error {
	first := false
	s.stopOnce.Do(func() { close(s.stop); first = true })
	if !first {
		return ErrClosed
	}
	s.loops.Wait()
	s.files.Lock()
	defer s.files.Unlock()
	defer s.Release()
	err := s.closeLog()
	if err == nil && s.man != nil {
		err = s.writeClean()
	}
	return err
}

// closeLog writes and syncs the rest.
func (s *Store) closeLog() error {
	if s.Failing() != nil {
		return s.Failing()
	}
	if err := s.gather(); err != nil {
		return err
	}
	return s.sync()
}

// writeClean writes CLEAN, which says that everything is durable.
func (s *Store) writeClean() error {
	s.io.Lock()
	s.setStamp()
	c := clean{Instance: hex.EncodeToString(s.man.instance[:]), Clock: s.stamp.clock, Boot: s.boot, Elapsed: s.stamp.boot}
	if l := s.cur; l != nil {
		c.File, c.Length, c.Sequence = l.id, l.End, l.seq-1
		l.Close()
		s.cur = nil
	} else if b := s.man.base; b != nil {
		c.File, c.Length = b.id, b.length
	}
	s.over = true
	s.io.Unlock()
	if err := s.here(); err != nil {
		return err
	}
	return disk.WriteRecord(s.fs, s.path(cleanName), cleanKind, c)
}

// Retire ends the store while its parts continue to change. From then on nothing is saved, and the directory's
// data grows old. So Retire renames MANIFEST first; a later start drops what the directory has, and never
// takes it for current. Callers of Wait are released: there is nothing to wait for any more. Retire does not
// sync, and so works on a full disk. If the rename fails, the store continues as before. Errors: ErrClosed, and
// those of the file system.
func (s *Store) Retire() error {
	s.files.Lock()
	if s.stopped() {
		s.files.Unlock()
		return ErrClosed
	}
	if err := s.setAside(); err != nil {
		if errors.Is(err, errLost) {
			s.io.Lock()
			s.fail(err)
			s.io.Unlock()
		}
		s.files.Unlock()
		return err
	}
	s.end()
	return nil
}

// Abandon ends a store that has made no promises yet. It does the same as Retire, even if MANIFEST cannot be
// renamed.
func (s *Store) Abandon() {
	s.files.Lock()
	if s.stopped() {
		s.files.Unlock()
		return
	}
	if !s.Empty() {
		_ = s.setAside()
	}
	s.end()
}

// end stops the store's goroutines, releases the callers of Wait, and unlocks the directory. The caller holds
// files; end unlocks it.
func (s *Store) end() {
	s.stopOnce.Do(func() { close(s.stop) })
	s.files.Unlock()
	s.retire()
	s.loops.Wait()
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.io.Lock()
	defer s.io.Unlock()
	s.drop()
	s.over = true
	s.Release()
}
