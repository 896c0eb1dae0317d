package engine

import (
	"limitdb/engine/table"
	"limitdb/limit"
)

// commit stores the written states, and counts the decisions. After an error, the
// index is that of the item at fault.
func (t *Txn) commit() (at int, err error) {
	if len(t.items) == 1 && !t.items[0].Grow {
		return 0, t.commitOne(&t.items[0])
	}
	dropExpired(t.items, t.now)
	t.changes = t.changes[:0]
	for _, i := range t.order {
		switch it := &t.items[i]; {
		case it.written:
			t.changes = append(t.changes, &it.Change)
		case it.used && it.Found():
			it.Use(it.mark)
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
			if err := it.store(true); err != nil {
				return i, err
			}
		}
	}
	for i := range t.items {
		t.items[i].conclude(t.now)
	}
	t.tell()
	if t.asking != nil {
		t.asking.stored()
	}
	return -1, nil
}

// commitOne is commit for a transaction with one key. It needs no room before it
// stores: if the table has none for the new state, nothing has changed.
func (t *Txn) commitOne(it *item) error {
	if it.expired {
		it.Table.Live(t.now, &it.Spot)
		it.expired = false
	}
	switch {
	case it.written:
		if err := it.store(it.Must); err != nil {
			return err
		}
	case it.used && it.Found():
		it.Use(it.mark)
	}
	it.conclude(t.now)
	t.tell()
	if t.asking != nil {
		t.asking.stored()
	}
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
func dropExpired(items []item, now int64) {
	dropped := false
	for i := range items {
		if it := &items[i]; it.expired {
			it.Table.Live(now, &it.Spot)
			it.expired, dropped = false, true
		}
	}
	for i := 0; dropped && i < len(items); i++ {
		items[i].Table.Find(&items[i].Spot)
	}
}

// store stores what was written to one item. It ignores the budget if must is set.
func (it *item) store(must bool) (err error) {
	t := it.t
	s := it.s
	if s.changes != nil {
		if _, _, isValue := it.mark.Kind().Value(); isValue || it.Beside || len(t.items) > 1 {
			s.payFirst(&it.Spot)
		}
	}
	state := it.State
	if it.Grow && it.changed {
		state = it.spliced(it.Table.State(&it.Spot))
	} else if it.Grow {
		was := it.Table.State(&it.Spot)
		if s.changes != nil {
			s.changes.was.Note(it.kind, was)
		}
		if state, err = it.takeInPlace(t.now, was); err != nil || state == nil {
			it.written = false // a denial that has moved nothing: see park
			return err
		}
	}
	var under *limit.Limit
	if it.hasUnder && it.denied == 0 && !it.other {
		under = it.under
	}
	if it.changed {
		err = s.storeChange(t.now, it, state, must)
	} else {
		err = s.store(t.now, &it.Spot, it.mark, state, must)
	}
	if err != nil {
		return err
	}
	if it.Beside {
		return nil
	}
	if it.State == nil {
		if last := s.waits.LastTurn(it.Key); last != nil {
			s.keepTurns(t.now, last)
		}
	}
	it.stir(under)
	return nil
}

// stir notes that an item of a queue has been stored: after a take under a limit or, if that is nil, by a step that may
// have given back. The queue is served soon.
func (it *item) stir(under *limit.Limit) {
	t := it.t
	if !it.s.waits.Any() {
		return
	}
	q := it.s.waits.Find(it.Key)
	if q == nil {
		return
	}
	q.Note(under)
	switch a := t.asking; {
	case a == nil || a.why != isReady:
		t.stirred = append(t.stirred, q)
	case q != a.from: // which is served once this step is done
		it.s.waits.LookSoon(q)
	}
}
