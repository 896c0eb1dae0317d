// Package disk has what the log of a standalone server and that of a node need of the system beyond package os.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
)

// ErrLocked is returned by Lock if another process uses the directory.
var ErrLocked = errors.New("another process uses the directory")

// TmpSuffix ends the name of a file that is not finished.
const TmpSuffix = ".tmp"

// Small is more bytes than any file has that is read and replaced as a whole.
const Small = 4 << 20

// ReadFile reads a file, but at most its first bytes.
func ReadFile(fsys FS, name string, most int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	var b []byte
	size, err := f.Size()
	if err == nil {
		b = make([]byte, min(size, most))
		err = ReadFull(f, b, 0)
	}
	return b, errors.Join(err, f.Close())
}

// ReadFull fills b from an offset. It returns io.ErrUnexpectedEOF if the file has become too short.
func ReadFull(f File, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// MakeDir makes a directory, unless there is one.
func MakeDir(fsys FS, dir string) error {
	if err := fsys.Mkdir(dir); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// RemoveDir removes a directory with the files in it, if there is one. It may have no directories in it.
func RemoveDir(fsys FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		err = errors.Join(err, fsys.Remove(filepath.Join(dir, name)))
	}
	if err != nil {
		return err
	}
	return fsys.Remove(dir)
}

// Replace writes a file in place of one of the same name. The new file is durable when Replace returns nil; a crash
// leaves it or the old one.
func Replace(fsys FS, name string, b []byte) error {
	if err := Write(fsys, name+TmpSuffix, b, true); err != nil {
		return err
	}
	return Publish(fsys, name)
}

// Publish gives a file or a directory, which has TmpSuffix behind its name and is durable itself, that name, durably.
func Publish(fsys FS, name string) error {
	if err := fsys.Rename(name+TmpSuffix, name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// Write writes a file, and syncs it if durable is set. Its name is durable once the directory is.
func Write(fsys FS, name string, b []byte, durable bool) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, 0); err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
