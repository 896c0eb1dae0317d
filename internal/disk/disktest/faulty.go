package disktest

import (
	"strings"

	"limitdb/internal/disk"
)

// Faulty fails the n-th operation that writes. If Short is set and the operation is a WriteAt, half of it is
// done first.
type Faulty struct {
	*Mem
	N     int
	Err   error
	Short bool
	// Forever: all operations from the n-th on fail.
	Forever bool
	Hit     string // what the n-th operation was
}

func (f *Faulty) failing(what string) bool {
	f.N--
	if f.N != 0 && !(f.Forever && f.N < 0) {
		return false
	}
	if f.Hit == "" {
		f.Hit = what
	}
	return true
}

// Create implements disk.FS.
func (f *Faulty) Create(name string) (disk.File, error) {
	if f.failing("create " + name) {
		return nil, f.Err
	}
	file, err := f.Mem.Create(name)
	if err != nil {
		return nil, err
	}
	return &failFile{file.(*memFile), f, name}, nil
}

// Edit implements disk.FS.
func (f *Faulty) Edit(name string) (disk.File, error) {
	file, err := f.Mem.Edit(name)
	if err != nil {
		return nil, err
	}
	return &failFile{file.(*memFile), f, name}, nil
}

// Truncate implements disk.FS.
func (f *Faulty) Truncate(name string, size int64) error {
	if f.failing("truncate " + name) {
		return f.Err
	}
	return f.Mem.Truncate(name, size)
}

// Link implements disk.FS.
func (f *Faulty) Link(name, second string) error {
	if f.failing("link " + name) {
		return f.Err
	}
	return f.Mem.Link(name, second)
}

// Rename implements disk.FS.
func (f *Faulty) Rename(from, to string) error {
	if f.failing("rename " + from) {
		return f.Err
	}
	return f.Mem.Rename(from, to)
}

// Remove implements disk.FS.
func (f *Faulty) Remove(name string) error {
	if _, _, _, err := f.find(name); err == nil && f.failing("remove "+name) {
		return f.Err
	}
	return f.Mem.Remove(name)
}

// SyncDir implements disk.FS.
func (f *Faulty) SyncDir(dir string) error {
	if f.failing("syncdir") {
		return f.Err
	}
	return f.Mem.SyncDir(dir)
}

type failFile struct {
	*memFile
	fs   *Faulty
	name string
}

// WriteAt implements disk.File.
func (f *failFile) WriteAt(b []byte, off int64) (int, error) {
	if f.fs.failing("write " + strings.TrimPrefix(f.name, "/")) {
		if f.fs.Short {
			n, _ := f.memFile.WriteAt(b[:len(b)/2], off)
			return n, f.fs.Err
		}
		return 0, f.fs.Err
	}
	return f.memFile.WriteAt(b, off)
}

// Sync implements disk.File.
func (f *failFile) Sync() error {
	if f.fs.failing("sync " + f.name) {
		f.failSync()
		return f.fs.Err
	}
	return f.memFile.Sync()
}
