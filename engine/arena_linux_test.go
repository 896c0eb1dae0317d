package engine

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// residentIn asks the kernel how many bytes of the arena are in memory.
func residentIn(t *testing.T, a *arena) int64 {
	t.Helper()
	var n int64
	for _, region := range a.regions.all {
		pages := make([]byte, len(region)/a.page)
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&region[0])), uintptr(len(region)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
			t.Fatalf("mincore: %v", errno)
		}
		for _, p := range pages {
			n += int64(p&1) * int64(a.page)
		}
	}
	return n
}

// TestBytesAreWhatTheKernelSays compares the engine's count with the kernel's:
// never less, and no more than the pages that a segment is about to fill.
func TestBytesAreWhatTheKernelSays(t *testing.T) {
	e := New(Options{})
	empty := e.Stats().Bytes
	compare := func(when string) {
		t.Helper()
		counted, resident := e.Stats().Bytes, residentIn(t, e.arena)
		var outside int64 // segments and directories
		for i := range e.shards {
			tb := &e.shards[i].table
			outside += int64((tb.segments-1)*segmentBytes + (len(tb.dir.Load().segs)-1)*pointerBytes)
		}
		if pages := counted - empty - outside; resident > pages || resident < pages*9/10 {
			t.Errorf("%s: %d bytes counted, %d resident", when, pages, resident)
		}
	}
	const n = 250_000
	for i := range n {
		mustTake(t, e, start, key(i), perSecond(1000), int64(1+i%2*500))
	}
	compare("grown")
	full := residentIn(t, e.arena)
	for range 3 {
		e.Sweep(start+second/4, 1<<40)
	}
	compare("half expired")
	if half := residentIn(t, e.arena); half > full*3/4 {
		t.Errorf("%d bytes resident with half of the keys, %d with all", half, full)
	}
	for range 3 {
		e.Sweep(start+second, 1<<40)
	}
	if left := residentIn(t, e.arena); left != 0 || e.Stats().Bytes != empty {
		t.Errorf("%d bytes resident and %d counted without keys, %d at first", left, e.Stats().Bytes, empty)
	}
}
