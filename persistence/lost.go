package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"limitdb/internal/disk"
)

// If somebody removes or replaces the data directory, or files in it, while the server runs, every write and
// sync succeeds and yet the next start finds nothing. So once a second the store checks that the names still
// refer to its files. All state is in memory: if the place is free, the store makes the directory again and
// writes a new base into it. Until that is durable, writers are refused and replies wait. If another
// directory with data has taken the place, the store leaves it alone.

// errLost is why writers are refused after that.
var errLost = errors.New("the data directory, or a file in it, was removed or replaced")

// lookForFiles checks that a start would find what the store writes.
func (s *Store) lookForFiles() {
	s.io.Lock()
	l := s.cur
	s.io.Unlock()
	if l == nil {
		return
	}
	if there, err := l.Named(l.name); !there && err == nil {
		s.lost(l, l.name)
	} else if s.manifestLost() {
		// Retire may have renamed it a moment ago.
		s.files.Lock()
		defer s.files.Unlock()
		if !s.stopped() && s.manifestLost() {
			s.lost(l, manifestName)
		}
	}
}

// manifestLost reports whether MANIFEST is missing, damaged or another directory's.
func (s *Store) manifestLost() bool {
	m, err := parseManifestFile(s.fs, filepath.Join(s.o.Dir, manifestName))
	var corrupt *CorruptError
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &corrupt) || err == nil && m.instance != s.instance
}

// lost records that a file is lost, if l is still the current log.
func (s *Store) lost(l *logFile, name string) {
	s.io.Lock()
	defer s.io.Unlock()
	if s.cur == l {
		s.fail(fmt.Errorf("%w: %s", errLost, name))
	}
}

// retake makes sure that the directory exists and is this store's. The caller holds files.
func (s *Store) retake() error {
	held, system := s.lock.(*os.File)
	if system {
		if there, err := disk.Named(held, s.o.Dir); there || err != nil {
			return err
		}
	}
	if err := s.fs.Mkdir(s.o.Dir); errors.Is(err, fs.ErrExist) && !system {
		return nil
	} else if err == nil {
		if err := s.fs.SyncDir(parent(s.o.Dir)); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !system {
		return nil
	}
	lock, err := disk.Lock(s.o.Dir, false)
	if err != nil {
		return err
	}
	if HasData(s.o.Dir) {
		lock.Close()
		return fmt.Errorf("%w: another directory with data has taken its place, and is left alone", errLost)
	}
	held.Close()
	s.lock = lock
	return nil
}
