package engine

import (
	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// The shards record their changes of state for those who keep them on disk.
//
// Each shard has a buffer. Under the shard's lock, the buffer gets a record of
// every state that is stored and of every key that is forgotten before it
// expires. (Expiry needs no record, since the state determines it.) The writer
// takes the records in two steps: Cut sets the buffers of all shards aside, and
// Drain copies what Cut set aside, as much in one call as the caller has room
// for.
//
// A transaction changes several shards, and one cut contains all of it: it enters
// the gate before it locks its shards, and the gate is closed during Cut. Flush
// does the same.
//
// A long state is not copied at each change. Its key is noted as owed, and
// Drain copies the state once. Drain runs after the cut, so the copy may
// contain changes that were made after the cut. Changes by steps on one key do
// no harm: the key is ahead of the others, as if those steps had come first.
// But a change by a transaction would be one half of it. So a transaction pays what is
// still owed for its keys before it changes them. Flush does so for the same
// reason. Most long states are recorded in parts: see parts.go.
//
// Without StartJournal there is no buffer, and a change costs one comparison
// with nil.

const (
	// maxSpares is the most bytes of buffers that all shards together keep for
	// their next records. They have as much again in the buffers in use.
	maxSpares = 2 << 20
	// maxNotes is about how many bytes of states all shards together note between
	// two cuts, so that the journal gets only what has changed.
	maxNotes = 2 << 20
	// longState is the least number of bytes of a state that is owed. Finding
	// the key again costs as much as copying some hundred bytes.
	longState = 256
)

// StartJournal begins to record changes, with versions above version. A transaction
// enters gate; Cut is called while gate is closed. The engine calls notify,
// under a shard's lock, when there is something to cut and there was not
// before; notify must not block. Only some of the changes that are made while
// StartJournal runs are recorded. A caller that needs all of them copies the
// table afterwards.
func (e Journal) StartJournal(version uint64, gate *journal.Gate, notify func()) {
	e.flushing.Lock() // all shards record a Flush, or none
	defer e.flushing.Unlock()
	shared := &changeLog{gate: gate, notify: notify, notes: maxNotes / len(e.shards)}
	shared.floor.Store(noFloor)
	e.eachShard(func(s *shard) {
		s.changes = &changes{changesData: changesData{journal: shared, version: version}}
	})
	e.journal.Store(shared)
}

// StopJournal stops recording changes and drops the records that have not been
// drained. No Cut or Drain may be running.
func (e Journal) StopJournal() {
	e.flushing.Lock()
	defer e.flushing.Unlock()
	e.journal.Store(nil)
	e.eachShard(func(s *shard) { s.changes = nil })
}

// Dirty reports whether Cut would find something. If it returns false, every
// change that anybody can have seen is in a cut that has begun.
func (e Journal) Dirty() bool {
	j := e.journal.Load()
	return j != nil && j.dirty.Load()
}

// Cut sets the records of all changes since the last Cut aside for Drain. One
// goroutine may call Cut and Drain, in turn. The gate must be closed during
// Cut.
func (e Journal) Cut() {
	j := e.journal.Load()
	if j == nil {
		return
	}
	j.dirty.Store(false) // first: later changes set it again
	for i := range e.shards {
		s := &e.shards[i]
		if s.changes.pending.Load() {
			s.mu.Lock()
			s.changes.setAside()
			s.mu.Unlock()
		}
	}
}

// Drain appends to dst the records that the last Cut has set aside, until dst
// has limit bytes, and reports whether there may be more. The records of one
// key are in their order. The last record, or the records of one shard, may
// exceed the limit.
func (e Journal) Drain(dst *journal.Buffer, limit int) (more bool) {
	if e.journal.Load() == nil {
		return false
	}
	for i := range e.shards {
		s := &e.shards[i]
		if s.changes.aside && !s.drain(dst, limit, maxSpares/len(e.shards)) {
			return true
		}
	}
	return false
}

// drain does what Drain does for one shard, and reports whether the shard is
// done. The shard keeps a buffer of at most maxSpare bytes.
func (s *shard) drain(dst *journal.Buffer, limit, maxSpare int) (done bool) {
	c := s.changes
	dst.Add(&c.full)
	if n := cap(c.full.Bytes); n > 0 && n <= maxSpare {
		c.spare = c.full.Bytes
	}
	c.full = journal.Buffer{}
	for more := true; more; { // the lock is free between any two
		if len(dst.Bytes) >= limit {
			return false
		}
		more = s.payOne(dst)
	}
	c.aside = false
	return true
}

// payOne pays for one key that is owed, and reports whether there was one.
func (s *shard) payOne(dst *journal.Buffer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := &s.changes.due
	for n := range due.keys {
		s.pay(n, dst)
		return true
	}
	dst.Add(&due.paid)
	*due = debt{}
	return false
}

// pay appends an owed record with its current state.
func (s *shard) pay(n name, dst *journal.Buffer) {
	due := &s.changes.due
	o := due.keys[n]
	sp := table.Spot{Hash: o.hash, Key: []byte(n.key), Beside: n.beside}
	if s.table.Find(&sp); sp.Found() {
		s.changes.payState(&o, &sp, s.table.State(&sp), dst)
	} else {
		dst.Delete(due.version, byte(o.kind), sp.Key)
	}
	delete(due.keys, n)
}

// payFirst pays for a key, if it is owed, before a step that must not be in the
// last cut changes it.
func (s *shard) payFirst(sp *table.Spot) {
	if c := s.changes; c != nil && len(c.due.keys) > 0 {
		if _, owed := c.due.keys[name{string(sp.Key), sp.Beside}]; owed {
			s.pay(name{string(sp.Key), sp.Beside}, &c.due.paid)
		}
	}
}

// payOwed pays for all owed keys before they go.
func (s *shard) payOwed() {
	if c := s.changes; c != nil {
		for n := range c.due.keys {
			s.pay(n, &c.due.paid)
		}
	}
}

// evicting records that a key is about to be evicted.
func (s *shard) evicting(kind limit.Kind, key []byte) {
	if s.changes != nil {
		s.changes.forget(kind, key)
	}
}
