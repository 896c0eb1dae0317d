package persistence

import (
	"errors"
	"io/fs"
	"os"
)

// OS is the system's file system.
type OS struct{}

// Open is of FS.
func (OS) Open(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Create is of FS. Only the owner may read the file, since keys may be names of people.
func (OS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Truncate is of FS.
func (OS) Truncate(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// Link is of FS.
func (OS) Link(name, second string) error { return os.Link(name, second) }

// Rename is of FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove is of FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// List is of FS.
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Mkdir is of FS. Only the owner may look inside.
func (OS) Mkdir(dir string) error { return os.Mkdir(dir, 0o700) }

// SyncDir is of FS.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

type osFile struct{ *os.File }

// Named is of File.
func (f osFile) Named(name string) (bool, error) { return named(f.File, name) }

// named reports whether a name leads to an open file or directory.
func named(f *os.File, name string) (bool, error) {
	there, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(there, open), err
}

// Size is of File.
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Sync is of File. It leaves out the file's times, which nobody reads.
func (f osFile) Sync() error { return datasync(f.File) }

// Forget is of File.
func (f osFile) Forget(off, length int64) { forget(f.File, off, length) }
