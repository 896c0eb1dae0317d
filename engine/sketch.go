package engine

import (
	"math"

	"limitdb/engine/table"
)

// A sketch follows the most frequent keys of a stream in a small, fixed amount
// of memory. The algorithm is Space-Saving, from Metwally, Agrawal, El Abbadi,
// "Efficient Computation of Frequent and Top-k Elements in Data Streams" (ICDT
// 2005). A key that is not followed takes the slot of the key with the least
// count, and takes over that count as its error:
//
//	count − error ≤ how often the key came ≤ count
//	a key that came more often than the least count is followed
//	the least count ≤ all counts together / sketchKeys
//
// The sketch reports count − error, which is never above the truth. For a key
// that has only just taken a slot, it reports what came since.
//
// Once a minute all counts are halved, so that they describe the present: what
// came in this minute counts in full, in the minute before as half, then as a
// quarter, and so on. Errors are rounded up and counts down. What is reported
// is still not above the truth, but may be 3 further below it.
//
// A busy stream is sampled. In each minute, the sketch looks at the first keys
// (exactly of them), and then at one key in each stride, which counts for the
// whole stride. It picks that key at random (stratified sampling). Otherwise,
// if callers take turns, some would be picked always and others never. The
// random numbers come from the hashes, so the same stream gives the same sketch
// under the same seed.
//
// Looking at a key that is not followed costs four cache lines, mostly of far
// memory: tags, counts, and the two of the slot that it takes.
//
// Rejected: HeavyKeeper (Gong et al., 2018). It says less about the keys behind
// the first few, and its counters decay by chance rather than by time.
type sketch struct {
	tags   [sketchKeys]uint32 // the hashes' upper halves
	minute int64              // of the last halving, counted from the epoch
	seen   uint32             // keys looked at since then
	behind int32              // keys of its stride that follow the last one looked at
	counts [sketchKeys]uint32 // 0: the slot is free
	_      [16]byte
	slots  [sketchKeys]sketchSlot
}

type sketchSlot struct {
	hash   uint64
	err    uint32
	length uint16 // of the whole key
	text   [sketchText]byte
}

const (
	// sketchKeys is the number of keys that a sketch follows. A shard has one
	// sketch for each order, so there are 3072 keys for each order with the
	// usual 256 shards.
	sketchKeys = 12
	// sketchText is the number of bytes of a key that a sketch keeps.
	sketchText = 82

	exactly = 256
	stride  = 128 // a power of two

	minute = 60_000_000_000
)

// note counts a key, and returns how many to skip before the next.
func (t *sketch) note(now int64, h uint64, key []byte) (skip int32) {
	t.age(now)
	w := uint32(1)
	if t.seen >= exactly {
		w = stride
	}
	t.add(h, key, w)
	if t.seen++; t.seen < exactly {
		return 0
	}
	before := int32(table.Mix(h^uint64(t.seen)) & (stride - 1))
	skip = t.behind + before
	t.behind = stride - 1 - before
	return skip
}

// age halves the counts once for each minute that has passed.
func (t *sketch) age(now int64) {
	if now < (t.minute+1)*minute {
		return
	}
	n := uint64(now/minute - t.minute)
	t.minute, t.seen, t.behind = now/minute, 0, 0
	for i, count := range t.counts {
		t.counts[i] = count >> n
		err := &t.slots[i].err
		*err = uint32((uint64(*err) + 1<<min(n, 32) - 1) >> n)
	}
}

// add counts a key w times.
func (t *sketch) add(h uint64, key []byte, w uint32) {
	tag, least := uint32(h>>32), 0
	for i := range t.tags {
		if t.tags[i] == tag && t.counts[i] > 0 && t.slots[i].hash == h {
			t.counts[i] = plus(t.counts[i], w)
			return
		}
		if t.counts[i] < t.counts[least] {
			least = i
		}
	}
	s := &t.slots[least]
	s.hash, s.err = h, t.counts[least]
	s.length = uint16(min(len(key), math.MaxUint16))
	copy(s.text[:], key)
	t.tags[least] = tag
	t.counts[least] = plus(t.counts[least], w)
}

// plus adds a and b, and saturates at the largest value.
func plus(a, b uint32) uint32 { return a + min(b, math.MaxUint32-a) }

// each calls fn for every followed key with a count to report.
func (t *sketch) each(fn func(h uint64, key []byte, length int, count uint32)) {
	for i, count := range t.counts {
		if s := &t.slots[i]; count > s.err {
			n := int(s.length)
			fn(s.hash, s.text[:min(n, sketchText)], n, count-s.err)
		}
	}
}

// TopOrder is what Top ranks keys by.
type TopOrder uint8

// Top can rank keys by how often they were denied or asked for.
const (
	ByLimited TopOrder = iota
	ByRequests
	topOrders
)

// following is a shard's sketches. They are outside the shard: otherwise shards
// would be so far apart that their first lines compete for the same places in
// the processor's caches.
type following [topOrders]sketch
