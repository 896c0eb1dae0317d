package table

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// residentIn asks the kernel how many bytes of the arena are in memory.
func residentIn(t *testing.T, a *Arena) int64 {
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
	m := newTableModel(1)
	empty := m.a.Used()
	compare := func(when string) {
		t.Helper()
		counted, resident := m.a.Used(), residentIn(t, m.a)
		// Segments and directories are elsewhere.
		outside := int64((m.t.count-1)*segmentBytes + (len(m.t.dir.Load().segs)-1)*pointerBytes)
		if pages := counted - empty - outside; resident > pages || resident < pages*9/10 {
			t.Errorf("%s: %d bytes counted, %d resident", when, pages, resident)
		}
	}
	const n = 250_000
	for i := range n {
		if err := m.put(start, key(i), stateOf(start+second/2*int64(1+i%2), 10, 1)); err != nil {
			t.Fatal(err)
		}
	}
	compare("grown")
	full := residentIn(t, m.a)
	for range 3 {
		m.sweepAll(start + second/2)
	}
	compare("half expired")
	if half := residentIn(t, m.a); half > full*3/4 {
		t.Errorf("%d bytes resident with half of the keys, %d with all", half, full)
	}
	for range 3 {
		m.sweepAll(start + second)
	}
	if left := residentIn(t, m.a); left != 0 || m.a.Used() != empty {
		t.Errorf("%d bytes resident and %d counted without keys, %d at first", left, m.a.Used(), empty)
	}
}
