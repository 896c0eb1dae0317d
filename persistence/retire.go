package persistence

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"limitdb/internal/disk"
)

// Empty reports whether Open found nothing to load.
func (s *Store) Empty() bool {
	return s.man == nil || s.man.base == nil && len(s.man.logs) == 0
}

// HasData reports whether a directory of the system's file system has data that a start would load, or files
// that no MANIFEST accounts for.
func HasData(dir string) bool {
	s := &Store{o: Options{Dir: dir}, fs: disk.OS{}, log: slog.New(slog.DiscardHandler)}
	err := s.readManifest()
	var corrupt *CorruptError
	return !s.Empty() || errors.As(err, &corrupt) || errors.Is(err, ErrNoManifest) || errors.Is(err, ErrFormat)
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

	s.mu.Lock()
	s.retired = true
	ready := s.held
	s.held = nil
	s.mu.Unlock()
	for _, w := range ready {
		w.fn(nil)
	}
	s.loops.Wait()
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.io.Lock()
	defer s.io.Unlock()
	for _, l := range []*logFile{s.old, s.cur} {
		if l != nil {
			l.Close() // no MANIFEST names it
		}
	}
	s.old, s.cur = nil, nil
	s.unlock()
}

// setAside renames MANIFEST, durably.
func (s *Store) setAside() error {
	name := filepath.Join(s.o.Dir, manifestName)
	aside := filepath.Join(s.o.Dir, retiredName)
	if err := s.fs.Rename(name, aside); errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has removed it
	} else if err != nil {
		return err
	}
	err := s.fs.SyncDir(s.o.Dir)
	if err != nil {
		// The store continues and needs its MANIFEST. If this fails too, the next MANIFEST that is written
		// takes its place.
		_ = s.fs.Rename(aside, name)
	}
	return err
}

// Release unlocks a directory that Open has taken and nobody has loaded.
func (s *Store) Release() { s.unlock() }
