//go:build !amd64

package table

import (
	"sync/atomic"
	"unsafe"
)

// prefetch touches the first n addresses. The loads are atomic so that the
// compiler keeps them, although their results are not used.
func prefetch(at *[BatchSize]unsafe.Pointer, n int) {
	for _, p := range at[:n] {
		if p != nil {
			atomic.LoadUint32((*uint32)(unsafe.Pointer(uintptr(p) &^ 3)))
		}
	}
}

// prefetchBehind does nothing: what is there may not be the table's.
func prefetchBehind(unsafe.Pointer) {}

// prefetchEnds does nothing, for the same reason.
func prefetchEnds(*[BatchSize]*segment, int) {}
