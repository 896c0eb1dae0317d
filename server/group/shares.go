package group

import (
	"sync/atomic"

	"limitdb/resp"
)

// Shares says which replies of a batch reveal the state of which group, if there are several.
type Shares struct {
	Tells []Share
	spans []span
}

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
	if n := len(sh.spans); n > 0 {
		from = max(from, sh.spans[n-1].end)
	}
	if to <= from {
		return
	}
	sh.note(sh.join(Share{g, turn}), from, to)
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
	if n := len(sh.spans); n > 0 && sh.spans[n-1].end == from && sh.spans[n-1].of == of {
		sh.spans[n-1].end = to
		return
	}
	if n := len(sh.spans); from > 0 && (n == 0 || sh.spans[n-1].end < from) {
		sh.spans = append(sh.spans, span{from, ofNone})
	}
	sh.spans = append(sh.spans, span{to, of})
}

// join returns the index of a share in Tells.
func (sh *Shares) join(t Share) int {
	for i := range sh.Tells {
		if old := &sh.Tells[i]; old.Group == t.Group {
			if old.Turn != t.Turn {
				old.Turn = 0
			}
			return i
		}
	}
	sh.Tells = append(sh.Tells, t)
	return len(sh.Tells) - 1
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
	clear(sh.Tells)
	sh.Tells, sh.spans = sh.Tells[:0], sh.spans[:0]
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
	under, next Shares // of the replies that wait, and of those behind them
	left        atomic.Int32
	lost        []atomic.Bool // by the index in under.Tells
	ends        []func(err error)
	over        func(err error)
}

// NewAwaited returns an Awaited that calls over at the end of each wait. over must not block.
func NewAwaited(over func(err error)) *Awaited { return &Awaited{over: over} }

// Await begins to wait for all that replies reveal, nil for nothing. It returns false if there is nothing to wait for. If kick is set, it begins
// the syncs.
func (a *Awaited) Await(sh *Shares, kick bool) (waits bool) {
	if sh == nil || len(sh.Tells) == 0 {
		return false
	}
	a.under, *sh = *sh, a.under // under is empty
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
	a.left.Store(int32(n) + 1)
	for i := range n {
		if i == len(a.ends) {
			a.ends = append(a.ends, func(err error) { a.end(i, err) })
		}
		a.lost[i].Store(false)
		t := &a.under.Tells[i]
		if k := &t.Group.Keeper; !k.Withholds() || !k.Wait(t.Turn, a.ends[i]) {
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
	a.under, a.next = a.next, a.under
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
	if !a.isLost(ofAll) { // nearly always
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
