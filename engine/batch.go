package engine

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"limitdb/limit"
)

// warmBatch is the number of keys that are warmed at once: enough to keep the
// memory system busy, and few enough that the first is still cached after the
// last.
const warmBatch = 64

// Place is the location of a key: its hash, seeded for this engine. It saves
// hashing the key again. Zero is no place.
type Place uint64

// Warm prefetches what the next calls need of keys into the processor's caches,
// and writes the keys' places to places, which has the same length.
//
// A decision on a key in far memory spends most of its time waiting, first for
// its index line and then for its record. Warm overlaps the waits of all keys.
// It pays from about four keys on, if the table is larger than the caches.
//
// Warm takes no lock and decides nothing. It may read memory that is being
// changed; at worst it then fetches something else. It reads only spans, which
// stay mapped as long as the engine lives.
func (e *Engine) Warm(keys [][]byte, places []Place) {
	for len(keys) > 0 {
		n := min(len(keys), warmBatch)
		for i, key := range keys[:n] {
			h, _ := e.place(key)
			places[i] = Place(h)
		}
		e.fetch(keys[:n], places[:n])
		keys, places = keys[n:], places[n:]
	}
}

// fetch is Warm for at most warmBatch keys whose places are known.
func (e *Engine) fetch(keys [][]byte, places []Place) {
	var (
		segs  [warmBatch]*segment
		lines [warmBatch]unsafe.Pointer
		ends  [warmBatch]unsafe.Pointer
	)
	for i, place := range places {
		h := uint64(place)
		g := e.shards[h>>(64-e.shardBits)].table.lookup(h)
		segs[i] = g
		if g.base != nil {
			lines[i] = unsafe.Pointer(g.line(g.home(h)))
		}
	}
	prefetch(&lines, len(places))
	for i, key := range keys {
		if lines[i] == nil {
			continue
		}
		if off := (*line)(lines[i]).guess(uint64(places[i])); off != 0 {
			// A short record may lie across two cache lines.
			lines[i] = segs[i].at(off)
			ends[i] = segs[i].at(min(off+uint32(len(key))+minRecord+7, spanSize-1))
		}
	}
	prefetch(&lines, len(places))
	prefetch(&ends, len(places))
	runtime.KeepAlive(e)
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

// TakeAt is Take for a key whose place Warm has returned. If place is zero, it
// is Take.
func (e *Engine) TakeAt(place Place, now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	h := uint64(place)
	if h == 0 {
		h, _ = e.place(key)
	}
	s := &e.shards[h>>(64-e.shardBits)]
	err := s.take(now, h, key, l, cost, d)
	if err != nil {
		err = e.takeAgain(err, now, h, s, key, l, cost, d)
	}
	return err
}
