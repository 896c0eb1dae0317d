package engine

import "limitdb/engine/table"

// commit stores the written states, and counts the decisions. After an error, the
// index is that of the item at fault.
func (t *Txn) commit() (at int, err error) {
	if len(t.items) == 1 && !t.items[0].Grow {
		return 0, t.commitOne(&t.items[0])
	}
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
	// Keys are removed last, because that may shrink the segments in which room was
	// made.
	for _, going := range [2]bool{false, true} {
		for i := range t.items {
			it := &t.items[i]
			if !it.written || it.State == nil != going {
				continue
			}
			if moved || going { // the table may have changed since the key was looked at
				it.Table.Find(&it.Spot)
			}
			if err := t.store(it, true); err != nil {
				return i, err
			}
		}
	}
	for i := range t.items {
		t.items[i].conclude(t.now)
	}
	t.tell()
	return -1, nil
}

// commitOne is commit for a transaction with one key. It needs no room before it
// stores: if the table has none for the new state, nothing has changed.
func (t *Txn) commitOne(it *item) error {
	if it.expired {
		it.Table.Live(t.now, &it.Spot)
		it.expired = false
	}
	if it.written {
		if err := t.store(it, it.Must); err != nil {
			return err
		}
	}
	it.conclude(t.now)
	t.tell()
	return nil
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

// store stores what was written to one item. It ignores the budget if must is set.
func (t *Txn) store(it *item, must bool) (err error) {
	s := it.s
	s.payFirst(it.Key)
	state, under := it.State, it.limit
	if it.Grow && it.changed {
		state = it.spliced(it.Table.State(&it.Spot))
	} else if it.Grow {
		was := it.Table.State(&it.Spot)
		if s.changes != nil {
			s.changes.was.Note(it.kind, was)
		}
		if state, err = it.take(t.now, was); err != nil || state == nil {
			return err
		}
	}
	if it.denied > 0 || it.other {
		under = nil
	}
	if it.changed {
		err = s.storeChange(t.now, it, state, must)
	} else {
		err = s.store(t.now, &it.Spot, it.mark, state, must)
	}
	if err != nil {
		return err
	}
	if it.State == nil {
		if line := s.waits.lines[string(it.Key)]; line != nil {
			s.keepTurns(t.now, line)
		}
	}
	s.stirOne(it.Key, under)
	return nil
}
