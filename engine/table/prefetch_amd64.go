package table

import "unsafe"

// prefetch asks for the cache lines at the first n addresses, and waits for none.
//
//go:noescape
func prefetch(at *[BatchSize]unsafe.Pointer, n int)

// prefetchTwo is prefetch for the lines at the addresses and for those behind them.
//
//go:noescape
func prefetchTwo(at *[BatchSize]unsafe.Pointer, n int)
