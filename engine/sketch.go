package engine

import "math"

// A sketch follows the keys of a stream that come most often, in little memory
// of fixed size: Space-Saving, from Metwally, Agrawal, El Abbadi, "Efficient
// Computation of Frequent and Top-k Elements in Data Streams" (ICDT 2005). A key
// that is not followed takes the place of the one with the least count, and
// takes over that count as its error:
//
//	count − error ≤ how often the key came ≤ count
//	a key that came more often than the least count is followed
//	the least count ≤ all counts together / sketchKeys
//
// What is told is count − error, never more than there was: a key that has only
// just taken a place is told with what it has had since.
//
// Once a minute all counts are halved, so that they tell of now: what came in
// this minute counts in full, in the one before as half, then as a quarter, and
// so on. Errors are rounded up and counts down: what is told is still not above
// the truth, but may be 3 further below.
//
// Not everything is looked at where much comes: of a stream, the first exactly in
// a minute are, and then one in stride, which counts for as many. It is one at
// random of each stride (stratified), because of callers that take turns some
// would else be hit always and others never. The draws come from the hashes, so
// the same stream gives the same sketch under the same seed.
//
// Looking at a key that is not followed costs four cache lines, mostly of far
// memory: tags, counts, and the two of the place that it takes.
//
// Rejected: HeavyKeeper (Gong et al., 2018), which tells less about the keys
// behind the first few, and whose counters decay by chance and not by time.
type sketch struct {
	tags   [sketchKeys]uint32 // the hashes' upper halves
	minute int64              // since the epoch, of the last halving
	seen   uint32             // since then
	behind int32              // how many of its stride come after the last one looked at
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
	// sketchKeys is how many keys a sketch follows. A shard has two, so that
	// there are 3072 for each order with the usual 256 shards.
	sketchKeys = 12
	// sketchText is how many bytes of a key it keeps.
	sketchText = 82

	exactly = 256
	stride  = 128 // a power of two

	minute = 60_000_000_000
)

// note counts a key, and returns how many are to be passed over before the next.
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
	at := int32(mix(h^uint64(t.seen)) & (stride - 1))
	skip = t.behind + at
	t.behind = stride - 1 - at
	return skip
}

// age halves the counts once for each minute that has gone by.
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

// plus adds, and stops at the most that there can be.
func plus(a, b uint32) uint32 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxUint32
}

// each calls fn for every key that is followed and has a count to tell.
func (t *sketch) each(fn func(h uint64, key []byte, length int, count uint32)) {
	for i, count := range t.counts {
		if s := &t.slots[i]; count > s.err {
			n := int(s.length)
			fn(s.hash, s.text[:min(n, sketchText)], n, count-s.err)
		}
	}
}
