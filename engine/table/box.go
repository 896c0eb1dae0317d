package table

import (
	"encoding/binary"
	"unsafe"
)

// boxes are the states of a table that are too large for their records. Their
// capacities are whole pages.
type boxes struct {
	arena  *Arena
	states map[uint32][]byte
	last   uint32
}

// addBox stores a state outside the records and returns the box number to store
// in its place. Errors are those of rebox.
func (b *boxes) addBox(sp *Spot, state []byte, must bool) ([]byte, error) {
	if b.states == nil {
		b.states = map[uint32][]byte{}
	}
	for taken := true; taken; {
		b.last++
		_, taken = b.states[b.last]
	}
	if err := b.rebox(b.last, sp, state, must); err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint32(nil, b.last), nil
}

// rebox changes the state that a box holds. It moves nothing if the state was
// written there in place. If MakeRoom has made a box that holds the state, rebox
// takes that one. Errors: ErrNoRoom for a box that grows (never if must is set),
// and those of the system. After an error nothing has changed.
func (b *boxes) rebox(id uint32, sp *Spot, state []byte, must bool) error {
	box := b.states[id]
	if sp.box != nil {
		b.arena.free(box)
		b.states[id], sp.box = *sp.box, nil
		return nil
	}
	if n := len(state); cap(box) < n || cap(box) > 2*n {
		if more := b.arena.boxSize(n) - cap(box); !must && more > 0 && b.arena.budget.over(more) {
			return ErrNoRoom
		}
		next, err := b.arena.resize(box, state, 0)
		if err == nil {
			b.states[id] = next
		}
		return err
	}
	if unsafe.SliceData(box) == unsafe.SliceData(state) {
		if len(box) == len(state) {
			return nil
		}
		box = box[:len(state)]
	} else {
		box = append(box[:0], state...)
	}
	b.states[id] = box
	return nil
}

func (b *boxes) unbox(id uint32) {
	b.arena.free(b.states[id])
	delete(b.states, id)
}

func boxOf(r record) uint32 { return binary.LittleEndian.Uint32(r.state()) }

// state returns the record's state, from the record or from its box.
func (b *boxes) state(r record) []byte {
	if r.isBoxed() {
		return b.boxed(r)
	}
	return r.state()
}

// boxed is state for a record whose state is in a box.
func (b *boxes) boxed(r record) []byte { return b.states[boxOf(r)] }

// expires returns when the state of a record expires: see Expires.
func (b *boxes) expires(r record) int64 {
	if r.isBoxed() {
		return Expires(r.kind(), b.boxed(r))
	}
	return Expires(r.kind(), unsafe.Slice(r.stateAt(), r.slen))
}

// widen makes room in a box for the growth of its state by more bytes. Errors:
// ErrNoRoom (never if must is set), and those of the system.
func (b *boxes) widen(id uint32, more int, must bool) error {
	box := b.states[id]
	if cap(box)-len(box) >= more {
		return nil
	}
	if !must && b.arena.budget.over(max(b.arena.page, more)) {
		return ErrNoRoom
	}
	next, err := b.arena.resize(box, box, more)
	if err == nil {
		b.states[id] = next
	}
	return err
}

// gain returns how many bytes are free when a record has gone.
func (b *boxes) gain(r record) int {
	if r.isBoxed() {
		return r.size() + cap(b.boxed(r))
	}
	return r.size()
}
