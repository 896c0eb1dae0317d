package engine

import (
	"fmt"
	"math"

	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// Long states that change in parts.
//
// The journal gets the bytes that have changed, a Change, rather than a whole long
// state. A collection may have a megabyte, a string 64 kB, and most changes of one have a
// few bytes. A transaction that changes such a value says which bytes it replaces (see
// Txn.Change). Long LOGs and leases are owed, as all long states are. Their debt notes
// what the records have of the state, and Drain makes one Change of all that the
// key's steps have changed since (see limit.Since).
//
// A Change applies to the one state that it was made from, so the journal must have
// that state, and whoever replays the journal must not have dropped it:
//
//   - A state that Copy copies while it is owed has more than the records, but not
//     their next revision. Its next record has the whole state.
//   - A value that is owed gets no Change, because Drain copies its later state.
//     One that the last cut owes is paid first.
//   - When the Changes of a key since the last cut are longer than its state,
//     the key is owed, so that a cut has at most twice what it would have had.
//   - What is noted must not take much memory. When a shard has noted enough since
//     the last cut, more keys are owed whole.
//   - Expiry has no record. A replica drops expired keys by the time that the
//     log has reached, and a decision may have been made before that time. So a
//     state that may have expired for somebody is owed: see RecordWhole.

// Change gives key a state that differs from the one it holds by splices of its
// body, and perhaps in its expiry. The kind is of the same type and changes in
// parts (journal.InParts). Change sets the revision in the state's head. Without
// a state before that can change in part (journal.CanChange), it is Put: strings,
// for one, have a head only once they are long.
func (t *Txn) Change(key []byte, kind limit.Kind, state, splices []byte) error {
	it, err := t.item(key)
	if err != nil {
		return err
	}
	return it.change(kind, state, splices)
}

// change is Change of an item.
func (it *item) change(kind limit.Kind, state, splices []byte) error {
	head := journal.HeadSize(byte(kind))
	had, changed := it.kind, it.changed
	if !changed && !it.written && journal.CanChange(byte(had), it.State) {
		n := journal.HeadSize(byte(had))
		it.before, it.until = len(it.State)-n, limit.Expires(had, it.State)
		it.revision = journal.Revision(it.State[:n]) + 1
		it.splices = it.splices[:0]
		changed = true
	}
	it.other = true
	if err := it.write(table.Unknown(kind), state); err != nil {
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
	return a == b || ok && x == y
}

// storeChange is store for an item that Change has written.
func (s *shard) storeChange(now int64, it *item, state []byte, must bool) error {
	c := s.changes
	if c == nil || it.State == nil || !journal.CanChange(byte(it.mark.Kind()), state) {
		return s.store(now, &it.Spot, it.mark, state, must)
	}
	var buf [16]byte
	head := append(buf[:0], state[:journal.HeadSize(byte(it.mark.Kind()))]...)
	if err := s.put(now, &it.Spot, it.mark, state, must); err != nil {
		return err
	}
	c.change(&it.Spot, it.mark.Kind(), head, it.before, it.until, it.splices, len(state))
	return nil
}

// change appends the record of a Change of a state whose body had before bytes, and which was to expire at until; or it notes that the key
// is owed. The new state has a head and size bytes.
func (c *changes) change(sp *table.Spot, kind limit.Kind, head []byte, before int, until int64, splices []byte, size int) {
	// First: a cut that does not see this has set a floor that we see.
	c.begin()
	_, owed := c.owed[name{string(sp.Key), sp.Beside}]
	total := c.parts[name{string(sp.Key), sp.Beside}] + len(splices)
	if owed || total > size || until <= c.journal.floor.Load() {
		c.owe(kind, sp, nil)
		return
	}
	if c.parts == nil {
		c.parts = map[name]int{}
	}
	c.parts[name{string(sp.Key), sp.Beside}] = total
	c.buf.Change(c.version, byte(kind), sp.Key, head, before, splices)
}

// storeOwed is store for a long state that Drain records.
func (s *shard) storeOwed(now int64, sp *table.Spot, m table.Mark, next []byte, must bool) error {
	since := s.sinceOf(sp, m.Kind(), next)
	err := s.put(now, sp, m, next, must)
	if err == nil {
		s.changes.owe(m.Kind(), sp, since)
	}
	return err
}

// sinceOf returns what the records have of a key that changes to next, or nil if they
// have no state to change in part. next keeps the revision.
func (s *shard) sinceOf(sp *table.Spot, kind limit.Kind, next []byte) *limit.Since {
	c := s.changes
	var was []byte
	if sp.Found() && sp.Kind() == kind {
		was = s.table.State(sp)
	}
	recorded := kind.Recorded(was)
	if recorded == kind || !journal.CanChange(byte(recorded), was) {
		c.recordWhole(sp.Key)
		return nil
	}
	inPlace := &was[0] == &next[0]
	if !inPlace {
		// A transaction may have copied it before payFirst.
		n := journal.HeadSize(byte(recorded))
		journal.SetRevision(next[:n], journal.Revision(was[:n]))
	}
	o, owed := c.owed[name{string(sp.Key), sp.Beside}]
	switch {
	case owed:
	case !inPlace && c.noted < c.journal.notes:
		o.since = new(limit.Since)
		o.since.Note(kind, was)
		c.noted += o.since.Noted()
	case inPlace && c.was.Size() == len(was):
		since := c.was
		o.since, c.was = &since, limit.Since{}
	}
	for _, since := range [...]*limit.Since{o.since, c.due.keys[name{string(sp.Key), sp.Beside}].since} {
		if since != nil {
			since.Changed(next)
		}
	}
	return o.since
}

// recordWhole has the next record of a key, if it is owed, have the whole state.
func (c *changes) recordWhole(key []byte) {
	for _, all := range [...]map[name]owed{c.owed, c.due.keys} {
		if o, ok := all[name{key: string(key)}]; ok {
			o.since = nil
			all[name{key: string(key)}] = o
		}
	}
}

// payState appends the record of an owed key's state: what has changed since the last
// record if that is shorter.
func (c *changes) payState(o *owed, sp *table.Spot, state []byte, dst *journal.Buffer) {
	kind, key := sp.Kind(), sp.Key
	recorded := kind.Recorded(state)
	n := journal.HeadSize(byte(recorded))
	c.splices = c.splices[:0]
	if o.since != nil && o.kind == kind && recorded != kind && journal.CanChange(byte(recorded), state) && o.since.Expires() > c.journal.floor.Load() {
		o.since.Edits(state, func(at, del int, ins []byte) {
			c.splices = journal.AppendSplice(c.splices, at, del, ins)
		})
	} else {
		o.since = nil
	}
	if o.since == nil || len(c.splices) >= len(state) {
		dst.Set(c.due.version, byte(recorded), key, state)
	} else {
		journal.SetRevision(state[:n], journal.Revision(state[:n])+1)
		dst.Change(c.due.version, byte(recorded), key, state[:n], o.since.Size()-n, c.splices)
	}
	if again, owed := c.owed[name{string(key), sp.Beside}]; owed && again.since != nil {
		again.since.Note(kind, state)
	}
}

// RecordWhole has later changes of states recorded whole that expire at a time or
// sooner; at math.MaxInt64, of all states. The time never goes back. It is for
// replicas, which drop keys that have expired. If it is called before each Cut,
// with a time that replicas do not pass before they have what that Cut sets
// aside, then the Changes of all later cuts find their states.
func (e Journal) RecordWhole(until int64) {
	if j := e.journal.Load(); j != nil && until > j.floor.Load() {
		j.floor.Store(until)
	}
}

// restoreChange applies a Change. If the key is absent, or its state is another
// than the Change was made from, the key is missed until a record follows that
// needs no state. A copy that was made while changes went on may lack keys whose
// Changes follow, because they were removed or had expired later.
func (s *shard) restoreChange(sp *table.Spot, r *journal.Record) error {
	kind := limit.Kind(r.Kind).Restored()
	if !kind.Known() {
		return unknownKind(r.Kind)
	}
	edit := r.Edit()
	var state []byte
	n := 0
	if sp.Found() && sameType(sp.Kind(), kind) {
		state = s.table.State(sp)
		n = journal.HeadSize(byte(sp.Kind().Recorded(state)))
	}
	if n == 0 || len(state) < n {
		s.miss(r)
		return nil
	}
	switch ahead := int32(journal.Revision(state[:n]) + 1 - journal.Revision(edit.Head)); {
	case ahead > 0:
		s.found(r) // the copy has the Change
		return nil
	case ahead < 0 || len(state)-n != edit.Before:
		s.miss(r)
		return nil
	}
	s.found(r)
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
	return s.table.Put(s.last, sp, table.Unknown(kind), state, true)
}

func unknownKind(kind byte) error {
	return fmt.Errorf("engine: a state is of kind %d: %w", kind, journal.ErrNewer)
}

// nameOf returns the name of what a record is for.
func nameOf(r *journal.Record) name { return name{string(r.Key), limit.Kind(r.Kind) == limit.HOLDS} }

// miss notes that a Change could not be applied, and when its key expires.
func (s *shard) miss(r *journal.Record) {
	if s.missed == nil {
		s.missed = map[name]int64{}
	}
	s.missed[nameOf(r)] = r.Expires()
}

func (s *shard) hasMissed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.missed) > 0
}

// found notes that a key is what the records say.
func (s *shard) found(r *journal.Record) {
	if s.missed != nil {
		delete(s.missed, nameOf(r))
	}
}

// Missed returns a key whose state Restore could not change, because it was
// absent or another than the one that the change was made from, and no later
// record has made up for it. Keys that have expired at now do not count. Once
// everything is restored there is none, unless records are missing.
func (e Recovery) Missed(now int64) (key string, ok bool) {
	if !e.missing.Swap(false) {
		return "", false
	}
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		for n, expires := range s.missed {
			if expires > now {
				e.missing.Store(true)
				s.mu.Unlock()
				return n.key, true
			}
		}
		s.missed = nil
		s.mu.Unlock()
	}
	return "", false
}

// noFloor is the time of RecordWhole at first.
const noFloor = math.MinInt64
