package engine

import (
	"sync/atomic"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// What a change of state leaves behind for those who keep it on a disk.
//
// Each shard has a buffer. Under the shard's lock it gets a record of every state that is
// stored and of every key that is forgotten before its time (expiry needs none: the state
// has it). Whoever writes the records takes them in two steps. Cut sets the buffers of all shards
// aside, and Drain copies what was set aside.
//
// A TakeAll changes several shards, and is in one cut as a whole: it enters the
// gate before it locks its shards, and the gate is closed during Cut. So does Flush.
//
// A long state is not copied at each change. Its key is noted as owed, and Drain copies the
// state, once. That is later than the cut, so the state may have changes in it that came after the
// cut. Those of a step on one key do no harm: the key is further on than the
// others, as if the step had come first. Those of a TakeAll would be half of it. So
// a TakeAll, and Flush for the same reason, pays what is still owed of its keys before it changes them.
//
// Without StartJournal there is no buffer, and a change costs one look at a nil.

// changes is a shard's buffer; the shard's lock guards its fields but pending.
type changes struct {
	journal *changeLog
	// version numbers the shard's changes.
	version uint64
	buf     journal.Buffer
	// owed are the keys with long states that have changed since the last cut, with the algorithms of these.
	owed map[string]limit.Kind
	// due is what is owed by the last cut, until Drain has taken it.
	due debt
	// full, spare and aside belong to Cut and Drain: the records that were set aside, a buffer
	// for what comes next, and whether there is anything for Drain.
	full  journal.Buffer
	spare []byte
	aside bool
	// pending says that there is something, so that Cut need not lock shards
	// in which nothing has happened.
	pending atomic.Bool
}

// debt is what a cut owes: records of long states.
type debt struct {
	// keys have no record yet.
	keys map[string]limit.Kind
	// paid are the records of the others.
	paid journal.Buffer
	// version is that of the records: above those of all changes before the cut, below
	// those of all after it.
	version uint64
}

// changeLog is what all shards' buffers share.
type changeLog struct {
	gate *journal.Gate
	// dirty says that a cut would find something. It is set before a change can be seen.
	dirty  atomic.Bool
	notify func()
}

const (
	// maxSpare is the largest buffer that a shard keeps for what comes next.
	maxSpare = 64 << 10
	// longState is how many bytes a state has that is owed. Finding the key
	// again costs as much as copying some hundred bytes.
	longState = 256
)

// set adds the record of a key's new state and returns where it begins.
func (c *changes) set(a limit.Kind, key, state []byte) (at int) {
	c.begin()
	at = len(c.buf.Bytes)
	c.buf.Set(c.version, byte(a), key, state)
	return at
}

// forget adds the record of a key having gone.
func (c *changes) forget(a limit.Kind, key []byte) (at int) {
	c.begin()
	at = len(c.buf.Bytes)
	c.buf.Delete(c.version, byte(a), key)
	return at
}

// owe notes a key that has a new state.
func (c *changes) owe(a limit.Kind, key []byte) {
	c.begin()
	if c.owed == nil {
		c.owed = map[string]limit.Kind{}
	}
	if had, there := c.owed[string(key)]; !there || had != a {
		c.owed[string(key)] = a
	}
}

func (c *changes) begin() {
	c.version++
	if len(c.buf.Bytes) > 0 || c.pending.Load() {
		return // whoever put the first record there has said so
	}
	c.pending.Store(true)
	if !c.journal.dirty.Load() && c.journal.dirty.CompareAndSwap(false, true) {
		c.journal.notify()
	}
}

// undo takes back the record that begins at an offset and has n bytes; there
// may be others behind it.
func (c *changes) undo(at, n int) { c.buf.Cut(at, n) }

// StartJournal begins to keep records of changes, with versions above version.
// A TakeAll enters gate; Cut is called while it is closed.
// notify is called when there is something to cut and there was not before,
// under a shard's lock: it must not block. Of changes that are made while StartJournal runs some
// have records and some have not: whoever wants all copies the table afterwards.
func (e *Engine) StartJournal(version uint64, gate *journal.Gate, notify func()) {
	e.flushing.Lock() // a Flush has a record of all shards or of none
	defer e.flushing.Unlock()
	shared := &changeLog{gate: gate, notify: notify}
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.table.changes = &changes{journal: shared, version: version}
		s.mu.Unlock()
	}
	e.journal.Store(shared)
}

// StopJournal keeps no records from now on and drops those that nobody has drained. No
// Cut or Drain may be running.
func (e *Engine) StopJournal() {
	e.flushing.Lock()
	defer e.flushing.Unlock()
	e.journal.Store(nil)
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.table.changes = nil
		s.mu.Unlock()
	}
}

// Dirty reports whether Cut would find something. Where it reports false, all
// changes that anybody can have seen are in a cut that has begun.
func (e *Engine) Dirty() bool {
	j := e.journal.Load()
	return j != nil && j.dirty.Load()
}

// Cut sets the records of all changes since the last Cut aside, for Drain. One goroutine may
// call Cut and Drain, in turn, with the gate closed during Cut.
func (e *Engine) Cut() {
	j := e.journal.Load()
	if j == nil {
		return
	}
	j.dirty.Store(false) // first: what comes from now on says so again
	for i := range e.shards {
		s := &e.shards[i]
		if s.table.changes.pending.Load() {
			s.mu.Lock()
			s.table.changes.setAside()
			s.mu.Unlock()
		}
	}
}

func (c *changes) setAside() {
	c.full, c.buf = c.buf, journal.Buffer{Bytes: c.spare[:0]}
	if len(c.owed) > 0 {
		c.version++
		c.due, c.owed = debt{keys: c.owed, version: c.version}, nil
	}
	c.aside = true
	c.pending.Store(false)
}

// Drain adds the records that the last Cut has set aside, those of one key in
// their order.
func (e *Engine) Drain(dst *journal.Buffer) {
	if e.journal.Load() == nil {
		return
	}
	for i := range e.shards {
		s := &e.shards[i]
		c := s.table.changes
		if !c.aside {
			continue
		}
		dst.Add(&c.full)
		if c.spare = c.full.Bytes; cap(c.spare) > maxSpare {
			c.spare = nil
		}
		c.full, c.aside = journal.Buffer{}, false
		for more := true; more; { // with the lock free between any two
			more = s.payOne(dst)
		}
	}
}

// payOne pays for one key that is owed, and reports whether there was one.
func (s *shard) payOne(dst *journal.Buffer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := &s.table.changes.due
	for key := range due.keys {
		s.table.pay(key, dst)
		return true
	}
	dst.Add(&due.paid)
	*due = debt{}
	return false
}

// pay adds the record of a key that is owed, as it is now.
func (t *table) pay(key string, dst *journal.Buffer) {
	due := &t.changes.due
	k := []byte(key)
	if g, at := t.find(t.hash(k), k); at != nil {
		r := g.record(at)
		dst.Set(due.version, byte(r.kind()), k, t.state(r))
	} else {
		dst.Delete(due.version, byte(due.keys[key]), k)
	}
	delete(due.keys, key)
}

// payFirst pays for a key, if it is owed, before a step changes it that is not to be in the last cut.
func (t *table) payFirst(key []byte) {
	if c := t.changes; c != nil && len(c.due.keys) > 0 {
		if _, owed := c.due.keys[string(key)]; owed {
			t.pay(string(key), &c.due.paid)
		}
	}
}

// flushed adds the record of all keys having gone, under its version.
func (c *changes) flushed(version uint64) {
	c.begin()
	c.version = version
	c.owed = nil
	c.buf.Flush(version)
}

// payAll pays for all keys that are owed, before they go.
func (t *table) payAll() {
	if c := t.changes; c != nil {
		for key := range c.due.keys {
			t.pay(key, &c.due.paid)
		}
	}
}
