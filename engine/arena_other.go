//go:build !linux

package engine

import (
	"os"
	"unsafe"
)

// Elsewhere than on Linux spans are plain byte slices of Go's heap: it all
// works, but freed memory goes back to the system only with the whole engine.

func pageSize() int { return os.Getpagesize() }

func reserve(n int) ([]byte, error) { return make([]byte, n), nil }

func discard(unsafe.Pointer, int, int) {}

func unreserve([]byte) {}
