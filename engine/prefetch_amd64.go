package engine

import "unsafe"

// prefetch asks for the cache lines at the first n addresses, and waits for none.
//
//go:noescape
func prefetch(at *[warmBatch]unsafe.Pointer, n int)
