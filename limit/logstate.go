package limit

import (
	"encoding/binary"
	"math"

	"limitdb/state"
)

// How a state of LOG is read and written: its two forms. The tokens in them are the
// units; logbody.go has those.
//
// The short form has up to 64 bytes. The time of the newest unit is expires −
// period, where period is the limit's Period, or less after a refund under another
// Period. It is written as a tag, see tag.go:
//
//	0         8        9 (…)
//	┌─────────┬────────┬────────┬────────┬─   ─┐
//	│ expires │ period │ token  │ token  │  …  │
//	└─────────┴────────┴────────┴────────┴─   ─┘
//
// The long form begins with what a walk through all tokens would find, and with the
// units of the first token, which is not in the body:
//
//	0         8     9          13     17      21       25      27      29       37       45
//	┌─────────┬─────┬──────────┬──────┬───────┬────────┬───────┬───────┬────────┬────────┬──────┐
//	│ expires │ 159 │ revision │ base │ start │ number │ first │ count │ oldest │ newest │ body │
//	└─────────┴─────┴──────────┴──────┴───────┴────────┴───────┴───────┴────────┴────────┴──────┘
//
// 159 is a tag that no period has. All integers are little-endian. first and count
// are one less than the numbers of units. What the body keeps, no change touches, so
// that a record of a change has only what it adds (see since.go, also for the
// revision).
//
// The log may be held for a longer period than that of the last change (see
// log.go). In the short form, the bit of FIRST in the tag says so. The tag of the
// longer period follows, and how long before expires the log stops being held. In
// the long form, the tag is 191, and the longer period and the time until which the
// log is held follow the time of the newest unit:
//
//	┌────────────┬──────┬─────────────────┬────────┬─   ─┐
//	│ expires    │period│ longer │ before │ token  │  …  │
//	└────────────┴──────┴─────────────────┴────────┴─   ─┘
//	┌────────────┬─────┬──────────┬────────┬────────┬──────┐
//	│ expires    │ 191 │ 36 bytes │ longer │ until  │ body │
//	└────────────┴─────┴──────────┴────────┴────────┴──────┘
//	                               45       53       61
//
// Entries of a fixed width would need no chunks, but have 8 bytes each, with the
// running number that finding a unit needs, where a token mostly has 4 to 6. A ring
// would need no cutting off, but every loop would have to deal with its two ends.
const (
	shortLog = 64
	longHead = state.LongLogHead
	heldSize = 8 + 8
	longTag  = state.LongLogTag
	// heldBit is set in the tag of a log that is held for a longer period.
	heldBit = state.HeldBit
	// Dropped bytes are cut off at one in deadShare, so that cutting moves each byte
	// deadShare times at most.
	deadShare = 8
)

// entries is a log that has been read. Its body is an argument of the methods: a
// slice that is stored through a pointer would escape to the heap.
type entries struct {
	long     bool   // it is in the long form with a revision
	at       int    // where the body begins in the state
	start    int    // where the tokens behind the first begin in the body
	base     uint32 // how many bytes came before the body, with those that were cut off
	phase    int    // where the body begins in its chunk
	revision uint32
	number   uint32 // of the first unit
	first    int64  // the units of the first token
	count    int64  // of units; 0 if there is no log
	oldest   int64  // the time of the first unit
	newest   int64  // the time of the last unit
	expires  int64  // when the log ends; the least int64 if there is none
	hold     int64  // the longest period that the log is held for
	held     int64  // until when it is held for that
}

// open reads a state into g, which must be the zero value.
func (g *entries) open(state []byte, now int64) (err error) {
	g.expires, g.at = math.MinInt64, len(state)
	if len(state) < 8 {
		if len(state) == 0 {
			return nil
		}
		return ErrState
	}
	expires := int64(binary.LittleEndian.Uint64(state))
	switch {
	case expires <= now:
		return nil
	case expires-now < 0:
		return ErrOverflow
	}
	g.expires = expires
	switch {
	case len(state) == 8: // every unit was refunded
		return nil
	case state[8]&tagNumber == tagCalendar:
		err = g.openLong(state)
	default:
		err = g.openShort(state)
	}
	switch {
	case g.hold == 0:
		g.hold, g.held = g.expires-g.newest, g.expires
	case g.hold < 0:
		return ErrState
	}
	g.held = min(g.held, g.expires) // a restart may have moved the end
	return err
}

// openLong reads a long form after expires.
func (g *entries) openLong(state []byte) error {
	tag := state[8]
	if tag&^heldBit != longTag {
		return ErrState
	}
	g.at = longHead
	if tag&heldBit != 0 {
		if g.at += heldSize; len(state) < g.at {
			return ErrState
		}
		g.hold = int64(binary.LittleEndian.Uint64(state[longHead:]))
		g.held = int64(binary.LittleEndian.Uint64(state[longHead+8:]))
		if g.hold == 0 {
			return ErrState
		}
	}
	if len(state) <= g.at {
		return ErrState
	}
	g.long, g.revision = true, binary.LittleEndian.Uint32(state[9:])
	g.base = binary.LittleEndian.Uint32(state[13:])
	g.phase = int(g.base % chunk)
	start := binary.LittleEndian.Uint32(state[17:])
	g.number = binary.LittleEndian.Uint32(state[21:])
	g.first = int64(binary.LittleEndian.Uint16(state[25:])) + 1
	g.count = int64(binary.LittleEndian.Uint16(state[27:])) + 1
	g.oldest = int64(binary.LittleEndian.Uint64(state[29:]))
	g.newest = int64(binary.LittleEndian.Uint64(state[37:]))
	if int64(start) > int64(len(state)-g.at) {
		return ErrState
	}
	g.start = int(start)
	if at := (g.phase + g.start) % chunk; at > 0 && at < chunkHead ||
		g.first > g.count || g.oldest > g.newest || g.newest >= g.expires {
		return ErrState
	}
	return nil
}

// openShort reads the short form after expires.
func (g *entries) openShort(state []byte) error {
	tag, n := readTag(state[8:])
	g.newest = g.expires - tag.period
	g.at, g.base, g.phase = 8+n, chunkHead, chunkHead
	if tag.first {
		longer, n := readTag(state[g.at:])
		g.at += n
		before, m := readCount(state[g.at:])
		g.at += m
		if n == 0 || m == 0 || longer.period == 0 || longer.first {
			return ErrState
		}
		g.hold, g.held = longer.period, g.expires-before
	}
	if n == 0 || tag.period == 0 || g.newest > g.expires || len(state) == g.at {
		return ErrState
	}
	count, oldest := int64(0), g.newest
	for b := state[g.at:]; len(b) > 0; {
		v, n := binary.Uvarint(b)
		if n <= 0 || v < 2 {
			return ErrState
		}
		if b = b[n:]; v&1 == 1 {
			count += int64(v >> 1)
		} else {
			count++
			oldest -= int64(v >> 1)
		}
		if oldest > g.newest || count > MaxLog {
			return ErrState
		}
		if g.start == 0 { // the first token
			g.start, g.first = n, count
		}
	}
	g.count, g.oldest = count, oldest
	return nil
}

// isHeld reports whether the log is held for something else than the time from the
// newest unit to the end, so that the state has to say so.
func (c *change) isHeld() bool {
	return c.hold != c.expires-c.newest || c.held != c.expires
}

// write writes the changed log over dst, or to a larger buffer if dst has no room.
// If dst is the state, it writes in place, and moves bytes only to cut off what has
// been dropped.
func (g *entries) write(c *change, state, dst []byte) []byte {
	old := state[g.at:]
	if next, ok := g.writeShort(c, old, dst); ok {
		return next
	}
	from := 0 // where the new body begins in the old one
	if !g.long || c.start*deadShare >= c.end-c.start+c.length {
		from = c.start
	}
	head := longHead
	if c.isHeld() {
		head += heldSize
	}
	n := head + c.end - from + c.length
	next := dst[:0]
	if cap(next) < n {
		next = make([]byte, 0, n+n/4)
	}
	next = next[:n]
	body := next[head:]
	if from > 0 || g.at != head || &state[0] != &next[0] {
		copy(body, old[from:c.end])
	}
	copy(body[c.end-from:], c.tail[:c.length])
	g.writeHead(c, next, from)
	return next
}

// writeHead writes the head of the long form.
func (g *entries) writeHead(c *change, next []byte, from int) {
	binary.LittleEndian.PutUint64(next, uint64(c.expires))
	next[8] = longTag
	if c.isHeld() {
		next[8] |= heldBit
		binary.LittleEndian.PutUint64(next[longHead:], uint64(c.hold))
		binary.LittleEndian.PutUint64(next[longHead+8:], uint64(c.held))
	}
	binary.LittleEndian.PutUint32(next[9:], g.revision)
	binary.LittleEndian.PutUint32(next[13:], g.base+uint32(from))
	binary.LittleEndian.PutUint32(next[17:], uint32(c.start-from))
	binary.LittleEndian.PutUint32(next[21:], c.number-uint32(c.count))
	binary.LittleEndian.PutUint16(next[25:], uint16(c.first-1))
	binary.LittleEndian.PutUint16(next[27:], uint16(c.count-1))
	binary.LittleEndian.PutUint64(next[29:], uint64(c.oldest))
	binary.LittleEndian.PutUint64(next[37:], uint64(c.newest))
}

// writeShort writes the short form. It is not ok if the log is too long for it, or
// in two chunks.
func (g *entries) writeShort(c *change, old, dst []byte) (next []byte, ok bool) {
	first := uint64(c.first)<<1 | 1
	live := tokenSize(first) + c.end - c.start + c.length
	// The body before start is in the chunk of the first token.
	if live > shortLog-8-1 || (g.phase+c.start+chunk-1)/chunk != (g.phase+c.end+c.length+chunk-1)/chunk {
		return nil, false
	}
	var b [shortLog + 2*maxTag + binary.MaxVarintLen64]byte
	isHeld := c.isHeld()
	binary.LittleEndian.PutUint64(b[:], uint64(c.expires))
	head := appendTag(b[:8], windowTag{period: c.expires - c.newest, first: isHeld})
	if isHeld {
		head = appendTag(head, windowTag{period: c.hold})
		head = binary.AppendUvarint(head, uint64(c.expires-c.held))
	}
	n := len(head)
	if n+live > shortLog {
		return nil, false
	}
	n += binary.PutUvarint(b[n:], first)
	n += copy(b[n:], old[c.start:c.end])
	n += copy(b[n:], c.tail[:c.length])
	return append(dst[:0], b[:n]...), true
}
