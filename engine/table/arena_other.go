//go:build !linux

package table

import (
	"os"
	"unsafe"
)

// On systems other than Linux, spans are byte slices in Go's heap. Everything
// works, but the memory is freed only with the whole engine.

func pageSize() int { return os.Getpagesize() }

func reserve(n int) ([]byte, error) { return make([]byte, n), nil }

func discard(unsafe.Pointer, int, int) {}

func unreserve([]byte) {}
