package table

import (
	"math"
	"unsafe"

	"limitdb/limit"
)

// A key may have a state beside its own, of kind HOLDS. A short one is in the key's record, behind the key's state, if that is
// short as well: then the key is there once, one look finds both, and both change in one place.
//
//	 0           1       2                    4              5 (…)          6 (…)
//	┌───────────┬───────┬────────────────────┬──────────────┬──────────────┬─────┬───────┬────────┬───────┐
//	│ algorithm │ bound │ key length, joined │ state length │ length of    │ key │ state │ beside │ slack │
//	│           │       │                    │              │ beside       │     │       │        │       │
//	└───────────┴───────┴────────────────────┴──────────────┴──────────────┴─────┴───────┴────────┴───────┘
//
// The key's length has two bytes in such a joint record, and the top bit of the second is set. If the key goes, what is beside it
// stays: then the kind is HOLDS, and the bytes of the state mean nothing.
//
// Otherwise it has a record of its own, with the same bytes as its key and the hash of Beside. So it is on the same line of the
// same segment, and a look for one of the two never compares the bytes of the other: their tags differ. Either form can be read at
// any time; putBeside makes it joint if it can be.

const (
	// maxBeside and maxJointState are the largest lengths of the two states of a joint record, in bytes. So what is beside a key
	// is never so much shorter than the record's slack that a dead record would not fit in its place.
	maxBeside     = 1 << 10
	maxJointState = exactRoom
)

// jointBeside is the offset of the length of what is beside the state in a joint record. That of the state has one byte.
const jointBeside = markSize + 3

// isJoint reports whether the record at p is joint.
func isJoint(p unsafe.Pointer) bool {
	return *(*byte)(unsafe.Add(p, markSize))&*(*byte)(unsafe.Add(p, markSize+1)) >= 0x80 // no other key's length has both bits
}

// jointKey returns the length of the key of a joint record.
func jointKey(p unsafe.Pointer) int {
	return int(*(*byte)(unsafe.Add(p, markSize))&0x7f) | int(*(*byte)(unsafe.Add(p, markSize+1))&0x7f)<<7
}

// Beside returns the hash of the record beside that with hash h.
func Beside(h uint64) uint64 { return h ^ 1 }

// Besides returns how many states are beside keys'.
func (t *Table) Besides() int { return t.beside + t.joint }

// hasBeside reports whether there is a state beside that of a key.
func (t *Table) hasBeside(r record) bool {
	if t.beside == 0 || r.blen() > 0 {
		return r.blen() > 0
	}
	h := Beside(t.hash(r))
	return t.lookup(h).find(h, r.key()) != nil
}

// beside returns what is beside the state in a joint record.
func (r record) beside() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(r.at, r.head()+r.klen+r.slen)), r.blen())
}

// joins reports whether the record of a key can be joint.
func (r record) joins() bool { return !r.isBoxed() && r.slen <= maxJointState }

// sizeOfJoint is sizeOf for a joint record.
func sizeOfJoint(klen, slen, blen int) int {
	return markSize + 2 + lengthLen(slen) + lengthLen(blen) + klen + room(slen+blen)
}

// has reports whether bytes lie in the record.
func (r record) has(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))-uintptr(r.at) < uintptr(r.size())
}

// writeJoint writes a joint record at p, which has sizeOfJoint of the lengths.
func writeJoint(p unsafe.Pointer, m Mark, key, state, beside []byte) record {
	*(*Mark)(p) = m &^ pinned
	*(*byte)(unsafe.Add(p, markSize)) = byte(len(key)) | 0x80
	*(*byte)(unsafe.Add(p, markSize+1)) = byte(len(key)>>7) | 0x80
	n := markSize + 2
	n += putLength(unsafe.Add(p, n), len(state))
	n += putLength(unsafe.Add(p, n), len(beside))
	r := record{p, n | len(beside)<<besideShift, len(key), len(state)}
	copy(r.key(), key)
	copy(unsafe.Slice(r.stateAt(), len(state)), state)
	copy(r.beside(), beside)
	return r
}

// findJoint completes the spot of what is beside a key, if that is in the key's record.
func findJoint(t *Table, sp *Spot) {
	if t.joint == 0 {
		return
	}
	if at := sp.g.find(Beside(sp.Hash), sp.Key); at != nil {
		if r := sp.g.record(at); r.blen() > 0 {
			sp.slot, sp.r = at, r
		}
	}
}

// FindBoth is Find for a key and for what is beside it, whose spots have their keys and hashes.
func (t *Table) FindBoth(key, beside *Spot) {
	t.Find(key)
	switch beside.g = key.g; {
	case key.slot != nil && key.r.blen() > 0:
		beside.slot, beside.r = key.slot, key.r
	case t.beside == 0:
		beside.slot = nil
	default:
		t.Find(beside)
	}
}

// Join reports whether one record can hold both the state of a key, of slen bytes, and that of what is beside it, of blen bytes. It can if both
// are short and what is beside the key has no record of its own.
func Join(key, beside *Spot, slen, blen int) bool {
	return slen <= maxJointState && blen <= maxBeside && blen > 0 && (key.slot == nil || key.r.joins()) && (beside.slot == nil || beside.slot == key.slot)
}

// PutBoth is Put for a key and for what is beside it, if Join reports that one record can have both: it stores both, or neither.
// They expire later than now, and are not in the table.
func (t *Table) PutBoth(now int64, key *Spot, m Mark, state, beside []byte, must bool) error {
	switch {
	case key.slot == nil:
		return insertJoint(t, now, key, m, state, beside, must)
	case key.r.slen != len(state) || key.r.blen() != len(beside):
		return compose(t, now, key, m, state, beside, must)
	}
	key.r.setMark(m)
	copy(unsafe.Slice(key.r.stateAt(), len(state)), state)
	copy(key.r.beside(), beside)
	t.expects(key.g, min(Expires(m.Kind(), state), Expires(limit.HOLDS, beside)))
	return nil
}

// due returns when the first state of a record expires.
func (b *boxes) due(r record) int64 {
	if r.blen() == 0 {
		return b.expires(r)
	}
	beside := Expires(limit.HOLDS, r.beside())
	if r.kind() == limit.HOLDS {
		return beside
	}
	return min(beside, Expires(r.kind(), r.state()))
}

// putBeside is Put for what is beside a key.
func putBeside(t *Table, now int64, sp *Spot, m Mark, state []byte, must bool) error {
	inKey := sp.slot != nil && sp.r.blen() > 0 && sp.r.kind() != limit.HOLDS
	if inKey && sp.r.blen() == len(state) {
		copy(sp.r.beside(), state)
		t.expects(sp.g, Expires(limit.HOLDS, state))
		return nil
	}
	key := Spot{Hash: Beside(sp.Hash), Key: sp.Key, g: sp.g}
	if inKey {
		key.slot, key.r = sp.slot, sp.r
	} else if len(state) <= maxBeside {
		t.Find(&key)
	}
	switch {
	case key.slot != nil && key.r.joins() && len(state) > 0 && len(state) <= maxBeside:
		return join(t, now, sp, &key, state, must)
	case inKey:
		return part(t, now, &key, m, state, must)
	case sp.slot == nil || sp.r.blen() == 0:
		sp.Beside = false // it is a record as any other
		err := t.Put(now, sp, m, state, must)
		sp.Beside = true
		return err
	case sp.r.blen() == len(state):
		copy(sp.r.beside(), state)
		t.expects(sp.g, Expires(limit.HOLDS, state))
		return nil
	}
	return t.replace(now, sp, m, state, must)
}

// join gives a key a joint record with a state beside its own, and drops the record that has had that.
func join(t *Table, now int64, sp, key *Spot, state []byte, must bool) error {
	if err := compose(t, now, key, key.r.mark(), key.r.state(), state, must); err != nil {
		return err
	}
	if t.beside > 0 {
		if at := key.g.find(sp.Hash, sp.Key); at != nil {
			t.drop(&Spot{Hash: sp.Hash, g: key.g, slot: at, r: key.g.record(at)})
		}
	}
	return nil
}

// part gives what is beside a key, in its record, a record of its own with a state. Errors are those of Put.
func part(t *Table, now int64, key *Spot, m Mark, state []byte, must bool) error {
	own := Spot{Hash: Beside(key.Hash), Key: key.Key}
	key.r.pin(true)
	err := t.insert(now, &own, m, state, must)
	t.Find(key)
	if key.r.pin(false); err == nil {
		cut(t, key.g, key.r)
	}
	return err
}

// putJoint is put for a key whose record is joint, and whose state has another length.
func putJoint(t *Table, now int64, sp *Spot, m Mark, state []byte, must bool) error {
	if len(state) <= maxJointState {
		return compose(t, now, sp, m, state, sp.r.beside(), must || len(state) <= sp.r.slen)
	}
	state, beside := append([]byte(nil), state...), append([]byte(nil), sp.r.beside()...)
	if err := part(t, now, sp, Unknown(limit.HOLDS), beside, must); err != nil {
		return err
	}
	t.Find(sp)
	return t.Put(now, sp, m, state, must)
}

// keep returns copies of two states, which may be such copies.
func keep(t *Table, state, beside []byte) (ownState, ownBeside []byte) {
	n := len(state)
	t.parts = append(append(t.parts[:0], state...), beside...)
	return t.parts[:n:n], t.parts[n:]
}

// compose makes the record of a key that is there a joint one, or gives it other states. Errors are those of Put.
func compose(t *Table, now int64, sp *Spot, m Mark, state, beside []byte, must bool) error {
	if sp.r.has(state) || sp.r.has(beside) {
		state, beside = keep(t, state, beside)
	}
	need := sizeOfJoint(len(sp.Key), len(state), len(beside))
	at := sp.r.at
	if !sp.g.stretch(sp.r, need) {
		if !sp.g.fits(0, need) || !must && t.arena.budget.over(0) {
			state, beside = keep(t, state, beside) // they may lie in a segment that goes
			sp.r.pin(true)
			_, err := t.makeRoom(now, sp.Hash, 0, need, must)
			t.Find(sp)
			if sp.r.pin(false); err != nil {
				return err
			}
		}
		at = sp.g.move(sp.slot, need)
	}
	if sp.r.blen() == 0 {
		t.joint++
	}
	sp.r = writeJoint(at, m, sp.Key, state, beside)
	t.expects(sp.g, min(Expires(m.Kind(), state), Expires(limit.HOLDS, beside)))
	return nil
}

// insertJoint is insert for a key and for what is beside it.
func insertJoint(t *Table, now int64, sp *Spot, m Mark, state, beside []byte, must bool) error {
	if len(sp.Key) > MaxKey {
		return ErrKey
	}
	need := sizeOfJoint(len(sp.Key), len(state), len(beside))
	g, err := t.makeRoom(now, sp.Hash, 1, need, must)
	if err != nil {
		return err
	}
	writeJoint(g.at(uint32(g.top)), m, sp.Key, state, beside)
	g.enter(sp.Hash, need)
	t.n++
	t.joint++
	t.expects(g, min(Expires(m.Kind(), state), Expires(limit.HOLDS, beside)))
	return nil
}

// cut removes what is beside the key in a joint record.
func cut(t *Table, g *segment, r record) {
	need := sizeOf(r.klen, r.slen)
	n := markSize + putLength(unsafe.Add(r.at, markSize), r.klen)
	n += putLength(unsafe.Add(r.at, n), r.slen)
	both := r.klen + r.slen
	copy(unsafe.Slice((*byte)(unsafe.Add(r.at, n)), both), unsafe.Slice((*byte)(unsafe.Add(r.at, r.head())), both))
	if !g.stretch(r, need) {
		panic("table: what is beside a key is too short")
	}
	t.joint--
	t.unbar(g)
}

// leave removes the key of a joint record. What is beside it stays.
func leave(t *Table, sp *Spot) {
	sp.r.setMark(Unknown(limit.HOLDS))
	*sp.slot ^= 1 << spanBits // its tag is that of Beside
	t.joint--
	t.beside++
	t.unbar(sp.g)
}

// cullJoint drops what has expired of a joint record, of which some has. It returns when the rest expires, or a time that is not after
// now if all has: then it has dropped nothing.
func cullJoint(t *Table, now int64, g *segment, r record) int64 {
	beside := Expires(limit.HOLDS, r.beside())
	if r.kind() == limit.HOLDS {
		return beside
	}
	state := Expires(r.kind(), r.state())
	switch {
	case beside > now:
		h := t.hash(r)
		leave(t, &Spot{Hash: h, g: g, slot: g.find(h, r.key()), r: r})
		return beside
	case state > now:
		cut(t, g, r)
		return state
	}
	return math.MinInt64
}

// needsJoint is needs for a state of n bytes beside a key, or for one of a key whose record is joint.
func (c *Change) needsJoint(n int) int {
	switch {
	case c.Beside && c.Found() && c.r.blen() == n && n > 0 && c.r.kind() != limit.HOLDS, !c.Beside && c.r.slen == n:
		return 0
	case !c.Beside && n <= maxJointState:
		return sizeOfJoint(len(c.Key), n, c.r.blen())
	case !c.Beside:
		return sizeOf(len(c.Key), inline(c.State)) + sizeOf(len(c.Key), c.r.blen())
	case n <= maxBeside: // whatever the state of the key is by then
		return sizeOfJoint(len(c.Key), maxJointState, n)
	case c.Found() && c.r.isBoxed() && n > minBoxed:
		return 0
	case c.Found() && c.r.blen() == 0 && !c.r.isBoxed() && (c.r.holds(n) || c.r.cuts(n)):
		return 0
	}
	return sizeOf(len(c.Key), inline(c.State))
}
