package hold

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// Errors of Add.
var (
	// ErrLive is returned if MaxLive holds of the key are live.
	ErrLive = errors.New("hold: too many holds are live on one key")
	// ErrKnown is returned if MaxKnown ids of the key are known, or more.
	ErrKnown = errors.New("hold: too many ids are known of one key")
)

// Edit is what a step makes of a set: a set that is written anew, or else a head and
// splices. It may be used again, and is valid until then.
type Edit struct {
	// Whole is the new set. It is empty if the set is to go, and nil if Splices change it.
	Whole Set
	// Head is the new head: when the set expires, and its revision.
	Head []byte
	// Splice replaces as many bytes at an offset from behind the head.
	Splices []Splice

	bytes []byte // of splices
	room  []byte // for Whole
}

// Splice is bytes at an offset from behind the head. They replace as many, or come at the end.
type Splice struct {
	At  int
	End bool
	Ins []byte
}

// roomMost is the largest room that an Edit keeps for the next Whole.
const roomMost = 1 << 16

// whole makes the edit a set that was written to the room.
func (w *Edit) whole(s Set) {
	if w.Splices, w.Whole = w.Splices[:0], s; len(s) == 0 {
		w.Whole = Set{}
	}
	if w.room = s[:0]; cap(s) > roomMost {
		w.room = nil
	}
}

// More returns how many bytes longer than before a set is that the edit only changes.
func (w *Edit) More() int {
	if n := len(w.Splices); n > 0 && w.Splices[n-1].End {
		return len(w.Splices[n-1].Ins)
	}
	return 0
}

// Apply makes the changes to the bytes of the set of which the edit is, and returns them. It is for an edit without Whole.
func (w *Edit) Apply(s []byte) []byte {
	copy(s, w.Head)
	for _, p := range w.Splices {
		if p.End {
			return append(s, p.Ins...)
		}
		copy(s[headSize+p.At:], p.Ins)
	}
	return s
}

func (w *Edit) begin(s Set, expires int64) {
	w.Whole, w.Splices, w.bytes = nil, w.Splices[:0], w.bytes[:0]
	w.Head = binary.LittleEndian.AppendUint64(w.Head[:0], uint64(max(expires, s.expires())))
	w.Head = binary.LittleEndian.AppendUint32(w.Head, revisionOf(s)+1)
}

// revisionOf returns the revision of a set, 0 of none. Each edit makes it higher.
func revisionOf(s Set) uint32 {
	if len(s) < headSize {
		return 0
	}
	return binary.LittleEndian.Uint32(s[headSize-4:])
}

// put replaces the bytes at an offset of the set.
func (w *Edit) put(at int, b []byte) {
	w.Splices = append(w.Splices, Splice{At: at - headSize, Ins: b})
}

func (w *Edit) put32(at int, n int) {
	from := len(w.bytes)
	w.bytes = binary.LittleEndian.AppendUint32(w.bytes, uint32(n))
	w.put(at, w.bytes[from:])
}

// Add makes w the edit that adds an entry whose id is not known at now. seed is for the hash of a set that has none.
// The errors are ErrLive and ErrKnown.
func (s Set) Add(w *Edit, now int64, e *Entry, seed uint64) error {
	switch {
	case !s.Valid():
		if e.Forgotten() <= now {
			return s.anew(w, now, e, seed)
		}
		writeOne(w, e)
		return nil
	case e.Status <= Returning && e.Taken() <= s.Void():
		return s.anew(w, now, e, seed)
	case s.compact() && addCompact(s, w, now, e):
		return nil
	}
	live := s.live()
	if !s.takes(e) {
		f := e.full
		if f == nil || f.of != revisionOf(s) || f.lives >= MaxLive || !s.fits(e) {
			return s.anew(w, now, e, seed)
		}
		live, f.told = f.lives, true
	}
	w.begin(s, e.Forgotten())
	place, tag := int(e.free), e.tag
	if place == 0 {
		var old Entry
		place = s.place(e.ID, &old)
		if tag = old.tag; place > 0 && old.free == 0 { // it is there and forgotten
			tag = binary.LittleEndian.Uint32(s[place:]) & tagBits
			if !w.bury(s, now, &old) {
				place = 0
			}
		}
	}
	if place == 0 {
		return s.anew(w, now, e, seed)
	}
	w.put32(countAt, s.count()+1)
	if e.Status <= Returning {
		w.put32(liveAt, live+1)
	}
	w.put32(place, len(s)|int(tag))
	if e.Status == Returning {
		w.put32(queuedAt, s.queued()+1)
		s.push(w, e.Until)
	}
	from := len(w.bytes)
	w.bytes = appendEntry(w.bytes, e)
	w.Splices = append(w.Splices, Splice{At: len(s) - headSize, End: true, Ins: w.bytes[from:]})
	return nil
}

// bury has an entry of a set that is forgotten stay so, at whatever time it is read, because another one about its id comes. What is in the
// heap keeps its Until. It reports whether it can.
func (w *Edit) bury(s Set, now int64, e *Entry) bool {
	from := len(w.bytes)
	switch {
	case e.Forgotten() > now || e.Status == Returning || s.expires() <= now: // of that, nothing is worth to be kept
		return false
	case e.Settled():
		least := int64(-MaxTTL)
		w.bytes = binary.LittleEndian.AppendUint64(w.bytes, uint64(least))[:from+backAt-restAt]
		w.put(e.at+restAt, w.bytes[from:])
	default:
		least := int64(never)
		w.bytes = binary.LittleEndian.AppendUint64(w.bytes, uint64(least))
		w.put(e.at+untilAt, w.bytes[from:])
	}
	return true
}

// takes reports whether there is a place for an entry in a set that is valid.
func (s Set) takes(e *Entry) bool {
	return s.fits(e) && (e.Status > Returning || s.live() < MaxLive)
}

// fits is takes, however many are live.
func (s Set) fits(e *Entry) bool {
	return !s.compact() && s.count() < min(s.places()/8*7, most) && (e.Status != Returning || s.queued() < s.room())
}

// Takes reports whether Add adds an entry without looking for those that might go, whatever its id is.
func (s Set) Takes(e *Entry) bool {
	return !s.Valid() || s.compact() || s.count() < MaxLive || s.takes(e)
}

// push puts the entry that comes at the end, and is over at until, on the heap.
func (s Set) push(w *Edit, until int64) {
	i := s.queued()
	for i > 0 {
		up := (i - 1) / 2
		if s.overAt(up) <= until {
			break
		}
		w.put32(s.heap()+4*i, s.inHeap(up))
		i = up
	}
	w.put32(s.heap()+4*i, len(s))
}

// inHeap returns the offset of the entry in a place of the heap, and overAt when its time is over.
func (s Set) inHeap(i int) int { return int(binary.LittleEndian.Uint32(s[s.heap()+4*i:])) }

func (s Set) overAt(i int) int64 {
	at := s.inHeap(i)
	if at < setSize || at > len(s)-entrySize {
		return never // damaged: it goes as soon as can be
	}
	return s.over(at)
}

// over returns when the time of an entry is over.
func (s Set) over(at int) int64 { return int64(binary.LittleEndian.Uint64(s[at+untilAt:])) }

// Change makes w the edit that gives the entry e, which Find has returned, another status, Rest, Back and Amount.
func (s Set) Change(w *Edit, now int64, e *Entry) {
	if s.compact() {
		changeCompact(s, w, e)
		return
	}
	w.begin(s, e.Forgotten())
	s.change(w, now, e)
}

func (s Set) change(w *Edit, now int64, e *Entry) {
	// One whose time is over may have ceased to count when the set was written anew: to count too many as live does no harm.
	if Status(s[e.at+statusAt]) <= Returning && e.Status > Returning && s.over(e.at) > now {
		w.put32(liveAt, max(0, s.live()-1))
	}
	from := len(w.bytes)
	w.bytes = append(w.bytes, byte(e.Status))
	w.put(e.at+statusAt, w.bytes[from:])
	from = len(w.bytes)
	var numbers [limitLenAt]byte
	putNumbers(numbers[:], e)
	w.bytes = append(w.bytes, numbers[restAt:]...)
	w.put(e.at+restAt, w.bytes[from:])
}

// putNumbers writes Rest, Back and Amount to the bytes of an entry.
func putNumbers(b []byte, e *Entry) {
	b = b[:limitLenAt]
	binary.LittleEndian.PutUint32(b[restAt:], uint32(e.Rest))
	binary.LittleEndian.PutUint16(b[restAt+4:], uint16(e.Rest>>32))
	binary.LittleEndian.PutUint64(b[backAt:], uint64(e.Back))
	binary.LittleEndian.PutUint64(b[amountAt:], uint64(e.Amount))
}

// Due reports whether a hold is to go back at now.
func (s Set) Due(now int64) bool {
	due, ok := s.Next(now)
	return ok && due <= now
}

// Next returns when the next hold is to go back, or sooner. It is false if there is none: also of a set that has expired by
// now, since nothing of it would still count.
func (s Set) Next(now int64) (due int64, ok bool) {
	if !s.Valid() || s.expires() <= now {
		return 0, false
	}
	if !s.compact() {
		if s.queued() == 0 {
			return 0, false
		}
		return s.overAt(0), true
	}
	if s[formAt]&returning == 0 {
		return 0, false
	}
	var e Entry
	for w := s.walk(); w.next(&e); {
		if e.Status == Returning && (!ok || e.Until < due) {
			due, ok = e.Until, true
		}
	}
	return due, ok
}

// Return makes w the edit that ends the first hold that is to go back at now, or all if they are many and one is not set,
// or if the set is compact. It calls back for each, which may change its Amount to what stays taken. Some holds of the
// heap may have been settled, so others may still be Due.
func (s Set) Return(w *Edit, now int64, one bool, back func(e *Entry)) {
	if s.compact() || !one && s.due(now, 0, 0, s.count()/16+few) > s.count()/16+few {
		s.rewrite(w, now, &changes{back: back, void: s.Void(), seed: seedOf(s)})
		return
	}
	w.begin(s, never)
	w.put32(queuedAt, s.queued()-1)
	s.pop(w)
	var e Entry
	if s.read(s.inHeap(0), &e) > 0 && e.Status == Returning && e.Forgotten() > now {
		back(&e)
		e.Status = Returned
		s.change(w, now, &e)
	}
}

// due adds how many of the heap, from place i down, are due at now to n, and stops above most.
func (s Set) due(now int64, i, n, most int) int {
	if n > most || i >= s.queued() || s.overAt(i) > now {
		return n
	}
	return s.due(now, 2*i+2, s.due(now, 2*i+1, n+1, most), most)
}

// pop takes the first off the heap.
func (s Set) pop(w *Edit) {
	n := s.queued() - 1
	if n == 0 {
		return
	}
	last, until, i := s.inHeap(n), s.overAt(n), 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && s.overAt(down+1) < s.overAt(down) {
			down++
		}
		if until <= s.overAt(down) {
			break
		}
		w.put32(s.heap()+4*i, s.inHeap(down))
		i = down
	}
	w.put32(s.heap()+4*i, last)
}

// Reset makes w the edit after which nothing that was taken by now goes back.
func (s Set) Reset(w *Edit, now int64) {
	if s.compact() {
		s.rewrite(w, now, &changes{void: now})
		return
	}
	w.begin(s, never)
	from := len(w.bytes)
	w.bytes = binary.LittleEndian.AppendUint64(w.bytes, uint64(now))
	w.put(voidAt, w.bytes[from:])
}

// anew is Add for a set that must be written anew.
func (s Set) anew(w *Edit, now int64, e *Entry, seed uint64) error {
	if f := e.full; f != nil && f.of == revisionOf(s) {
		f.told = true
	} else if err := s.Room(now, e, new(Full)); err != nil {
		return err
	}
	void := s.Void()
	s.rewrite(w, now, &changes{more: e, seed: seed, void: void, each: e.Status <= Returning && e.Taken() <= void})
	return nil
}

// Full remembers what a look at all entries of a set without room has found. For lookAgain it is not looked at again, whatever ends or is
// forgotten meanwhile. The zero value remembers nothing.
type Full struct {
	of    uint32 // the revision of the set then
	known int    // how many ids were known,
	lives int    // and how many holds live
	told  bool   // Add has told the set how many
	again int64
}

// lookAgain is for how long a set that is full is not looked at again, in ns. A look takes a millisecond or two.
const lookAgain = 100_000_000

// tells returns the error for an entry if it is that of a set at now.
func (f *Full) tells(s Set, now int64, e *Entry) error {
	switch {
	case f.of == 0 || now >= f.again || int32(revisionOf(s)-f.of) < 0: // or it is another set by now
		return nil
	case f.known >= MaxKnown && s.count() >= MaxKnown:
		return ErrKnown
	case (f.lives >= MaxLive || f.told) && s.live() >= MaxLive && e.Live(now):
		return ErrLive
	}
	return nil
}

// look looks at all entries of a set.
func (f *Full) look(s Set, now int64) {
	*f = Full{of: revisionOf(s), again: now + lookAgain}
	for w := s.walk(); w.nextKnown(now, nil); {
		if f.known++; w.status <= Returning && s.over(w.at-w.size) > now {
			f.lives++
		}
	}
}

// Room returns the error that Add would return for an entry, of which only the status and Until count. f is what an earlier
// call for the set has remembered, if Takes is false; the entry keeps it for Add.
func (s Set) Room(now int64, e *Entry, f *Full) error {
	if s.Takes(e) {
		return nil
	}
	err := f.tells(s, now, e)
	if err == nil && (f.of != revisionOf(s) || now >= f.again) {
		f.look(s, now)
		err = f.tells(s, now, e)
	}
	if err == nil {
		e.full = f
	}
	return err
}

// changes are what a set is written anew for.
type changes struct {
	more *Entry         // comes at the end
	back func(e *Entry) // is called for those that go back
	void int64
	each bool   // the void is noted in each entry that was taken by then: what comes was taken after it, at the same time
	seed uint64 // of the index, if there is none yet
}

// set returns the void of the set.
func (c *changes) set() int64 {
	if c.each {
		return never
	}
	return c.void
}

// seedOf returns the seed of the index, 0 without one.
func seedOf(s Set) uint64 {
	if s.compact() {
		return 0
	}
	return binary.LittleEndian.Uint64(s[seedAt:])
}

// of makes the changes to an entry that is there.
func (c *changes) of(now int64, e *Entry) {
	if c.back != nil && e.Status == Returning && e.Until <= now {
		c.back(e)
		e.Status = Returned
	}
	if c.each && e.Status <= Returning && e.Taken() <= c.void {
		e.Back = min(e.Back, c.void) // nothing goes back that has come back
	}
}

// rewrite makes w a new set without what is forgotten at now.
func (s Set) rewrite(w *Edit, now int64, c *changes) {
	if rewriteCompact(s, w, now, c) {
		return
	}
	known, queued, size := 0, 0, 0
	var e Entry
	if s.Valid() {
		for from := s.walk(); from.nextKnown(now, nil); {
			if known++; from.status == Returning {
				queued++
			}
			size += from.size
		}
	}
	if c.more != nil {
		if known++; c.more.Status == Returning {
			queued++
		}
		size += entrySize + len(c.more.ID) + len(c.more.Limit)
	}
	log, room := max(minLog, bits.Len(uint(known*12/7))), 0
	if queued > 0 {
		room = min(most, queued+queued/2+few+known/8) // those that are settled stay in the heap for a while
	}
	head := setSize + 4<<log + 4*room
	n := rewriting{now: now, expires: never, s: slices.Grow(Set(w.room[:0]), head+size)[:head]}
	clear(n.s)
	binary.LittleEndian.PutUint32(n.s[headSize-4:], revisionOf(s)+1)
	n.s[logAt] = byte(log)
	binary.LittleEndian.PutUint32(n.s[roomAt:], uint32(room))
	binary.LittleEndian.PutUint64(n.s[voidAt:], uint64(c.set()))
	binary.LittleEndian.PutUint64(n.s[seedAt:], c.seed)
	if s.Valid() {
		for from := s.walk(); from.nextKnown(now, &e); {
			var raw []byte
			if c.of(now, &e); c.back == nil && !c.each {
				raw = s[e.at : e.at+from.size]
			}
			n.add(&e, raw)
		}
	}
	if c.more != nil {
		n.add(c.more, nil)
	}
	w.whole(n.end())
}

// rewriting is a set that is written anew.
type rewriting struct {
	s                   Set
	now, expires        int64
	count, live, queued int
}

// add adds an entry unless it is forgotten. raw is how it was written before; nil for one that was not, or has changed.
func (n *rewriting) add(e *Entry, raw []byte) {
	over := e.Forgotten()
	if over <= n.now {
		return
	}
	at := len(n.s)
	if raw != nil {
		n.s = append(n.s, raw...)
	} else {
		n.s = appendEntry(n.s, e)
	}
	n.expires = max(n.expires, over)
	if n.count++; e.Live(n.now) {
		n.live++
	}
	h := n.s.hash(e.ID)
	i, mask := int(h), n.s.places()-1
	for i &= mask; binary.LittleEndian.Uint32(n.s[setSize+4*i:]) != 0; { // a place is free: there are more than entries
		i = (i + 1) & mask
	}
	binary.LittleEndian.PutUint32(n.s[setSize+4*i:], uint32(at)|tagOf(h))
	if e.Status == Returning {
		binary.LittleEndian.PutUint32(n.s[queuedAt:], uint32(n.queued+1))
		n.s.lift(n.queued, at)
		n.queued++
	}
}

// end returns the set, empty if nothing is in it.
func (n *rewriting) end() Set {
	if n.count == 0 {
		return Set{}
	}
	binary.LittleEndian.PutUint64(n.s, uint64(n.expires))
	binary.LittleEndian.PutUint32(n.s[countAt:], uint32(n.count))
	binary.LittleEndian.PutUint32(n.s[liveAt:], uint32(n.live))
	return n.s
}

// lift puts the entry at an offset into a place of the heap, or above.
func (s Set) lift(i, at int) {
	until := s.over(at)
	for i > 0 {
		up := (i - 1) / 2
		if s.overAt(up) <= until {
			break
		}
		binary.LittleEndian.PutUint32(s[s.heap()+4*i:], uint32(s.inHeap(up)))
		i = up
	}
	binary.LittleEndian.PutUint32(s[s.heap()+4*i:], uint32(at))
}
