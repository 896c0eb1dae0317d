package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// commit stores what was written, and counts the decisions. The index is that
// of the item at fault.
func (t *Txn) commit() (at int, err error) {
	t.dropExpired()
	tight := false // something needs room
	for i := range t.items {
		it := &t.items[i]
		it.needs, it.box, it.gone = 0, nil, false
		switch {
		case !it.written:
		case it.late:
			tight = true
		case it.kind == 0:
			it.gone = true
		case len(it.Key) > MaxKey && !it.Found():
			return i, ErrKey
		default:
			it.needs = it.s.table.Needs(&it.Spot, it.state)
			tight = tight || it.needs > 0 || it.s.table.NeedsBox(&it.Spot, it.state)
		}
	}
	if tight {
		if at, err = t.makeRoom(); err != nil {
			return at, err
		}
	}
	for i := range t.items {
		if it := &t.items[i]; it.written && !it.gone {
			if err := t.store(it, tight); err != nil {
				return i, err
			}
		}
	}
	// Keys go last, because the segments in which room was made may then shrink.
	for i := range t.items {
		if it := &t.items[i]; it.gone {
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
			it.s.table.Live(t.now, &it.Spot)
			it.expired, dropped = false, true
		}
	}
	for i := 0; dropped && i < len(t.items); i++ {
		t.items[i].s.table.Find(&t.items[i].Spot)
	}
}

// makeRoom makes room so that all items can be stored one after the other.
func (t *Txn) makeRoom() (at int, err error) {
	for i := range t.items {
		if it := &t.items[i]; it.written && it.Found() {
			it.Pin(true)
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
		it.s.table.FreeBox(it.box)
		if it.written {
			if it.s.table.Find(&it.Spot); it.Found() {
				it.Pin(false)
			}
		}
	}
	return at, err
}

// makeBoxes makes boxes for the long states.
func (t *Txn) makeBoxes() (at int, err error) {
	for i := range t.items {
		it := &t.items[i]
		switch {
		case it.late:
			err = it.s.table.Widen(&it.Spot)
		case it.written && !it.gone && it.s.table.NeedsBox(&it.Spot, it.state):
			it.box, err = it.s.table.NewBox(it.state, it.must)
		}
		if err != nil {
			return i, err
		}
	}
	return -1, nil
}

// makeRecords makes room for the records that do not stay in place, for all of
// a shard at once.
func (t *Txn) makeRecords() (at int, err error) {
	t.needs = t.needs[:0]
	for _, i := range t.order {
		it := &t.items[i]
		t.needs = append(t.needs, table.Need{Hash: it.Hash, Bytes: it.needs, Must: it.must})
	}
	for from := 0; from < len(t.order); {
		s, to := t.items[t.order[from]].s, from
		for to < len(t.order) && t.items[t.order[to]].s == s {
			to++
		}
		if at, err := s.table.MakeRoom(t.now, t.needs[from:to]); err != nil {
			return int(t.order[from+at]), err
		}
		from = to
	}
	return -1, nil
}

// store stores what was written to one item. moved is set if the table may have
// changed since the item was looked at.
func (t *Txn) store(it *item, moved bool) (err error) {
	s := it.s
	if moved {
		s.table.Find(&it.Spot)
	}
	s.payFirst(it.Key)
	state, under := it.state, it.limit
	switch {
	case it.late:
		it.Pin(false)
		if state, err = it.take(t.now, s.table.State(&it.Spot)); err != nil || state == nil {
			return err
		}
	case it.box != nil:
		state = it.box
		s.table.TakeBox(&it.box)
	}
	if it.denied > 0 || it.other {
		under = nil
	}
	if err := s.store(t.now, &it.Spot, it.mark, state, true); err != nil {
		return err
	}
	if line := s.waits.lines[string(it.Key)]; line != nil && it.gone {
		s.keepTurns(t.now, line)
	}
	s.stirOne(it.Key, under)
	return nil
}

// count counts the decisions on a key.
func (it *item) count(now int64) {
	for range it.allowed {
		if it.s.count(&limit.Decision{}) {
			it.s.follow(now, it.Hash, it.Key)
		}
	}
	for range it.denied {
		it.s.countDenied(now, &it.Spot)
	}
	it.s.peeked += uint64(it.peeked)
	it.s.refunded += uint64(it.refunded)
}
