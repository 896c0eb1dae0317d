package group

import (
	"slices"
	"sync/atomic"

	"limitdb/resp"
)

// Shares says which replies of a batch reveal the state of which group, if there are several.
type Shares struct {
	Tells []Share
	spans []span
	has   uint64               // a bit for each number of a group in Tells
	at    [sharesNumbers]uint8 // by the number, where the group may be in Tells
}

// sharesNumbers is how many numbers of groups are told apart. Others have the same as one of these.
const sharesNumbers = 64

// Share is a group, and the turn in which replies have told of its state; 0: more than one.
type Share struct {
	Group *Group
	Turn  uint64
}

// span is bytes of replies, up to an end, that reveal the state of one of Tells.
type span struct{ end, of int }

// Of a span: it reveals the state of none, or of all.
const (
	ofNone = -1
	ofAll  = -2
)

// Note notes that the bytes from one position up to another reveal the state of a group.
func (sh *Shares) Note(g *Group, turn uint64, from, to int) {
	end, of := 0, ofNone // of the last span
	if n := len(sh.spans); n > 0 {
		end, of = sh.spans[n-1].end, sh.spans[n-1].of
	}
	if to <= max(from, end) {
		return
	}
	number := uint(g.Number) % sharesNumbers
	next := len(sh.Tells)
	if sh.has>>number&1 == 0 {
		sh.has |= 1 << number
		sh.at[number] = uint8(next)
		sh.Tells = append(sh.Tells, Share{g, turn})
	} else if at := int(sh.at[number]); at < next && sh.Tells[at].Group == g && sh.Tells[at].Turn == turn {
		next = at
	} else {
		next = sh.join(Share{g, turn})
	}
	if from > end || of == next {
		sh.note(next, max(from, end), to)
		return
	}
	sh.spans = append(sh.spans, span{to, next}) // nearly always
}

// Tell notes that replies reveal the state of a group, which NoteAll says.
func (sh *Shares) Tell(g *Group, turn uint64) { sh.join(Share{g, turn}) }

// NoteAll notes that the bytes from one position up to another reveal the states of all groups that were told of.
func (sh *Shares) NoteAll(from, to int) {
	if len(sh.Tells) > 0 {
		sh.note(ofAll, from, to)
	}
}

// note adds a span.
func (sh *Shares) note(of, from, to int) {
	last := &span{0, ofNone}
	if n := len(sh.spans); n > 0 {
		last = &sh.spans[n-1]
	}
	switch {
	case last.end < from:
		sh.spans = append(sh.spans, span{from, ofNone})
	case last.end == from && last.of == of:
		last.end = to
		return
	}
	sh.spans = append(sh.spans, span{to, of})
}

// join returns the index of a share in Tells.
func (sh *Shares) join(t Share) int {
	number := uint(t.Group.Number) % sharesNumbers
	i := -1
	if sh.has>>number&1 != 0 {
		i = slices.IndexFunc(sh.Tells, func(old Share) bool { return old.Group == t.Group })
	}
	if i < 0 {
		i = len(sh.Tells)
		sh.Tells = append(sh.Tells, t)
	}
	sh.has |= 1 << number
	sh.at[number] = uint8(i)
	if old := &sh.Tells[i]; old.Turn != t.Turn {
		old.Turn = 0
	}
	return i
}

// Add adds the shares of bytes that come behind the first n.
func (sh *Shares) Add(n int, more *Shares) {
	if len(more.spans) > 0 && n > 0 && (len(sh.spans) == 0 || sh.spans[len(sh.spans)-1].end < n) {
		sh.spans = append(sh.spans, span{n, ofNone})
	}
	for _, t := range more.Tells {
		sh.join(t)
	}
	for _, sp := range more.spans {
		of := sp.of
		if of >= 0 {
			of = sh.join(more.Tells[of])
		}
		sh.spans = append(sh.spans, span{n + sp.end, of})
	}
}

// Reset forgets all.
func (sh *Shares) Reset() {
	if sh == nil {
		return
	}
	sh.Tells, sh.spans, sh.has = sh.Tells[:0], sh.spans[:0], 0
}

// swap exchanges what two have. It leaves at, which may be wrong.
func (sh *Shares) swap(with *Shares) {
	sh.Tells, with.Tells = with.Tells, sh.Tells
	sh.spans, with.spans = with.spans, sh.spans
	sh.has, with.has = with.has, sh.has
}

// Cut forgets what bytes from a position on have revealed.
func (sh *Shares) Cut(from int) {
	if sh == nil {
		return
	}
	n := len(sh.spans)
	for n > 1 && sh.spans[n-2].end >= from || n == 1 && from == 0 {
		n--
	}
	if sh.spans = sh.spans[:n]; n > 0 {
		sh.spans[n-1].end = min(sh.spans[n-1].end, from)
	}
}

// Quiet takes the bytes that come first and reveal nothing out, and returns how many they are.
func (sh *Shares) Quiet() (n int) {
	if sh == nil || len(sh.spans) == 0 || sh.spans[0].of != ofNone {
		return 0
	}
	n = sh.spans[0].end
	sh.spans = append(sh.spans[:0], sh.spans[1:]...)
	for i := range sh.spans {
		sh.spans[i].end -= n
	}
	return n
}

// Awaited waits for several groups until what replies reveal is durable. One wait is under way at a time.
type Awaited struct {
	left        atomic.Int32
	loses       atomic.Bool
	over        func(err error)
	ends        []func(err error)
	lost        []atomic.Bool // if loses is set, by the index in under.Tells
	under, next Shares        // of the replies that wait, and of those behind them
}

// NewAwaited returns an Awaited that calls over at the end of each wait. over must not block.
func NewAwaited(over func(err error)) *Awaited { return &Awaited{over: over} }

// Await begins to wait for all that replies reveal, nil for nothing. It returns false if there is nothing to wait for. If kick is set, it begins
// the syncs.
func (a *Awaited) Await(sh *Shares, kick bool) (waits bool) {
	if sh == nil || len(sh.Tells) == 0 {
		return false
	}
	a.under.swap(sh) // it is empty
	if a.wait(kick) {
		return true
	}
	a.under.Reset()
	return false
}

// wait begins to wait for what is under way.
func (a *Awaited) wait(kick bool) (waits bool) {
	n := len(a.under.Tells)
	if len(a.lost) < n {
		a.lost = make([]atomic.Bool, n)
	}
	if a.loses.Load() {
		a.loses.Store(false)
		for i := range a.lost {
			a.lost[i].Store(false)
		}
	}
	a.left.Store(int32(n) + 1)
	for i := range n {
		if i == len(a.ends) {
			a.ends = append(a.ends, func(err error) { a.end(i, err) })
		}
		t := &a.under.Tells[i]
		if k := &t.Group.Keeper; k.Source == nil || !k.Wait(t.Turn, a.ends[i]) {
			a.left.Add(-1)
			continue
		} else if kick {
			k.Kick()
		}
		waits = true
	}
	if a.left.Add(-1) == 0 && waits {
		a.over(nil)
	}
	return waits
}

// end notes that the wait for one group is over.
func (a *Awaited) end(i int, err error) {
	if err != nil {
		a.lost[i].Store(true)
		a.loses.Store(true)
	}
	if a.left.Add(-1) == 0 {
		a.over(nil)
	}
}

// Later notes what replies reveal that come behind those which wait, and the first n bytes behind these.
func (a *Awaited) Later(n int, sh *Shares) {
	if sh != nil {
		a.next.Add(n, sh)
	}
}

// Again begins to wait for the replies of Later. It returns false if there is nothing to wait for.
func (a *Awaited) Again(kick bool) bool {
	a.under.swap(&a.next)
	a.next.Reset()
	if a.wait(kick) {
		return true
	}
	a.under.Reset()
	return false
}

// Each calls known or unknown for the parts of b, replies that have waited: unknown where they reveal what is lost. Neighbours that are known are one
// part: the caller may write each to a socket.
func (a *Awaited) Each(b []byte, known, unknown func(part []byte)) {
	from, at := 0, 0
	spans := a.under.spans
	if !a.loses.Load() { // nearly always
		spans = nil
	}
	for _, sp := range spans {
		if a.isLost(sp.of) {
			if from < at {
				known(b[from:at])
			}
			unknown(b[at:sp.end])
			from = sp.end
		}
		at = sp.end
	}
	if from < len(b) {
		known(b[from:])
	}
	a.under.Reset()
}

// Return gives the room of the shares that Await has taken back to sh, between two waits, if sh is empty. So the next batch finds it in the caches.
func (a *Awaited) Return(sh *Shares) {
	if sh != nil && len(sh.Tells) == 0 && len(sh.spans) == 0 {
		sh.swap(&a.under)
	}
}

// isLost reports whether the state that a span reveals is lost.
func (a *Awaited) isLost(of int) bool {
	if of >= 0 {
		return a.lost[of].Load()
	}
	for i := range a.under.Tells {
		if of == ofAll && a.lost[i].Load() {
			return true
		}
	}
	return false
}

// Of slots: there are no keys, or keys of several slots.
const (
	NoSlot    = -1
	ManySlots = -2
)

// WithKey returns the slot of keys that have one, and of another key.
func WithKey(slot int, key []byte) int {
	switch of := resp.Slot(key); slot {
	case NoSlot, of:
		return of
	}
	return ManySlots
}

// OneSlot reports whether keys have one slot.
func OneSlot(keys [][]byte) bool {
	slot := NoSlot
	for _, key := range keys {
		slot = WithKey(slot, key)
	}
	return slot != ManySlots
}
