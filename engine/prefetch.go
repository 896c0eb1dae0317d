package engine

import (
	"runtime"

	"limitdb/engine/table"
)

// Place is the location of a key: its hash, seeded for this engine. It saves
// hashing the key again. Zero is no place.
type Place uint64

// Warm prefetches what the next calls need of keys into the processor's caches,
// and writes the keys' places to places, which has the same length. ids reports
// whether the calls have ids, and so need those that the keys have.
//
// A decision on a key in far memory spends most of its time waiting, first for
// its index line and then for its record. Warm overlaps the waits of all keys.
// It pays from about four keys on, if the table is larger than the caches.
//
// Warm takes no lock and decides nothing. It may read memory that is being
// changed; at worst it then fetches something else. It reads only spans, which
// stay mapped as long as the engine lives.
func (e *Engine) Warm(keys [][]byte, places []Place, ids bool) {
	b := table.Batch{Beside: ids}
	e.warm(keys, places, &b)
}

// WarmIn is Warm for keys of several engines: of[i] has keys[i].
func WarmIn(of []*Engine, keys [][]byte, places []Place, ids bool) {
	b := table.Batch{Beside: ids}
	for len(keys) > 0 {
		n := min(len(keys), table.BatchSize)
		for i, key := range keys[:n] {
			h, s := of[i].place(key)
			places[i] = Place(h)
			b.Add(&s.table, h, key)
		}
		b.Fetch()
		of, keys, places = of[n:], keys[n:], places[n:]
	}
	runtime.KeepAlive(of)
}

func (e *core) warm(keys [][]byte, places []Place, b *table.Batch) {
	for len(keys) > 0 {
		n := min(len(keys), table.BatchSize)
		for i, key := range keys[:n] {
			h, _ := e.place(key)
			places[i] = Place(h)
		}
		e.fetch(keys[:n], places[:n], b)
		keys, places = keys[n:], places[n:]
	}
}

// fetch is Warm for at most table.BatchSize keys whose places are known. b is room for it: to clear that would take longer
// than to fetch a few keys.
func (e *core) fetch(keys [][]byte, places []Place, b *table.Batch) {
	for i, place := range places {
		h := uint64(place)
		b.Add(&e.shardOf(h).table, h, keys[i])
	}
	b.Fetch()
	runtime.KeepAlive(e)
}
