package table

import (
	"encoding/binary"
	"unsafe"
)

// box stores a state outside the records and returns the box number to store in
// its place. Errors are those of rebox.
func (t *Table) box(state []byte, must bool) ([]byte, error) {
	if t.boxes == nil {
		t.boxes = map[uint32][]byte{}
	}
	for taken := true; taken; {
		t.lastBox++
		_, taken = t.boxes[t.lastBox]
	}
	if err := t.rebox(t.lastBox, state, must); err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint32(nil, t.lastBox), nil
}

// rebox changes the state that a box holds. It moves nothing if the state was
// written there in place. Errors: ErrNoRoom for a box that grows (never if must
// is set), and those of the system. After an error nothing has changed.
func (t *Table) rebox(id uint32, state []byte, must bool) error {
	box := t.boxes[id]
	if t.ready != nil {
		t.arena.free(box)
		t.boxes[id], t.ready = *t.ready, nil
		return nil
	}
	if n := len(state); cap(box) < n || cap(box) > 2*n {
		if more := t.arena.boxSize(n) - cap(box); !must && more > 0 && t.arena.budget.over(more) {
			return ErrNoRoom
		}
		next, err := t.arena.resize(box, state, 0)
		if err == nil {
			t.boxes[id] = next
		}
		return err
	}
	if unsafe.SliceData(box) == unsafe.SliceData(state) {
		box = box[:len(state)]
	} else {
		box = append(box[:0], state...)
	}
	t.boxes[id] = box
	return nil
}

// NeedsBox reports whether Put moves a state to a box, or from one box to
// another.
func (t *Table) NeedsBox(sp *Spot, state []byte) bool {
	return len(state) > maxInline || len(state) > minBoxed && sp.at != nil && sp.r.isBoxed()
}

// NewBox returns a new box that holds a copy of state. It is not in use until TakeBox. Errors: ErrNoRoom, never if must is set, and those of the system.
func (t *Table) NewBox(state []byte, must bool) ([]byte, error) {
	if !must && t.arena.budget.over(t.arena.boxSize(len(state))) {
		return nil, ErrNoRoom
	}
	box, err := t.arena.allot(len(state))
	if err != nil {
		return nil, err
	}
	return append(box, state...), nil
}

// FreeBox frees a box that is not in use.
func (t *Table) FreeBox(box []byte) { t.arena.free(box) }

// TakeBox makes the next Put, of the state in a box from NewBox, take over the
// box.
func (t *Table) TakeBox(box *[]byte) { t.ready = box }

// Widen makes room in the box of a key for the growth of its state in one step.
// Errors: ErrNoRoom, and those of the system.
func (t *Table) Widen(sp *Spot) error {
	id := boxOf(sp.r)
	box := t.boxes[id]
	if cap(box)-len(box) >= lateGrowth {
		return nil
	}
	if t.arena.budget.over(t.arena.page) {
		return ErrNoRoom
	}
	next, err := t.arena.resize(box, box, lateGrowth)
	if err == nil {
		t.boxes[id] = next
	}
	return err
}

// lateGrowth is larger than the growth of a long state in one step.
const lateGrowth = 256

func (t *Table) unbox(id uint32) {
	t.arena.free(t.boxes[id])
	delete(t.boxes, id)
}

func boxOf(r record) uint32 { return binary.LittleEndian.Uint32(r.state()) }
