package limit

import (
	"encoding/binary"
	"math"
)

// A log is a sequence of tokens, each a uvarint, little groups first:
//
//	δ<<1     one unit, δ ns after the one before
//	n<<1|1   n units more at the time of the one before
//
// The first token is of the second kind, at the time of the oldest unit. Only the
// last byte of a uvarint has its top bit clear, so tokens can be read from the
// end, too; and none is a byte of 0, which fills what a token did not fit in.
//
// A short state ends at 64 bytes. Of the times of its units only the end of the
// window is written, and how long before it the newest unit is, which is the
// period (as a tag, see tag.go), or less after a refund at another period:
//
//	0         8        9 (…)
//	┌─────────┬────────┬────────┬────────┬─   ─┐
//	│ expires │ period │ token  │ token  │  …  │
//	└─────────┴────────┴────────┴────────┴─   ─┘
//
// A long one begins with what would take a walk through all its tokens to find:
//
//	0         8    9       11      15       19      23       31       39
//	┌─────────┬────┬───────┬───────┬────────┬───────┬────────┬────────┬──────┐
//	│ expires │ 31 │ phase │ start │ number │ count │ oldest │ newest │ body │
//	└─────────┴────┴───────┴───────┴────────┴───────┴────────┴────────┴──────┘
//
// (31 is a tag that no period has.)
//
// A log that is held for a longer period than that of the last change (see log.go)
// says so: in the short form the period's tag has the bit of FIRST, and the tag of
// the longer period and a uvarint follow, of how long before the end it is held
// until. In the long form the tag is 63, and both follow the newest time:
//
//	┌────────────┬──────┬─────────────────┬────────┬─   ─┐
//	│ expires    │period│ longer │ before │ token  │  …  │
//	└────────────┴──────┴─────────────────┴────────┴─   ─┘
//	┌────────────┬────┬──────────┬────────┬────────┬──────┐
//	│ expires    │ 63 │ 30 bytes │ longer │ until  │ body │
//	└────────────┴────┴──────────┴────────┴────────┴──────┘
//	                              39       47       55
//
// Its body is cut into chunks of 512 bytes, so that the places where the window
// begins, and where a unit of a certain number is, can be found by halving. A
// token is in one chunk. Each chunk but the first begins with what was before it:
//
//	body        0          start
//	            ┌──────────┬───────────────┬──┬──────┬────────┬──────────   ──┐
//	            │ dropped  │ tokens        │00│ time │ number │ tokens     …  │
//	            └──────────┴───────────────┴──┴──────┴────────┴──────────   ──┘
//	            phase of a chunk              ◄─ the next chunk, 512 bytes ─────►
//
// The tokens from start on are the log; the first unit has the running number
// number, and there are count units. What is before start has been dropped; it is
// cut off, and phase adjusted, as soon as that is an eighth of what stays.
//
// No other order of the bytes was as simple. A ring needs no cutting off, but two
// ends in every loop. Entries of a fixed width could be found by halving without
// chunks, but would have 7 to 9 bytes with a count.
const (
	shortLog  = 64
	longHead  = 39
	heldHead  = longHead + 8 + 8
	longTag   = tagCalendar
	heldTag   = tagCalendar | 1<<tagUnit
	chunk     = 512
	chunkHead = 12
	maxToken  = binary.MaxVarintLen64
	// maxTail: filling, a chunk's head and a token, twice.
	maxTail = 2 * (maxToken + chunkHead + maxToken)
	// An eighth of dead bytes is moved away: each byte is moved 8 times at most.
	deadShare = 8
)

// entries is a log that has been opened. The body itself is an argument of its
// methods: were it kept here, through a pointer, the state would have to be on
// the heap.
type entries struct {
	long    bool
	at      int    // where the body is in the state
	start   int    // of the first token in the body
	phase   int    // of body's first byte in its chunk
	number  uint32 // of the first unit
	count   int64  // of units; 0: no log
	oldest  int64  // the time of the first unit
	newest  int64  // the time of the last unit
	expires int64  // the end of the log, the least int64 if there is none
	hold    int64  // the longest period that the log is held for,
	held    int64  // until when
}

// open reads a state into g, which is empty before.
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
	case len(state) == 8: // everything was given back
		return nil
	case state[8] == longTag || state[8] == heldTag:
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

func (g *entries) openLong(state []byte) error {
	g.long, g.at = true, longHead
	if state[8] == heldTag {
		g.at = heldHead
	}
	if len(state) <= g.at {
		return ErrState
	}
	if g.at == heldHead {
		g.hold = int64(binary.LittleEndian.Uint64(state[longHead:]))
		g.held = int64(binary.LittleEndian.Uint64(state[longHead+8:]))
		if g.hold == 0 {
			return ErrState
		}
	}
	g.phase = int(binary.LittleEndian.Uint16(state[9:]))
	start := binary.LittleEndian.Uint32(state[11:])
	g.number = binary.LittleEndian.Uint32(state[15:])
	g.count = int64(binary.LittleEndian.Uint32(state[19:]))
	g.oldest = int64(binary.LittleEndian.Uint64(state[23:]))
	g.newest = int64(binary.LittleEndian.Uint64(state[31:]))
	if int64(start) >= int64(len(state)-g.at) {
		return ErrState
	}
	g.start = int(start)
	if g.phase >= chunk || (g.phase+g.start)%chunk < chunkHead ||
		g.count == 0 || g.count > MaxLog || g.oldest > g.newest || g.newest >= g.expires {
		return ErrState
	}
	return nil
}

func (g *entries) openShort(state []byte) error {
	tag, n := readTag(state[8:])
	g.newest = g.expires - tag.period
	g.at, g.phase = 8+n, chunkHead
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
	}
	g.count, g.oldest = count, oldest
	return nil
}

// mark is a token of a log.
type mark struct {
	at, size int   // in the body
	time     int64 // of its units
	units    int64
	before   int64 // units of the log before it
}

// seek finds the first token that stays when so many units are dropped from
// the front, and all that a window of so long, up to a time, has left behind. At
// the end of the log size is 0. It is not ok if the state is damaged.
func (g *entries) seek(body []byte, units, until int64, window uint64) (m mark, ok bool) {
	m = mark{at: g.start, time: g.oldest}
	if g.count == 0 {
		return m, true
	}
	// before tells whether a place after so many units, the last of them at that
	// time, is not behind the one sought.
	before := func(n, time int64) bool {
		return n <= units || uint64(until-time) >= window
	}
	if next := g.chunkAfter(g.start); next+chunkHead < len(body) {
		if n, time := g.head(body, next); before(n, time) {
			low, high := 0, (len(body)-chunkHead-1-next)/chunk
			for low < high {
				mid := (low + high + 1) / 2
				if n, time := g.head(body, next+mid*chunk); before(n, time) {
					low = mid
				} else {
					high = mid - 1
				}
			}
			m.at = next + low*chunk
			m.before, m.time = g.head(body, m.at)
			m.at += chunkHead
		}
	}
	end := min(g.chunkAfter(m.at), len(body))
	for m.at < end {
		v, n := binary.Uvarint(body[m.at:end])
		if n <= 0 || v < 2 {
			return m, false
		}
		if m.size, m.units = n, int64(v>>1); v&1 == 0 {
			m.time += m.units
			m.units = 1
		}
		if m.units > g.count {
			return m, false
		}
		if !before(m.before+m.units, m.time) {
			return m, m.before+m.units <= g.count && m.time <= g.newest
		}
		m.at += n
		m.before += m.units
	}
	m.size, m.units = 0, 0
	return m, m.before == g.count && end == len(body)
}

// unit finds the token that has the unit of that number, from 1 on; the end of the
// log for the number after the last.
func (g *entries) unit(body []byte, n int64) (m mark, ok bool) {
	return g.seek(body, n-1, g.newest, math.MaxUint64)
}

// chunkAfter is where the next chunk begins, in the body.
func (g *entries) chunkAfter(at int) int { return at + chunk - (g.phase+at)%chunk }

// head reads the head of a chunk: how many units there are before it, and the
// time of the last of them.
func (g *entries) head(body []byte, at int) (units, time int64) {
	time = int64(binary.LittleEndian.Uint64(body[at:]))
	number := binary.LittleEndian.Uint32(body[at+8:])
	return int64(number - g.number), time
}

// change is what becomes of a log: from the first unit that stays on, the body
// stays as it is up to a place, and is followed by a tail.
type change struct {
	keep    mark  // the first token that stays,
	units   int64 // with so many of its units
	end     int   // of the body's part that stays
	tail    [maxTail]byte
	length  int    // of the tail
	phase   int    // of the tail's end in its chunk
	number  uint32 // of the unit after the last
	count   int64
	newest  int64
	expires int64
	hold    int64 // 0 if that is the time from the newest to the end
	held    int64
}

// stay begins a change: all that comes before unit number skip, which is in the
// token keep, is dropped, and what follows from end on.
func (g *entries) stay(c *change, keep mark, skip int64, end int) {
	*c = change{
		keep: keep, units: keep.before + keep.units - skip, end: end, phase: (g.phase + end) % chunk,
		number: g.number + uint32(g.count), count: g.count - skip, newest: g.newest,
	}
}

// alone begins a change: nothing stays but so many units at one time.
func (c *change) alone(time, units int64) {
	*c = change{phase: chunkHead, newest: time}
	c.keep.time = time
	c.add(units)
}

// push makes the change that enters e, whose time is not before the newest.
func (g *entries) push(c *change, body []byte, e *entry) {
	switch {
	case e.skip == g.count:
		c.alone(e.time, e.units)
	case e.time > g.newest:
		g.stay(c, e.keep, e.skip, len(body))
		c.put(uint64(e.time-g.newest)<<1, 1, e.time)
		c.add(e.units - 1)
	case e.keep.at+e.keep.size == len(body):
		c.alone(e.time, g.count-e.skip+e.units)
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
	c.expires = e.expires
	if e.hold != 0 {
		c.setHold(e.hold, e.held)
	}
}

// setHold says for which period the log is held and until when, if the end does
// not say so.
func (c *change) setHold(hold, held int64) {
	if hold != c.expires-c.newest || held != c.expires {
		c.hold, c.held = hold, held
	}
}

// pop drops all units before the token keep, and from those that stay so many of
// the newest. At least one stays.
func (g *entries) pop(c *change, body []byte, keep mark, units int64) bool {
	end, newest, left := len(body), g.newest, units
	floor := keep.at + keep.size
	for left > 0 && end > floor {
		at, v, ok := g.last(body, end)
		if !ok {
			return false
		}
		n := int64(v >> 1)
		if v&1 == 0 {
			n, newest = 1, newest-n
		}
		if n > left {
			g.stay(c, keep, keep.before, at)
			c.put(v-uint64(left)<<1, 0, newest)
			c.forget(units)
			return true
		}
		left -= n
		end = at
		if end > floor {
			end = g.trim(body, end)
		}
	}
	if end == floor {
		if left >= keep.units {
			return false
		}
		c.alone(keep.time, keep.units-left)
		return true
	}
	g.stay(c, keep, keep.before, end)
	c.forget(units)
	c.newest = newest
	return true
}

// last reads the token that ends at a place, and is not the first.
func (g *entries) last(body []byte, end int) (at int, v uint64, ok bool) {
	at = end - 1
	least := at - (g.phase+at)%chunk + chunkHead
	for at > least && body[at-1]&0x80 != 0 {
		at--
	}
	v, n := binary.Uvarint(body[at:end])
	return at, v, n == end-at && v >= 2
}

// trim takes off the head of a chunk that has no tokens left, and the filling
// before it. Both are behind the first token, which is not 0 at its end.
func (g *entries) trim(body []byte, end int) int {
	if (g.phase+end)%chunk != chunkHead {
		return end
	}
	for end -= chunkHead; body[end-1] == 0; {
		end--
	}
	return end
}

// forget counts units less.
func (c *change) forget(units int64) {
	c.count -= units
	c.number -= uint32(units)
}

// add puts units at the newest time.
func (c *change) add(units int64) {
	if units > 0 {
		c.put(uint64(units)<<1|1, units, c.newest)
	}
}

// put writes a token, by which there are so many units more, the last of them at
// a time.
func (c *change) put(v uint64, units, time int64) {
	n := tokenSize(v)
	if c.phase+n > chunk {
		c.length += chunk - c.phase // zeros, as tail is
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

// tokenSize is how many bytes a token has.
func tokenSize(v uint64) (n int) {
	for n = 1; v >= 0x80; n++ {
		v >>= 7
	}
	return n
}

// write writes the changed log over dst: in place, if that is the state and has
// room, and moving nothing then but what is cut off in front.
func (g *entries) write(c *change, state, dst []byte) []byte {
	old := state[g.at:]
	first := uint64(c.units)<<1 | 1
	// The first token ends where it did, and may have become shorter.
	start := c.keep.at + c.keep.size
	if c.units > 0 {
		start -= tokenSize(first)
	}
	live := c.end - start + c.length
	if next, ok := g.writeShort(c, old, dst, first, start, live); ok {
		return next
	}
	from := 0
	if !g.long || start*deadShare >= live {
		from = start
	}
	head := longHead
	if c.hold != 0 {
		head = heldHead
	}
	n := head + c.end - from + c.length
	next := dst[:0]
	if cap(next) < n {
		next = make([]byte, 0, n+n/4)
	}
	next = next[:n]
	body := next[head:]
	if from > 0 || !g.long || g.at != head || len(state) == 0 || &state[0] != &next[0] {
		copy(body, old[from:c.end])
	}
	copy(body[c.end-from:], c.tail[:c.length])
	binary.PutUvarint(body[start-from:], first)
	g.writeHead(c, next, start, from)
	return next
}

// writeHead writes the head of a long log, whose body begins where the old one's
// byte number from was.
func (g *entries) writeHead(c *change, next []byte, start, from int) {
	binary.LittleEndian.PutUint64(next, uint64(c.expires))
	next[8] = longTag
	if c.hold != 0 {
		next[8] = heldTag
		binary.LittleEndian.PutUint64(next[longHead:], uint64(c.hold))
		binary.LittleEndian.PutUint64(next[longHead+8:], uint64(c.held))
	}
	binary.LittleEndian.PutUint16(next[9:], uint16((g.phase+from)%chunk))
	binary.LittleEndian.PutUint32(next[11:], uint32(start-from))
	binary.LittleEndian.PutUint32(next[15:], c.number-uint32(c.count))
	binary.LittleEndian.PutUint32(next[19:], uint32(c.count))
	binary.LittleEndian.PutUint64(next[23:], uint64(c.keep.time))
	binary.LittleEndian.PutUint64(next[31:], uint64(c.newest))
}

// writeShort writes the short form, if the log is short enough for it and not in
// two chunks.
func (g *entries) writeShort(c *change, body, dst []byte, first uint64, start, live int) (next []byte, ok bool) {
	if live > shortLog-8-1 {
		return nil, false
	}
	var b [shortLog + 2*maxTag + binary.MaxVarintLen64]byte
	binary.LittleEndian.PutUint64(b[:], uint64(c.expires))
	head := appendTag(b[:8], windowTag{period: c.expires - c.newest, first: c.hold != 0})
	if c.hold != 0 {
		head = appendTag(head, windowTag{period: c.hold})
		head = binary.AppendUvarint(head, uint64(c.expires-c.held))
	}
	n := len(head)
	if n+live > shortLog || c.units > 0 && (g.phase+start)/chunk != (g.phase+c.end+c.length-1)/chunk {
		return nil, false
	}
	if c.units > 0 {
		size := binary.PutUvarint(b[n:], first)
		n += size + copy(b[n+size:], body[start+size:c.end])
	}
	n += copy(b[n:], c.tail[:c.length])
	return append(dst[:0], b[:n]...), true
}
