package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// OS is the system's file system.
type OS struct{}

// Open implements FS.
func (OS) Open(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Edit implements FS.
func (OS) Edit(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Create implements FS. Only the owner may read the file, since keys may be names of people.
func (OS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Truncate implements FS.
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

// Link implements FS.
func (OS) Link(name, second string) error { return os.Link(name, second) }

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// List implements FS.
func (OS) List(dir string) ([]string, error) { return list(dir, false) }

// Dirs implements FS.
func (OS) Dirs(dir string) ([]string, error) { return list(dir, true) }

func list(dir string, dirs bool) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() == dirs {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Mkdir implements FS. Only the owner may look inside.
func (OS) Mkdir(dir string) error { return os.Mkdir(dir, 0o700) }

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock implements FS.
func (OS) Lock(dir string, shared bool) (io.Closer, error) { return Lock(dir, shared) }

type osFile struct{ *os.File }

// Named implements File.
func (f osFile) Named(name string) (bool, error) { return Named(f.File, name) }

// Named reports whether name refers to an open file or directory.
func Named(f *os.File, name string) (bool, error) {
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

// Size implements File.
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Sync implements File.
func (f osFile) Sync() error { return Datasync(f.File) }

// Forget implements File.
func (f osFile) Forget(off, length int64) { forget(f.File, off, length) }
