package persistence

import (
	"path/filepath"

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
	defer s.unlock()
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
	c := clean{clock: s.stamp.clock, boot: s.stamp.boot}
	if l := s.cur; l != nil {
		c.base, c.length, c.seq = l.id, l.End, l.seq-1
		l.Close()
		s.cur = nil
	} else if b := s.man.base; b != nil {
		c.base, c.length = b.id, b.length
	}
	s.io.Unlock()
	id, err := s.randomID()
	if err != nil {
		return err
	}
	c.instance, c.header.id, c.header.boot = s.man.instance, id, s.boot
	return disk.Replace(s.fs, filepath.Join(s.o.Dir, cleanName), c.appendTo(nil))
}

// parent returns the directory that contains dir.
func parent(dir string) string {
	return filepath.Dir(filepath.Clean(dir))
}
