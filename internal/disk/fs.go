package disk

import "io"

// FS is what the two logs need of a file system. Names are paths. There are three: the system's (OS) and, for
// tests, those of disktest: one that fails the n-th operation and one in memory that loses unsynced data at a
// crash. The errors of the system's name the file.
//
// After an error, an operation may or may not have taken effect. Nobody relies on a file whose WriteAt or Sync
// has failed.
type FS interface {
	// Open opens a file for reading. It returns fs.ErrNotExist if there is none.
	Open(name string) (File, error)
	// Edit opens a file for reading and writing. It returns fs.ErrNotExist if there is none.
	Edit(name string) (File, error)
	// Create makes an empty file for writing, and replaces a file of that name.
	Create(name string) (File, error)
	// Truncate cuts a file to size bytes and syncs it.
	Truncate(name string, size int64) error
	// Link gives a file a second name.
	Link(name, second string) error
	// Rename renames a file, and replaces one that has the new name.
	Rename(from, to string) error
	// Remove removes the name of a file or of an empty directory.
	Remove(name string) error
	// List returns the names of the files in dir, without the path, in any order. It leaves out directories.
	List(dir string) ([]string, error)
	// Dirs returns the names of the directories in dir, without the path, in any order.
	Dirs(dir string) ([]string, error)
	// Mkdir makes a directory. It returns fs.ErrExist if the name is taken.
	Mkdir(dir string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock locks a directory as the function Lock does.
	Lock(dir string, shared bool) (io.Closer, error)
}

// File is an open file. It has no position; each write names its offset.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Named reports whether name still refers to this file.
	Named(name string) (bool, error)
	// Size returns the file's length in bytes.
	Size() (int64, error)
	// Sync makes everything written durable. After an error the data may be lost, even if a later Sync
	// succeeds.
	Sync() error
	// Forget advises the system that length bytes from off, which are durable, will not be read soon and need
	// not stay in memory.
	Forget(off, length int64)
}
