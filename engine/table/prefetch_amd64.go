package table

import "unsafe"

// prefetch asks for the cache lines at the first n addresses, and waits for none.
//
//go:noescape
func prefetch(at *[BatchSize]unsafe.Pointer, n int)

// prefetchBehind asks for the two cache lines behind that of p.
//
//go:noescape
func prefetchBehind(p unsafe.Pointer)
