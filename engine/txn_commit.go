package engine

import "limitdb/engine/table"

// commit stores the written states, and counts the decisions. The index is that
// of the item at fault.
func (t *Txn) commit() (at int, err error) {
	t.dropExpired()
	t.changes = t.changes[:0]
	for _, i := range t.order {
		if it := &t.items[i]; it.written {
			t.changes = append(t.changes, &it.Change)
		}
	}
	moved, at, err := table.MakeRoom(t.now, t.changes)
	if err != nil {
		return t.index(t.changes[at]), err
	}
	// Keys that go are the last, because the segments in which room was made may
	// then shrink.
	for _, going := range [2]bool{false, true} {
		for i := range t.items {
			it := &t.items[i]
			if !it.written || it.State == nil != going {
				continue
			}
			if err := t.store(it, moved || going); err != nil {
				return i, err
			}
		}
	}
	for i := range t.items {
		t.items[i].count(t.now)
	}
	return -1, nil
}

// index returns the index of the item of a change.
func (t *Txn) index(c *table.Change) int {
	for i := range t.items {
		if &t.items[i].Change == c {
			return i
		}
	}
	return -1
}

// dropExpired drops the records of keys that have expired.
func (t *Txn) dropExpired() {
	dropped := false
	for i := range t.items {
		if it := &t.items[i]; it.expired {
			it.Table.Live(t.now, &it.Spot)
			it.expired, dropped = false, true
		}
	}
	for i := 0; dropped && i < len(t.items); i++ {
		t.items[i].Table.Find(&t.items[i].Spot)
	}
}

// store stores what was written to one item. moved is set if the table may have
// changed since the item was looked at.
func (t *Txn) store(it *item, moved bool) (err error) {
	s := it.s
	if moved {
		it.Table.Find(&it.Spot)
	}
	s.payFirst(it.Key)
	state, under := it.State, it.limit
	if it.Grow {
		if state, err = it.take(t.now, it.Table.State(&it.Spot)); err != nil || state == nil {
			return err
		}
	}
	if it.denied > 0 || it.other {
		under = nil
	}
	if it.changed {
		err = s.storeChange(t.now, it, state)
	} else {
		err = s.store(t.now, &it.Spot, it.mark, state, true)
	}
	if err != nil {
		return err
	}
	if line := s.waits.lines[string(it.Key)]; line != nil && it.State == nil {
		s.keepTurns(t.now, line)
	}
	s.stirOne(it.Key, under)
	return nil
}
