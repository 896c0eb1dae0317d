package persistence

import (
	"fmt"
	"path/filepath"
)

// ErrBackupName is returned for a place outside of the store's directory.
var ErrBackupName = fmt.Errorf("persistence: a backup's name must be a relative path without \"..\"")

// Backup makes a directory below the store's own that has hard links to all
// that counts now, and a MANIFEST of its own: it can be copied elsewhere and
// started from. It returns the directory's path. Errors: ErrBackupName, ErrBusy, ErrClosed, ErrFailed,
// fs.ErrExist, those of the file system.
func (s *Store) Backup(name string) (string, error) {
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
		return "", ErrBackupName
	}
	dir := filepath.Join(s.o.Dir, name)
	if !s.files.TryLock() {
		return dir, ErrBusy
	}
	defer s.files.Unlock()
	if s.stopped() {
		return dir, ErrClosed
	}
	if s.Failing() != nil {
		return dir, ErrFailed
	}
	next, err := s.rotate()
	if err != nil {
		return dir, err
	}
	// All but the log that is being written are sealed now.
	m := *s.man
	m.logs = nil
	for _, l := range s.man.logs {
		if l.number != next.number {
			m.logs = append(m.logs, l)
		}
	}
	return dir, s.link(dir, &m)
}

// link makes dir, with links to the files of m and with m.
func (s *Store) link(dir string, m *manifest) error {
	if err := s.fs.Mkdir(dir); err != nil {
		return err
	}
	var names []string
	if m.base != nil {
		names = append(names, m.base.name())
	}
	for _, l := range m.logs {
		names = append(names, l.name())
	}
	for _, name := range names {
		if err := s.fs.Link(filepath.Join(s.o.Dir, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	tmp, err := writeTmp(s.fs, dir, manifestName, m.appendTo(nil))
	if err != nil {
		return err
	}
	if err := putInPlace(s.fs, dir, tmp); err != nil {
		return err
	}
	return s.fs.SyncDir(parent(dir))
}
