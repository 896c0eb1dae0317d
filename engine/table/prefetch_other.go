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

// prefetchEnd does nothing: what is behind the end may not be touched.
func prefetchEnd(unsafe.Pointer) {}
