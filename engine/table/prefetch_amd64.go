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

// prefetchEnds asks for three cache lines behind the last record of each of the first n segments, and waits for none.
// The segments may be changing.
//
//go:noescape
func prefetchEnds(of *[BatchSize]*segment, n int)
