package persistence

import (
	"errors"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrBackupName is returned for a backup's name that cannot be, or is a name of the store's own.
var ErrBackupName = errors.New("persistence: a backup's name must be the name of a folder, of at most 200 bytes, without slashes or control characters, " +
	"must not begin with a dot, and must not be a name of the data directory's own files (MANIFEST, CLEAN, LOCK, base-*, log-*, cut-*, tmp*, *.tmp)")

// maxBackupName is the most bytes of a backup's name.
const maxBackupName = 200

// validBackupName reports whether a backup may have a name. The store's own names are those that it has
// or may come to have, in any case: not all file systems tell cases apart.
func validBackupName(name string) bool {
	if name == "" || len(name) > maxBackupName || name[0] == '.' || strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || r == '\\' || r == ':' || r == utf8.RuneError || unicode.IsControl(r)
	}) {
		return false
	}
	lower := strings.ToLower(name)
	for _, own := range []string{"manifest", "clean", "lock"} {
		if lower == own {
			return false
		}
	}
	for _, own := range []string{"base-", "log-", "cut-", "tmp", "manifest.", "clean."} {
		if strings.HasPrefix(lower, own) {
			return false
		}
	}
	return !strings.HasSuffix(lower, tmpSuffix)
}

// Backup makes a directory in the store's own that has hard links to the files with all
// that has changed until now, and a MANIFEST of its own: it can be copied elsewhere and
// started from. It returns the directory's path. Errors: ErrBackupName, ErrBusy, ErrClosed, ErrFailed,
// fs.ErrExist, those of the file system.
func (s *Store) Backup(name string) (string, error) {
	if !validBackupName(name) {
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
	// A log that is empty is not rotated, so what is to be in it must be there.
	if err := s.barrier(); err != nil {
		return dir, err
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
