package limit

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// How the units of a LOG are written, found, added and dropped.
//
// A log is a sequence of tokens, oldest first. Each is a uvarint:
//
//	δ<<1     one unit, δ ns after the unit before it
//	n<<1|1   n units more at the time of the unit before them
//
// The first token is of the second kind: its units have the time of the oldest
// unit. The long form has their number in its head. No token has a byte of 0, so
// bytes of 0 can fill the space that a token did not fit into. Only the last byte of a
// uvarint has its top bit clear, so the newest token can be found from the end.
//
// The body of the long form is cut into chunks of 512 bytes, so that a binary
// search over the chunks finds a time or a unit. No token crosses into the next
// chunk. Each chunk but the first begins with the time of the unit before it, and
// with the number of the unit after that:
//
//	body        0          start
//	            ┌──────────┬───────────────┬──┬──────┬────────┬──────────   ──┐
//	            │ dropped  │ tokens        │00│ time │ number │ tokens     …  │
//	            └──────────┴───────────────┴──┴──────┴────────┴──────────   ──┘
//	            phase of a chunk              ◄─ the next chunk, 512 bytes ─────►
//
// The log is the first token and those from start on. It has count units, numbered
// from number on. The bytes before start have been dropped. They are cut off as soon
// as they are an eighth of the rest. base counts the bytes that were before the body,
// so phase, where in its chunk the body begins, is its rest.
const (
	chunk     = 512
	chunkHead = 12
	maxToken  = binary.MaxVarintLen64
	// A change writes two tokens at most, each after filling and a chunk's head.
	maxTail = 2 * (maxToken + chunkHead + maxToken)
)

// mark is a token of a log.
type mark struct {
	end    int   // in the body
	time   int64 // of its units
	units  int64 // 0 at the end of the log
	before int64 // units of the log before it
}

// front is the first part of a log: its first units, and every unit that is at least
// window older than until.
type front struct {
	units, until int64
	window       uint64
}

// has reports whether s contains the first n units, the last of which is at time.
func (s front) has(n, time int64) bool {
	return n <= s.units || uint64(s.until-time) >= s.window
}

// since finds the first token in the window of period that ends at until. It is not
// ok if the state is damaged.
func (g *entries) since(body []byte, until, period int64) (m mark, ok bool) {
	return g.seek(body, front{until: until, window: uint64(period)})
}

// unit finds the token of the n-th unit, from 1 on, or the end of the log if there
// are n−1. It is not ok if the state is damaged.
func (g *entries) unit(body []byte, n int64) (m mark, ok bool) {
	return g.seek(body, front{units: n - 1, until: g.newest, window: math.MaxUint64})
}

// seek finds the first token that s does not contain as a whole.
func (g *entries) seek(body []byte, s front) (m mark, ok bool) {
	at, before, time := g.start, g.first, g.oldest
	if g.count == 0 || !s.has(before, time) {
		return mark{end: at, time: time, units: g.first}, true
	}
	end := g.chunkAfter(at)
	if end+chunkHead < len(body) && s.has(g.head(body, end)) {
		at = g.seekChunk(body, end, s)
		before, time = g.head(body, at)
		at, end = at+chunkHead, at+chunk
	}
	end = min(end, len(body))
	for b := body[at:end]; len(b) > 0; {
		v, n := binary.Uvarint(b)
		if n <= 0 || v < 2 {
			return m, false
		}
		units := int64(v >> 1)
		if v&1 == 0 {
			units, time = 1, time+units
		}
		if units > g.count {
			return m, false
		}
		if !s.has(before+units, time) {
			ok = before+units <= g.count && time <= g.newest
			return mark{end: end - len(b) + n, time: time, units: units, before: before}, ok
		}
		b = b[n:]
		before += units
	}
	return mark{end: end, time: time, before: before}, before == g.count && end == len(body)
}

// seekChunk returns the beginning of the last chunk before which s contains all units.
// The chunk that begins at next is one of those.
func (g *entries) seekChunk(body []byte, next int, s front) int {
	low, high := 0, (len(body)-chunkHead-1-next)/chunk
	for low < high {
		mid := (low + high + 1) / 2
		if s.has(g.head(body, next+mid*chunk)) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return next + low*chunk
}

// chunkAfter returns where the first chunk begins that does not begin before at.
func (g *entries) chunkAfter(at int) int { return at + -(g.phase+at)&(chunk-1) }

// head reads the head of the chunk at a place: the number of units before it, and
// the time of the last of them.
func (g *entries) head(body []byte, at int) (units, time int64) {
	time = int64(binary.LittleEndian.Uint64(body[at:]))
	number := binary.LittleEndian.Uint32(body[at+8:])
	return int64(number - g.number), time
}

// last reads the token that ends at end, which is not the first one.
func (g *entries) last(body []byte, end int) (at int, v uint64, ok bool) {
	at = end - 1
	least := max(at-(g.phase+at)%chunk+chunkHead, g.start)
	for at > least && body[at-1]&0x80 != 0 {
		at--
	}
	v, n := binary.Uvarint(body[at:end])
	return at, v, n == end-at && v >= 2
}

// change is a log to be written: the first token, what stays of the old body, from
// start to end, and a tail after it. It ends where it did.
type change struct {
	first   int64 // the units of the first token
	oldest  int64
	start   int
	end     int
	tail    [maxTail]byte
	length  int    // of the tail
	phase   int    // of the tail's end in its chunk
	number  uint32 // of the next unit
	count   int64
	newest  int64
	expires int64
	hold    int64
	held    int64
}

// stay begins a change that keeps the body from keep up to end, and gives the units
// before it, but for the first skip, the time of keep.
func (g *entries) stay(c *change, keep mark, skip int64, end int) {
	*c = change{
		first: keep.before + keep.units - skip, oldest: keep.time,
		start: keep.end, end: end, phase: (g.phase + end) % chunk,
		number: g.number + uint32(g.count), count: g.count - skip, newest: g.newest,
	}
}

// alone begins a change that keeps nothing, and adds units at one time.
func (c *change) alone(time, units int64) {
	*c = change{first: units, oldest: time, count: units, newest: time}
}

// push makes c the change that adds e, whose time is not before the newest.
func (g *entries) push(c *change, body []byte, e *entry) {
	switch {
	case e.skip == g.count, e.time == g.newest && e.keep.end == len(body):
		c.alone(e.time, g.count-e.skip+e.units)
	case e.time > g.newest:
		g.stay(c, e.keep, e.skip, len(body))
		c.put(uint64(e.time-g.newest)<<1, 1, e.time)
		c.add(e.units - 1)
	default:
		g.stay(c, e.keep, e.skip, len(body))
		at, v, ok := g.last(body, len(body))
		if more := uint64(e.units)<<1 + v; ok && v&1 == 1 && at+tokenSize(more) <= g.chunkAfter(at) {
			g.stay(c, e.keep, e.skip, at)
			c.put(more, e.units, e.time)
		} else {
			c.add(e.units)
		}
	}
	c.expires, c.hold, c.held = e.expires, e.hold, e.held
}

// pop makes c the change that drops all units before the token keep, and the newest
// units of the rest, of which at least one stays. It is not ok if the state is
// damaged. It reads from the end, because most refunds undo the last Take.
func (g *entries) pop(c *change, body []byte, keep mark, units int64) (ok bool) {
	newest, left := g.newest, units
	floor, end := keep.end, len(body)
	for left > 0 && end > floor {
		at, v, ok := g.last(body, end)
		if !ok {
			return false
		}
		n := int64(v >> 1)
		if v&1 == 0 {
			n, newest = 1, newest-n
		}
		if n > left { // some of its units stay
			g.stay(c, keep, keep.before, at)
			c.put(v-uint64(left)<<1, 0, newest)
			c.forget(units)
			return true
		}
		left -= n
		if end = at; end > floor {
			end = g.trim(body, end, floor)
		}
	}
	if end == floor {
		c.alone(keep.time, keep.units-left)
		return left < keep.units
	}
	g.stay(c, keep, keep.before, end)
	c.forget(units)
	c.newest = newest
	return true
}

// trim returns where the last token before end ends: before the head of the chunk,
// and the filling down to floor, if the chunk has no other token. No token ends with
// 0.
func (g *entries) trim(body []byte, end, floor int) int {
	if (g.phase+end)%chunk != chunkHead {
		return end
	}
	for end -= chunkHead; end > floor && body[end-1] == 0; {
		end--
	}
	return end
}

// forget takes units off what c counts.
func (c *change) forget(units int64) {
	c.count -= units
	c.number -= uint32(units)
}

// add adds units at the newest time.
func (c *change) add(units int64) {
	if units > 0 {
		c.put(uint64(units)<<1|1, units, c.newest)
	}
}

// put writes the token v, in a new chunk if it does not fit into this one. With it
// the log has so many units more, the newest of them at time.
func (c *change) put(v uint64, units, time int64) {
	n := tokenSize(v)
	if c.phase+n > chunk {
		c.length += chunk - c.phase // tail is all zeros here
		c.phase = 0
	}
	if c.phase == 0 {
		binary.LittleEndian.PutUint64(c.tail[c.length:], uint64(c.newest))
		binary.LittleEndian.PutUint32(c.tail[c.length+8:], c.number)
		c.length += chunkHead
		c.phase = chunkHead
	}
	c.length += binary.PutUvarint(c.tail[c.length:], v)
	c.phase += n
	c.number += uint32(units)
	c.count += units
	c.newest = time
}

// tokenSize returns how many bytes the token v has.
func tokenSize(v uint64) int { return (bits.Len64(v) + 6) / 7 }
