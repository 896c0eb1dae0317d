package table

import (
	"encoding/binary"
	"unsafe"
)

// addBox stores a state outside the records and returns the box number to store
// in its place. Errors are those of rebox.
func (t *Table) addBox(sp *Spot, state []byte, must bool) ([]byte, error) {
	if t.boxes == nil {
		t.boxes = map[uint32][]byte{}
	}
	for taken := true; taken; {
		t.lastBox++
		_, taken = t.boxes[t.lastBox]
	}
	if err := t.rebox(t.lastBox, sp, state, must); err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint32(nil, t.lastBox), nil
}

// rebox changes the state that a box holds. It moves nothing if the state was
// written there in place. If MakeRoom has made a box that holds the state, rebox
// takes that one. Errors: ErrNoRoom for a box that grows (never if must is set),
// and those of the system. After an error nothing has changed.
func (t *Table) rebox(id uint32, sp *Spot, state []byte, must bool) error {
	box := t.boxes[id]
	if sp.box != nil {
		t.arena.free(box)
		t.boxes[id], sp.box = *sp.box, nil
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

func (t *Table) unbox(id uint32) {
	t.arena.free(t.boxes[id])
	delete(t.boxes, id)
}

func boxOf(r record) uint32 { return binary.LittleEndian.Uint32(r.state()) }
