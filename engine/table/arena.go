package table

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	spanBits = 17
	// spanSize is the address space of a segment. Only the pages that the
	// segment has touched use memory.
	spanSize = 1 << spanBits
	// spansPerRegion is how many spans are reserved at once: 64 MB of address space.
	spansPerRegion = 512
	// maxWarm is the number of free spans that keep their pages.
	maxWarm = 8
	// trimMost is the most spans that Trim gives back at once: a few
	// milliseconds' work.
	trimMost = 256
)

// Arena hands out spans of memory outside Go's heap. The garbage collector does
// not scan them, and their size does not affect its pace.
//
//	region  ┌────────┬────────┬────────┬───  reserved as a whole, 64 MB
//	span    │▓▓▓▓    │▓▓▓▓▓▓  │        │     128 kB; a segment grows in it
//	        └────────┴────────┴────────┴───  ▓ pages touched: real memory
//
// All spans have the same size, so nothing fragments. A segment takes the pages
// it needs from the start of its span and gives back those behind its end. A
// region stays reserved as long as anything can reach the arena. Every shard
// can, so a call inside a shard never loses its memory, even if the engine
// itself is already garbage. Pages may go back earlier.
type Arena struct {
	budget budget
	page   int
	// hopes counts the changes after which an eviction that was in vain may not be.
	hopes atomic.Uint64
	// ranks holds buffers (*[]uint64) for evict, at most one for each
	// processor.
	ranks sync.Pool

	// regions is the reserved address space. It is a separate object so that it
	// can be released when the arena is garbage.
	regions *regions

	mu   sync.Mutex       // guards all fields below
	cold []unsafe.Pointer // free spans without any page
	warm []warmSpan       // free spans that still have pages; the newest is last
	gets int              // spans handed out since the last trim

	aside []remains // contents of flushed tables
}

type warmSpan struct {
	base    unsafe.Pointer
	touched int
}

// regions are stretches of address space.
type regions struct {
	all   [][]byte
	large map[*byte][]byte // the mappings of boxes that are larger than a span
}

// NewArena returns an arena without memory, and without a limit. The budget counts
// bytes that the arena does not hold.
func NewArena(bytes int) *Arena {
	a := &Arena{page: pageSize(), regions: new(regions)}
	a.budget.add(bytes)
	runtime.AddCleanup(a, (*regions).unmap, a.regions)
	return a
}

// unmap releases the address space. Nothing may use it afterwards.
func (r *regions) unmap() {
	for _, region := range r.all {
		unreserve(region)
	}
	for _, region := range r.large {
		unreserve(region)
	}
	r.all, r.large = nil, nil
}

// pages rounds n up to whole pages.
func (a *Arena) pages(n int) int { return (n + a.page - 1) &^ (a.page - 1) }

// get returns a span of which at least need bytes are counted by the budget,
// and how many are. The bytes are not zeroed. It fails if no address space is
// left.
func (a *Arena) get(need int) (unsafe.Pointer, int, error) {
	need = a.pages(need)
	s, err := a.pick()
	if err != nil {
		return nil, 0, err
	}
	if s.touched > need {
		discard(s.base, need, s.touched)
	}
	a.budget.add(need - s.touched)
	return s.base, need, nil
}

func (a *Arena) pick() (warmSpan, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gets++
	if n := len(a.warm); n > 0 {
		s := a.warm[n-1]
		a.warm = a.warm[:n-1]
		return s, nil
	}
	if len(a.cold) == 0 {
		region, err := reserve(spansPerRegion * spanSize)
		if err != nil {
			return warmSpan{}, fmt.Errorf("engine: reserve memory: %w", err)
		}
		a.regions.all = append(a.regions.all, region)
		for i := spansPerRegion - 1; i >= 0; i-- {
			a.cold = append(a.cold, unsafe.Pointer(&region[i*spanSize]))
		}
	}
	n := len(a.cold)
	s := warmSpan{base: a.cold[n-1]}
	a.cold = a.cold[:n-1]
	return s, nil
}

// put takes back a span of which touched bytes are counted by the budget.
func (a *Arena) put(base unsafe.Pointer, touched int) {
	s, fits := warmSpan{base, touched}, !a.budget.over(0)
	a.mu.Lock()
	if fits = fits && len(a.warm) < maxWarm; fits {
		a.warm = append(a.warm, s)
	}
	a.mu.Unlock()
	if !fits {
		a.release(s)
	}
}

func (a *Arena) release(s warmSpan) {
	discard(s.base, 0, s.touched)
	a.budget.add(-s.touched)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cold = append(a.cold, s.base)
}

// Trim returns the pages of at most trimMost free spans to the system: of those
// beyond maxWarm, or of all if force is set or no span was handed out since the
// last trim. It reports whether there were any.
func (a *Arena) Trim(force bool) bool {
	a.mu.Lock()
	n := len(a.warm)
	if !force && a.gets > 0 {
		n -= maxWarm
	}
	n = min(max(n, 0), trimMost)
	spans := slices.Clone(a.warm[:n])
	a.warm = slices.Delete(a.warm, 0, n)
	a.gets = 0
	a.mu.Unlock()
	for _, s := range spans {
		a.release(s)
	}
	return n > 0
}

// budget counts the engine's bytes: the pages of spans, and the shards,
// directories and segments in Go's heap.
type budget struct {
	used atomic.Int64
	max  atomic.Int64 // 0: no limit
	// leastDebt is set if keys may be evicted.
	leastDebt atomic.Bool
	// lowered is set while more is used because SetLimit has set less.
	lowered atomic.Bool
}

func (b *budget) add(n int) { b.used.Add(int64(n)) }

// over reports whether n more bytes would exceed the budget.
func (b *budget) over(n int) bool {
	m := b.max.Load()
	return m > 0 && b.used.Load()+int64(n) > m
}

// excess returns whether keys are to be evicted to meet the budget, and whether
// those of denied callers may be, because the budget was lowered. Otherwise more is
// used for a moment, and they have to stay.
func (b *budget) excess() (evict, denied bool) {
	if !b.over(0) {
		if b.lowered.Load() {
			b.lowered.Store(false)
		}
		return false, false
	}
	return b.leastDebt.Load(), b.lowered.Load()
}

// SetLimit sets the budget in bytes, 0 for none, and whether keys are evicted
// when it is used up.
func (a *Arena) SetLimit(bytes int64, evict bool) {
	bytes = max(bytes, 0)
	was := a.budget.max.Swap(bytes)
	if policy := a.budget.leastDebt.Swap(evict); was == bytes && policy == evict {
		return
	}
	a.budget.lowered.Store(a.budget.over(0))
	a.hopes.Add(1)
}

// Hopes changes whenever an eviction that was in vain may not be any more.
func (a *Arena) Hopes() uint64 { return a.hopes.Load() }

// Limit returns what SetLimit has set.
func (a *Arena) Limit() (bytes int64, evict bool) {
	return a.budget.max.Load(), a.budget.leastDebt.Load()
}

// Used returns how many bytes are in use.
func (a *Arena) Used() int64 { return a.budget.used.Load() }
