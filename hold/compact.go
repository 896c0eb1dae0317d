package hold

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// A compact Set has no more than few entries, behind one another, and is written anew by each step:
//
//	0         8          12     13
//	┌─────────┬──────────┬──────┬──────────┬──────────┬─────────┐
//	│ expires │ revision │ form │ base     │ void     │ entries │
//	│         │          │      │ 8, or 0  │ 8, or 0  │         │
//	└─────────┴──────────┴──────┴──────────┴──────────┴─────────┘
//
// Form says which parts there are. Without a base, it is expires. An entry:
//
//	0        1      2        3         5
//	┌────────┬──────┬────────┬─────────┬────┬──────┬──────┬──────┬────────┬───────┐
//	│ id     │ size │ status │ lengths │ id │ over │ rest │ back │ amount │ limit │
//	│ length │      │        │         │    │      │      │      │        │       │
//	└────────┴──────┴────────┴─────────┴────┴──────┴──────┴──────┴────────┴───────┘
//
// Size is that of all that follows the id. Over, rest, back and amount have as many bytes as the four lengths say, of
// 4 bits each: at least those that they need, without their sign, which is the lowest bit. Over is until + rest, from
// base on; of one that is settled, rest is 0. Back is from base on while it is a time. In ms, rest and back are shorter where nothing is lost. An entry
// whose limit is the same as that of the one before has none of its own.

const (
	few = 16 // entries of a compact set

	// The bits of a form.
	isCompact = 0x80
	hasBase   = 1
	hasVoid   = 2
	returning = 4 // an entry is Returning

	compactEntry = 5 // without id, numbers and limit
	maxPiece     = 255 - 32

	// The bits of a status.
	statusBits = 7
	restMillis = 0x08
	backMillis = 0x10
	sameLimit  = 0x20

	millisecond = 1_000_000
)

func (s Set) compact() bool { return len(s) > formAt && s[formAt]&isCompact != 0 }

// compactHead returns the size of what comes before the entries.
func compactHead(s Set) int {
	f := int(s[formAt])
	return formAt + 1 + 8*(f&hasBase) + 4*(f&hasVoid)
}

func baseOf(s Set) int64 {
	if s[formAt]&hasBase != 0 {
		return int64(binary.LittleEndian.Uint64(s[formAt+1:]))
	}
	return s.expires()
}

// isTime reports whether Back of an entry with a status is a time.
func isTime(s Status) bool { return s <= Returning }

// number reads the next number, which has some bytes of b, and returns what follows it.
func number(b []byte, size int) (n int64, rest []byte) {
	var u uint64
	if len(b) >= 8 {
		u = binary.LittleEndian.Uint64(b) & (1<<(8*size) - 1)
	} else {
		for i := range size {
			u |= uint64(b[i]) << (8 * i)
		}
	}
	return int64(u>>1) ^ -int64(u&1), b[size:]
}

// size returns how many bytes a number needs.
func size(n int64) int { return (bits.Len64(uint64(n<<1)^uint64(n>>63)) + 7) / 8 }

// appendNumber appends a number in as many bytes.
func appendNumber(b []byte, n int64, size int) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(n<<1)^uint64(n>>63))[:len(b)+size]
}

// readCompact reads the entry at an offset; its size is 0 if there is none. before is the limit of the entry before.
func readCompact(s Set, at int, base int64, before []byte, e *Entry) (size int) {
	if len(s)-at < compactEntry {
		return 0
	}
	b := s[at:]
	n, status, lengths := int(b[0]), b[2], int(b[3])|int(b[4])<<8
	size = compactEntry + n + int(b[1])
	numbers := [4]int{lengths & 15, lengths >> 4 & 15, lengths >> 8 & 15, lengths >> 12}
	if len(b) < size || n > MaxID || Status(status&statusBits) >= statuses || max(numbers[0], numbers[1], numbers[2], numbers[3]) > 8 ||
		numbers[0]+numbers[1]+numbers[2]+numbers[3] > int(b[1]) {
		return 0
	}
	id := b[compactEntry : compactEntry+n : compactEntry+n]
	rest := b[compactEntry+n : size : size]
	*e = Entry{ID: id, Status: Status(status & statusBits), at: at}
	e.Until, rest = number(rest, numbers[0])
	e.Rest, rest = number(rest, numbers[1])
	e.Back, rest = number(rest, numbers[2])
	e.Amount, e.Limit = number(rest, numbers[3])
	if status&restMillis != 0 {
		e.Rest *= millisecond
	}
	e.Until += base - e.Rest
	switch {
	case status&backMillis != 0:
		e.Back = (e.Back + base/millisecond) * millisecond
	case isTime(e.Status):
		e.Back += base
	}
	if status&sameLimit != 0 {
		e.Limit = before
	}
	return size
}

// appendCompact appends an entry, whose numbers have at least least bytes if they can. before is the limit of the entry before.
func appendCompact(b []byte, e *Entry, base int64, before []byte, least int) []byte {
	status, rest, back, at := byte(e.Status), e.Rest, e.Back, len(b)
	over := e.Until + rest
	if e.Settled() {
		rest = 0 // only the sum still matters
	}
	if rest%millisecond == 0 {
		status, rest = status|restMillis, rest/millisecond
	}
	if isTime(e.Status) {
		if back%millisecond == 0 {
			status, back = status|backMillis, back/millisecond-base/millisecond
		} else {
			back -= base
		}
	}
	b = append(b, byte(len(e.ID)), 0, 0, 0, 0)
	b = append(b, e.ID...)
	lengths := 0
	for i, n := range [4]int64{over - base, rest, back, e.Amount} {
		size := size(n)
		if i > 0 { // the others may be longer
			size = max(size, min(8, least))
		}
		b = appendNumber(b, n, size)
		least -= size
		lengths |= size << (4 * i)
	}
	if len(e.Limit) > 0 && bytes.Equal(e.Limit, before) {
		status |= sameLimit
	} else {
		b = append(b, e.Limit...)
	}
	b[at+1], b[at+2] = byte(len(b)-at-compactEntry-len(e.ID)), status
	binary.LittleEndian.PutUint16(b[at+3:], uint16(lengths))
	return b
}

// fits reports whether an entry can be one of a compact set.
func (e *Entry) fits() bool { return len(e.Limit) <= maxPiece }

// findCompact finds an id, known or not.
func findCompact(s Set, id []byte, e *Entry) (ok bool) {
	own := 0 // the last entry that has a limit of its own
	for at := compactHead(s); len(s)-at >= compactEntry; {
		n := int(s[at])
		to := at + compactEntry + n
		if s[at+2]&sameLimit == 0 {
			own = at
		}
		if n == len(id) && to <= len(s) && string(s[at+compactEntry:to]) == string(id) {
			base := baseOf(s)
			if own != at && (own == 0 || readCompact(s, own, base, nil, e) == 0) {
				return false
			}
			return readCompact(s, at, base, e.Limit, e) > 0
		}
		at = to + int(s[at+1])
	}
	return false
}

// addCompact is Add for a compact set in which no entry is to be dropped. It reports whether there is one.
func addCompact(s Set, w *Edit, now int64, e *Entry) bool {
	var old Entry
	n, expires, from := 0, e.Forgotten(), s.walk()
	for from.next(&old) {
		over := old.Forgotten()
		if n++; over <= now {
			return false
		}
		expires = max(expires, over)
	}
	if n == few || n == 0 || from.at != len(s) || !e.fits() {
		return false
	}
	form := s[formAt] | hasBase
	if e.Status == Returning {
		form |= returning
	}
	b := beginCompact(s, w, expires, form, from.base, s.Void())
	b = append(b, s[compactHead(s):]...)
	w.whole(appendCompact(b, e, from.base, from.limit, 0))
	return true
}

// beginCompact begins a compact set in the room of w.
func beginCompact(s Set, w *Edit, expires int64, form byte, base, void int64) []byte {
	b := binary.LittleEndian.AppendUint64(w.room[:0], uint64(expires))
	b = binary.LittleEndian.AppendUint32(b, revisionOf(s)+1)
	if b = append(b, form); form&hasBase != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(base))
	}
	if form&hasVoid != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(void))
	}
	return b
}

// isOne reports whether a compact set has one entry.
func isOne(s Set) bool {
	at := compactHead(s)
	return len(s)-at >= compactEntry && at+compactEntry+int(s[at])+int(s[at+1]) == len(s)
}

// writeOne makes w a set of one entry in place of s. It is as long as s, if it can be, so that it stays in its place.
func writeOne(w *Edit, s Set, e *Entry, void int64) {
	form := byte(isCompact)
	if e.Status == Returning {
		form |= returning
	}
	if void != never {
		form |= hasVoid
	}
	expires := e.Forgotten()
	b := beginCompact(s, w, expires, form, 0, void)
	w.whole(appendCompact(b, e, expires, nil, len(s)-len(b)-compactEntry-len(e.ID)-len(e.Limit)))
}

// rewriteCompact is rewrite if what is known is few. It reports whether it is.
func rewriteCompact(s Set, w *Edit, now int64, c *changes) bool {
	var all [few]Entry
	n, form, expires := 0, byte(isCompact), int64(never)
	add := func(e *Entry) bool {
		over := e.Forgotten()
		if over <= now {
			return true
		}
		if n == few || !e.fits() {
			return false
		}
		if all[n] = *e; e.Status == Returning {
			form |= returning
		}
		n++
		expires = max(expires, over)
		return true
	}
	if s.Valid() {
		if !s.compact() && !isFew(s, now) { // known before anyone is told of what goes back
			return false
		}
		var e Entry
		for from := s.walk(); from.next(&e); {
			if e.Forgotten() <= now {
				continue
			}
			c.of(now, &e)
			if !add(&e) {
				return false
			}
		}
	}
	if c.more != nil && !add(c.more) {
		return false
	}
	if n == 0 {
		w.whole(nil)
		return true
	}
	if c.void != never {
		form |= hasVoid
	}
	b := beginCompact(s, w, expires, form, 0, c.void)
	var before []byte
	for i := range all[:n] {
		b = appendCompact(b, &all[i], expires, before, 0)
		before = all[i].Limit
	}
	w.whole(b)
	return true
}

// isFew reports whether what is known of a long set is few.
func isFew(s Set, now int64) bool {
	n, fit := 0, true
	s.Each(now, func(e *Entry) bool {
		n++
		fit = fit && e.fits()
		return fit && n <= few
	})
	return fit && n <= few
}
