package persistence

import (
	"errors"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"limitdb/internal/disk"
)

// ErrBackupName is returned for a name that a backup cannot have, such as that of one of the store's own
// files.
var ErrBackupName = errors.New("a backup's name must be that of a folder, of at most 200 bytes, without slashes or control characters, " +
	"must not begin with a dot, and must not be a name of the data directory's own files (MANIFEST, CLEAN, LOCK, base-*, log-*, cut-*, tmp*, *.tmp)")

// maxBackupName is the maximum length of a backup's name, in bytes.
const maxBackupName = 200

// Scratch is the name of a backup that its maker removes, or removes before the next one. No one else can give it.
const Scratch = "tmp-backup"

// validBackupName reports whether a backup may have the name. It refuses the names of the store's own files
// in any mix of upper and lower case, since some file systems ignore case.
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

// Backup makes a directory inside the store's own and puts hard links into it to the files that hold every
// change up to now, with a MANIFEST of their own. A server can start from a copy of that directory. Backup
// returns the directory's path. Errors: ErrBackupName, ErrBusy, ErrClosed, ErrFailed, fs.ErrExist, and those
// of the file system.
func (s *Store) Backup(name string) (string, error) {
	if !validBackupName(name) && name != Scratch {
		return "", ErrBackupName
	}
	dir := s.path(name)
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
	// rotate keeps a log that is empty, so first write what the backup must contain.
	if err := s.Sync(); err != nil {
		return dir, err
	}
	next, err := s.rotate()
	if err != nil {
		return dir, err
	}
	// Every log but the one that is being written is complete now.
	m := *s.man
	m.logs = nil
	for _, l := range s.man.logs {
		if l.number != next.number {
			m.logs = append(m.logs, l)
		}
	}
	if err := s.fs.Mkdir(dir); err != nil {
		return dir, err
	}
	if err = s.link(dir, &m); err != nil {
		// Half a backup is of no use, and its links would keep the room of files that are removed later.
		err = errors.Join(err, disk.RemoveDir(s.fs, dir))
	}
	return dir, err
}

// link puts links to the files of m, and m itself, into dir.
func (s *Store) link(dir string, m *manifest) error {
	for _, name := range m.files() {
		if err := s.fs.Link(s.path(name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	b, err := m.seal()
	if err == nil {
		err = disk.Replace(s.fs, filepath.Join(dir, manifestName), b)
	}
	if err != nil {
		return err
	}
	return s.fs.SyncDir(parent(dir))
}
