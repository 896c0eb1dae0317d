package table

import (
	"sync/atomic"
	"unsafe"
)

// BatchSize is the largest number of keys in a Batch: enough to keep the memory
// system busy, and few enough that the first is still cached after the last.
const BatchSize = 64

// Batch prefetches what the next calls need of several keys, of any tables, into
// the processor's caches. It takes no lock and decides nothing. It may read
// memory that is being changed; at worst it then fetches something else. It reads
// only spans, which stay mapped as long as the arena is in use. It may be used again after Fetch.
type Batch struct {
	// Beside reports whether Fetch also prefetches the states beside those of the keys.
	Beside bool

	n      int
	hashes [BatchSize]uint64
	sizes  [BatchSize]uint32
	segs   [BatchSize]*segment
	lines  [BatchSize]unsafe.Pointer
	ends   [BatchSize]unsafe.Pointer
}

// Add adds a key of a table, with its hash.
func (b *Batch) Add(t *Table, h uint64, key []byte) {
	b.hashes[b.n], b.sizes[b.n], b.segs[b.n] = h, uint32(len(key)), t.lookup(h)
	b.lines[b.n], b.ends[b.n] = nil, nil
	b.n++
}

// Fetch prefetches the index lines of all keys, and then their records. The batch is empty after it.
func (b *Batch) Fetch() {
	for i, g := range b.segs[:b.n] {
		if g.base != nil {
			b.lines[i] = unsafe.Pointer(g.line(g.home(b.hashes[i])))
		}
	}
	prefetch(&b.lines, b.n)
	for i := range b.n {
		if b.lines[i] == nil {
			continue
		}
		if off := (*line)(b.lines[i]).guess(b.hashes[i]); off != 0 {
			// A short record may lie across two cache lines.
			b.lines[i] = b.segs[i].at(off)
			b.ends[i] = b.segs[i].at(min(off+b.sizes[i]+minRecord+7, spanSize-1))
		}
	}
	prefetch(&b.lines, b.n)
	prefetch(&b.ends, b.n)
	if b.Beside {
		b.fetchBeside()
	}
	b.n = 0
}

// fetchBeside prefetches what is behind the first lines of the records, as much as one with a few ids of a key has, and where a record goes
// that grows.
func (b *Batch) fetchBeside() {
	prefetchEnds(&b.segs, b.n)
	for i, p := range b.ends[:b.n] {
		if p != nil {
			prefetchBehind(b.lines[i])
		}
	}
}

// guess returns the offset of the first record that may have hash h, or 0.
func (ln *line) guess(h uint64) uint32 {
	tag := tagOf(h)
	for i := 1; i < len(ln); i++ {
		if v := atomic.LoadUint32(&ln[i]); v>>spanBits == tag {
			return v & offsetMask
		}
	}
	return 0
}
