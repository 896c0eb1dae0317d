package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Datasync makes the writes to a file durable, but not the file's times, which nothing reads.
func Datasync(f *os.File) error {
	conn, err := f.SyscallConn() // keeps the descriptor open while it syncs
	if err != nil {
		return err
	}
	controlErr := conn.Control(func(fd uintptr) {
		// A signal may interrupt the call, which says nothing about the disk.
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = unix.Fdatasync(int(fd))
		}
	})
	if controlErr != nil {
		return controlErr
	}
	if err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// forget drops pages from the kernel's cache. It is only advice, so an error does not matter.
func forget(f *os.File, off, length int64) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Fadvise(int(fd), off, length, unix.FADV_DONTNEED) })
	}
}
