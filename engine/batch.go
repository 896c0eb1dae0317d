package engine

import (
	"sync/atomic"
	"unsafe"
)

// warmBatch is how many keys are warmed at once: enough to keep the memory
// system busy, few enough for the first to be still there after the last.
const warmBatch = 64

// Warm fetches what the next calls need of keys into the processor's caches.
// A decision on a key that is in far memory mostly waits for it, for its index
// line and then for its record; here the waits of all keys overlap. It pays
// from about four keys on, if the table is larger than the caches.
//
// It takes no lock and decides nothing: it may read what is being changed, and
// the worst that comes of it is that something else is fetched. What it reads
// is in spans, which stay mapped as long as the engine lives.
func (e *Engine) Warm(keys [][]byte) {
	var at [warmBatch]warming
	for len(keys) > 0 {
		n := min(len(keys), warmBatch)
		for i, key := range keys[:n] {
			h, s := e.place(key)
			at[i] = warming{h: h, g: s.table.lookup(h)}
		}
		for i := range at[:n] {
			at[i].fetchLine()
		}
		for i, key := range keys[:n] {
			at[i].fetchRecord(len(key))
		}
		keys = keys[n:]
	}
}

// warming is one key on its way.
type warming struct {
	h    uint64
	g    *segment
	line *line
}

func (w *warming) fetchLine() {
	if w.g.base != nil {
		w.line = w.g.line(w.g.home(w.h))
		atomic.LoadUint32(&w.line[0])
	}
}

// fetchRecord touches both ends of the record that the line seems to have.
func (w *warming) fetchRecord(klen int) {
	if w.line == nil {
		return
	}
	tag := tagOf(w.h)
	for i := 1; i < len(w.line); i++ {
		if v := atomic.LoadUint32(&w.line[i]); v>>spanBits == tag {
			off := uintptr(v & offsetMask)
			touch(w.g.base, off)
			touch(w.g.base, min(off+uintptr(klen)+8, spanSize-4))
			return
		}
	}
}

// touch reads one word. The load is atomic to stay in the program: nobody uses it.
func touch(base unsafe.Pointer, off uintptr) {
	atomic.LoadUint32((*uint32)(unsafe.Add(base, off&^3)))
}
