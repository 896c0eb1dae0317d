//go:build !amd64

package engine

import (
	"sync/atomic"
	"unsafe"
)

// prefetch touches the first n addresses. The loads are atomic to stay in the
// program: nobody uses what they read.
func prefetch(at *[warmBatch]unsafe.Pointer, n int) {
	for _, p := range at[:n] {
		if p != nil {
			atomic.LoadUint32((*uint32)(unsafe.Pointer(uintptr(p) &^ 3)))
		}
	}
}
