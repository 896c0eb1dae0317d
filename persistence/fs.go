package persistence

import "io"

// FS is what the store asks of a file system. Names are paths. There are
// three: the system's (OS), and in the tests one that fails the n-th operation
// and one in memory that loses at a crash what was not synced.
//
// An error of any method leaves it open what has happened: nothing relies on
// a file after an error of its WriteAt or Sync.
type FS interface {
	// Open opens a file for reading. The error is fs.ErrNotExist where there is none.
	Open(name string) (File, error)
	// Create makes an empty file for writing, in the place of one of that name.
	Create(name string) (File, error)
	// Truncate cuts a file to size bytes and syncs it.
	Truncate(name string, size int64) error
	// Link gives a file a second name.
	Link(name, second string) error
	// Rename gives a file another name, in the place of one that has it.
	Rename(from, to string) error
	// Remove removes a file's name.
	Remove(name string) error
	// List returns the names of the files in dir, without dir's own, in any
	// order; directories are left out.
	List(dir string) ([]string, error)
	// Mkdir makes a directory; fs.ErrExist where there is one.
	Mkdir(dir string) error
	// SyncDir makes durable what names the directory has.
	SyncDir(dir string) error
}

// File is an open file. Who writes it knows where: there is no position.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Named reports whether a name leads to this file.
	Named(name string) (bool, error)
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Sync makes durable what was written. After an error it may be lost, even
	// if a later Sync succeeds.
	Sync() error
	// Forget tells that bytes from an offset on, which are durable, will not be
	// read soon: nobody need keep them in memory.
	Forget(off, length int64)
}
