package engine

import (
	"math"

	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// Long states that change in parts.
//
// A collection may have a megabyte, a string 64 kB, and most changes of one have a
// few bytes. A transaction that changes such a value says which bytes it replaces (see
// Txn.Change), and the journal gets a record of these only, a Change. It applies
// to the one state that the change was made from, so the journal must have that
// state, and whoever replays the journal must not have dropped it:
//
//   - A key that is owed gets no Change, because Drain copies its later state.
//     One that the last cut owes is paid first.
//   - When the Changes of a key since the last cut are longer than its state,
//     the key is owed, so that a cut has at most twice what it would have had.
//   - Expiry has no record. A replica drops expired keys by the time that the
//     log has reached, and a decision may have been made before that time. So a
//     state that may have expired for somebody is owed: see RecordWhole.

// Change gives key a state that differs from the one it holds by splices of its
// body, and perhaps in its expiry. The kind is of the same type and changes in
// parts (journal.InParts). Change sets the revision in the state's head. Without
// such a state before, it is Put.
func (t *Txn) Change(key []byte, kind limit.Kind, state, splices []byte) error {
	it, err := t.item(key)
	if err != nil {
		return err
	}
	head := journal.HeadSize(byte(kind))
	had, changed := it.kind, it.changed
	if !changed && !it.written && it.kind != 0 && len(it.State) >= journal.MinChanged {
		n := journal.HeadSize(byte(had))
		it.before, it.until = len(it.State)-n, limit.Expires(had, it.State)
		it.revision = journal.Revision(it.State[:n]) + 1
		it.splices = it.splices[:0]
		changed = true
	}
	it.other = true
	if err := t.write(it, table.Unknown(kind), state); err != nil {
		return err
	}
	if !changed || !sameType(had, kind) || len(it.splices)+len(splices) > len(state) {
		return nil
	}
	it.changed = true
	it.splices = append(it.splices, splices...)
	journal.SetRevision(it.buf[:head], it.revision)
	return nil
}

func sameType(a, b limit.Kind) bool {
	x, _, ok := a.Value()
	y, _, _ := b.Value()
	return ok && x == y
}

// storeChange is store for an item that Change has written.
func (s *shard) storeChange(now int64, it *item, state []byte, must bool) error {
	c := s.changes
	if c == nil || it.State == nil || len(state) < journal.MinChanged {
		return s.store(now, &it.Spot, it.mark, state, must)
	}
	var buf [16]byte
	head := append(buf[:0], state[:journal.HeadSize(byte(it.mark.Kind()))]...)
	if err := s.put(now, &it.Spot, it.mark, state, must); err != nil {
		return err
	}
	c.change(it, head, len(state))
	return nil
}

// change appends the record of a Change, or notes that the key is owed.
func (c *changes) change(it *item, head []byte, size int) {
	// First: a cut that does not see this has set a floor that we see.
	c.begin()
	_, owed := c.owed[string(it.Key)]
	total := c.parts[string(it.Key)] + len(it.splices)
	if owed || total > size || it.until <= c.journal.floor.Load() {
		c.owe(it.mark.Kind(), &it.Spot)
		return
	}
	if c.parts == nil {
		c.parts = map[string]int{}
	}
	c.parts[string(it.Key)] = total
	c.buf.Change(c.version, byte(it.mark.Kind()), it.Key, head, it.before, it.splices)
}

// RecordWhole has later changes of states recorded whole that expire at a time or
// sooner; at math.MaxInt64, of all states. The time never goes back. It is for
// replicas, which drop keys that have expired. If it is called before each Cut,
// with a time that replicas do not pass before they have what that Cut sets
// aside, then the Changes of all later cuts find their states.
func (e *Engine) RecordWhole(until int64) {
	if j := e.journal.Load(); j != nil && until > j.floor.Load() {
		j.floor.Store(until)
	}
}

// restoreChange applies a Change. If the key is absent, or its state is another
// than the Change was made from, the key is missed until a record follows that
// needs no state. A copy that was made while changes went on may lack keys whose
// Changes follow, because they were removed or had expired later.
func (s *shard) restoreChange(sp *table.Spot, r *journal.Record) error {
	if !limit.Kind(r.Kind).Known() {
		return unknownKind(r.Kind)
	}
	edit := r.Edit()
	var state []byte
	n := 0
	if sp.Found() && sameType(sp.Kind(), limit.Kind(r.Kind)) {
		state, n = s.table.State(sp), journal.HeadSize(byte(sp.Kind()))
	}
	if len(state) < max(n, 1) {
		s.miss(r)
		return nil
	}
	switch ahead := int32(journal.Revision(state[:n]) + 1 - journal.Revision(edit.Head)); {
	case ahead > 0:
		s.found(r.Key) // the copy has the Change
		return nil
	case ahead < 0 || len(state)-n != edit.Before:
		s.miss(r)
		return nil
	}
	s.found(r.Key)
	// The change is made in place if there is room: a copy for each change
	// would take far longer than the change.
	to := len(edit.Head)
	if to != n || n+edit.Most > cap(state) {
		room := make([]byte, to+edit.Before, to+edit.Most+len(edit.Head))
		copy(room[to:], state[n:])
		state = room
	}
	body := edit.Apply(state[to : to+edit.Before])
	state = state[:to+len(body)]
	copy(state, edit.Head)
	return s.table.Put(s.last, sp, table.Unknown(limit.Kind(r.Kind)), state, true)
}

// miss notes that a Change could not be applied, and when its key expires.
func (s *shard) miss(r *journal.Record) {
	if s.missed == nil {
		s.missed = map[string]int64{}
	}
	s.missed[string(r.Key)] = r.Expires()
}

func (s *shard) hasMissed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.missed) > 0
}

// found notes that a key is what the records say.
func (s *shard) found(key []byte) {
	if s.missed != nil {
		delete(s.missed, string(key))
	}
}

// Missed returns a key whose state Restore could not change, because it was
// absent or another than the one that the change was made from, and no later
// record has made up for it. Keys that have expired at now do not count. Once
// everything is restored there is none, unless records are missing.
func (e *Engine) Missed(now int64) (key string, ok bool) {
	if !e.missing.Swap(false) {
		return "", false
	}
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		for key, expires := range s.missed {
			if expires > now {
				e.missing.Store(true)
				s.mu.Unlock()
				return key, true
			}
		}
		s.missed = nil
		s.mu.Unlock()
	}
	return "", false
}

// noFloor is the time of RecordWhole at first.
const noFloor = math.MinInt64
