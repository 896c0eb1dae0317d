package table

// Change is a state that is to be stored together with those of other keys.
type Change struct {
	Spot
	Table *Table
	State []byte // nil if the key is to go
	// Must is set if the state ignores the budget.
	Must bool
	// Grow is set if the key's long state, which is in a box, is to grow by one
	// step. There is no State then.
	Grow bool
	// More is by how many bytes it grows at most, if that can be more than a decision adds.
	More int

	bytes int // that the record takes in its segment; 0 if it stays in place
}

// MakeRoom makes room so that Put can store all changes one after the other. The
// changes are in the order of their tables and hashes. After an error nothing has
// changed; at is then the change at fault. The errors are those of Put. moved
// reports whether anything needed room: each Put may then move the other records, so
// that each key must be found again before its own.
func MakeRoom(now int64, changes []*Change) (moved bool, at int, err error) {
	for i, c := range changes {
		if len(c.Key) > MaxKey && !c.Found() {
			return false, i, ErrKey
		}
		c.bytes = c.needs()
		moved = moved || c.bytes > 0 || c.Grow || c.needsBox()
	}
	if !moved {
		return false, -1, nil
	}
	for _, c := range changes { // none of them may be evicted for another
		if c.Found() {
			c.r.pin(true)
		}
	}
	if at, err = makeBoxes(changes); err == nil {
		at, err = makeRecords(now, changes)
	}
	for _, c := range changes {
		if c.Table.Find(&c.Spot); c.Found() {
			c.r.pin(false)
		}
		if err != nil && c.box != nil {
			c.Table.arena.free(*c.box)
			c.box = nil
		}
	}
	return true, at, err
}

// needs returns the number of bytes that Put takes for a new key. For an existing
// key it returns the most that it takes, or 0 if the record can stay in place.
func (c *Change) needs() int {
	if c.State == nil || c.Grow {
		return 0
	}
	n := len(c.State)
	if c.Beside || c.Found() && c.r.blen() > 0 {
		return c.needsJoint(n)
	}
	if c.Found() {
		if r := c.r; r.isBoxed() && n > minBoxed || !r.isBoxed() && (r.holds(n) || r.cuts(n)) {
			return 0
		}
	}
	return sizeOf(len(c.Key), inline(c.State))
}

// needsBox reports whether Put moves the state to a box, or from one box to
// another.
func (c *Change) needsBox() bool {
	return len(c.State) > maxInline || len(c.State) > minBoxed && c.Found() && c.r.isBoxed()
}

// makeBoxes makes boxes for the long states.
func makeBoxes(changes []*Change) (at int, err error) {
	for i, c := range changes {
		switch {
		case c.Grow:
			err = c.Table.widen(boxOf(c.r), max(lateGrowth, c.More), c.Must)
		case c.needsBox():
			err = c.makeBox()
		}
		if err != nil {
			return i, err
		}
	}
	return -1, nil
}

// makeBox makes a box that holds a copy of the state, and is not in use until Put
// takes it.
func (c *Change) makeBox() error {
	a := c.Table.arena
	if !c.Must && a.budget.over(a.boxSize(len(c.State))) {
		return ErrNoRoom
	}
	box, err := a.allot(len(c.State))
	if err != nil {
		return err
	}
	box = append(box, c.State...)
	c.box = &box
	return nil
}

// lateGrowth is larger than the growth of a long state in one decision.
const lateGrowth = 256

// makeRecords makes room for the records that do not stay in place, for all of a
// segment at once.
func makeRecords(now int64, changes []*Change) (at int, err error) {
	for at < len(changes) {
		rest, t := changes[at:], changes[at].Table
		g := t.lookup(rest[0].Hash)
		keys, size, must := 0, 0, true
		for _, c := range rest[:countIn(g, rest)] {
			if c.bytes > 0 {
				keys, size, must = keys+1, size+c.bytes, must && c.Must
			}
		}
		if keys > 0 {
			if g, err = t.makeRoom(now, rest[0].Hash, keys, size, must); err != nil {
				return at, err
			}
		}
		at += countIn(g, rest) // g may be half of what was there
	}
	return -1, nil
}

// countIn returns how many of the first changes are in g.
func countIn(g *segment, changes []*Change) (n int) {
	for n < len(changes) && changes[n].Table.lookup(changes[n].Hash) == g {
		n++
	}
	return n
}
