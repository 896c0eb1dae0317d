package table

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func pageSize() int { return os.Getpagesize() }

// reserve maps n bytes of address space. Pages are allocated when they are
// touched. Huge pages are declined: they would put memory behind the untouched
// part of every span, and zeroing one takes longer than a decision may wait.
func reserve(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	// A kernel without huge pages returns an error, which does not matter.
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
	return b, nil
}

// discard returns the pages from..to of a span to the system. The range stays
// mapped and reads as zeros.
func discard(base unsafe.Pointer, from, to int) {
	if from >= to {
		return
	}
	// It fails only for a range that is unmapped or not page-aligned, which
	// this one never is.
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(base, from)), to-from), unix.MADV_DONTNEED)
}

func unreserve(b []byte) { _ = unix.Munmap(b) }
