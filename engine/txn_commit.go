package engine

import "limitdb/limit"

// commit stores what was written, and counts the decisions. The index is that
// of the item at fault.
func (t *Txn) commit() (at int, err error) {
	t.dropExpired()
	tight := false // something needs room
	for i := range t.items {
		it := &t.items[i]
		it.needs, it.box = 0, nil
		if !it.written || it.late {
			tight = tight || it.written
			continue
		}
		if it.gone = it.kind == 0; it.gone {
			continue
		}
		if it.at == nil && len(it.key) > MaxKey {
			return i, ErrKey
		}
		if it.needs = it.s.table.needs(&it.spot, it.state); it.needs > 0 || len(it.state) > maxInline {
			tight = true
		}
	}
	if tight {
		if at, err = t.makeRoom(); err != nil {
			return at, err
		}
	}
	for i := range t.items {
		if it := &t.items[i]; it.written && (it.late || !it.gone) {
			if err := t.store(it, tight); err != nil {
				return i, err
			}
		}
	}
	// Keys go last, because the segments in which room was made may then shrink.
	for i := range t.items {
		if it := &t.items[i]; it.written && !it.late && it.gone {
			if err := t.store(it, true); err != nil {
				return i, err
			}
		}
	}
	for i := range t.items {
		t.items[i].count(t.now)
	}
	return -1, nil
}

// dropExpired drops the records of keys that have expired.
func (t *Txn) dropExpired() {
	dropped := false
	for i := range t.items {
		if it := &t.items[i]; it.expired {
			it.s.live(t.now, &it.spot)
			it.expired, dropped = false, true
		}
	}
	for i := 0; dropped && i < len(t.items); i++ {
		t.items[i].s.table.find(&t.items[i].spot)
	}
}

// makeRoom makes room so that all items can be stored one after the other.
func (t *Txn) makeRoom() (at int, err error) {
	for i := range t.items {
		if it := &t.items[i]; it.written && it.at != nil {
			it.r.pin(true)
		}
	}
	if at, err = t.makeBoxes(); err == nil {
		at, err = t.makeRecords()
	}
	if err == nil {
		return -1, nil
	}
	for i := range t.items {
		it := &t.items[i]
		it.s.table.arena.free(it.box)
		if it.written {
			if it.s.table.find(&it.spot); it.at != nil {
				it.r.pin(false)
			}
		}
	}
	return at, err
}

// makeBoxes makes boxes for the long states.
func (t *Txn) makeBoxes() (at int, err error) {
	for i := range t.items {
		it := &t.items[i]
		table := &it.s.table
		switch n := len(it.state); {
		case !it.written:
		case it.late:
			err = table.widen(boxOf(it.r))
		case !it.gone && (n > maxInline || n > minBoxed && it.at != nil && it.r.isBoxed()):
			it.box, err = table.newBox(it.state, it.must)
		}
		if err != nil {
			return i, err
		}
	}
	return -1, nil
}

// makeRecords makes room for the records that do not stay in place, for all of
// a segment at once.
func (t *Txn) makeRecords() (at int, err error) {
	for rest := t.order; len(rest) > 0; {
		first := &t.items[rest[0]]
		table := &first.s.table
		of := func(g *segment) int { // how many of rest are in g
			n := 0
			for n < len(rest) && t.items[rest[n]].s == first.s && table.lookup(t.items[rest[n]].h) == g {
				n++
			}
			return n
		}
		n := of(table.lookup(first.h))
		keys, size, must := 0, 0, true
		for _, i := range rest[:n] {
			if it := &t.items[i]; it.needs > 0 {
				keys, size, must = keys+1, size+it.needs, must && it.must
			}
		}
		if keys > 0 {
			g, err := table.makeRoom(t.now, first.h, keys, size, must)
			if err != nil {
				return int(rest[0]), err
			}
			n = of(g) // g may be half of what was there
		}
		rest = rest[n:]
	}
	return -1, nil
}

// store stores what was written to one item. moved is set if the table may have
// changed since the item was looked at.
func (t *Txn) store(it *item, moved bool) (err error) {
	s := it.s
	if moved {
		s.table.find(&it.spot)
	}
	s.table.payFirst(it.key)
	state, under := it.state, it.limit
	switch {
	case it.late:
		it.r.pin(false)
		if state, err = it.take(t.now, s.table.state(it.r)); err != nil || state == nil {
			return err
		}
	case it.box != nil:
		state, s.table.ready = it.box, it.box
	}
	if it.denied > 0 {
		under = nil
	}
	if err := s.store(t.now, &it.spot, it.mark, state, true); err != nil {
		return err
	}
	if line := s.waits.lines[string(it.key)]; line != nil && it.gone && !it.late {
		s.keepTurns(t.now, line)
	}
	s.stirOne(it.key, under)
	return nil
}

// count counts the decisions on a key.
func (it *item) count(now int64) {
	for range it.allowed {
		if it.s.count(&limit.Decision{}) {
			it.s.follow(now, it.h, it.key)
		}
	}
	for range it.denied {
		it.s.countDenied(now, &it.spot)
	}
	it.s.peeked += uint64(it.peeked)
}
