package engine

import (
	"sync/atomic"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// What a change of state leaves behind for those who keep it on a disk.
//
// Each shard has a buffer, which is filled under its lock with a record of
// every state that is stored and every key that is forgotten before its time
// (expiry needs none: the state tells it). Whoever writes them drains all
// shards: the buffers are swapped under the lock and copied outside of it.
//
// A long state is not copied at each change: its key is noted, and the drain
// copies what it has by then, once.
//
// Without StartJournal there is no buffer, and a change costs one look at a nil.

// changes is a shard's buffer; the shard's lock guards its fields but pending.
type changes struct {
	journal *changeLog
	// version numbers the shard's changes.
	version uint64
	buf     journal.Buffer
	// owed are the keys whose records Drain makes.
	owed map[string]struct{}
	// spare belongs to Drain, which is called by one goroutine at a time.
	spare []byte
	// pending says that there is something, so that Drain need not lock shards
	// in which nothing has happened.
	pending atomic.Bool
}

// changeLog is what all shards' buffers share.
type changeLog struct {
	// dirty says that a drain would find something. It is set before a change can be seen.
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
func (c *changes) set(a limit.Algorithm, key, state []byte) (at int) {
	c.begin()
	at = len(c.buf.Bytes)
	c.buf.Set(c.version, byte(a), key, state)
	return at
}

// forget adds the record of a key having gone.
func (c *changes) forget(a limit.Algorithm, key []byte) (at int) {
	c.begin()
	at = len(c.buf.Bytes)
	c.buf.Delete(c.version, byte(a), key)
	return at
}

// owe notes a key that has a new state.
func (c *changes) owe(key []byte) {
	c.begin()
	if c.owed == nil {
		c.owed = map[string]struct{}{}
	}
	if _, there := c.owed[string(key)]; !there {
		c.owed[string(key)] = struct{}{}
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
// notify is called when there is something to drain and there was not before,
// under a shard's lock: it must not block. Of changes that are made while StartJournal runs some
// have records and some have not: whoever wants all copies the table afterwards.
func (e *Engine) StartJournal(version uint64, notify func()) {
	e.flushing.Lock() // a Flush has a record of all shards or of none
	defer e.flushing.Unlock()
	shared := &changeLog{notify: notify}
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.table.changes = &changes{journal: shared, version: version}
		s.mu.Unlock()
	}
	e.journal.Store(shared)
}

// StopJournal keeps no records from now on and drops those that nobody has drained. No
// Drain may be running.
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

// Dirty tells whether Drain would find something. What anybody has seen of a
// change before was drained, or is being drained, where it says no.
func (e *Engine) Dirty() bool {
	j := e.journal.Load()
	return j != nil && j.dirty.Load()
}

// Drain adds the records of all changes since it was called last, those of one
// key in their order. One goroutine may call it at a time.
func (e *Engine) Drain(dst *journal.Buffer) {
	j := e.journal.Load()
	if j == nil {
		return
	}
	j.dirty.Store(false) // first: what comes from now on says so again
	for i := range e.shards {
		s := &e.shards[i]
		c := s.table.changes
		if !c.pending.Load() {
			continue
		}
		s.mu.Lock()
		full, owed := c.buf, c.owed
		c.buf, c.owed = journal.Buffer{Bytes: c.spare[:0]}, nil
		c.pending.Store(false)
		s.mu.Unlock()
		dst.Add(&full)
		if c.spare = full.Bytes; cap(c.spare) > maxSpare {
			c.spare = nil
		}
		for key := range owed {
			e.pay(s, []byte(key), dst)
		}
	}
}

// pay adds the record of a key that was owed. One that has gone has left a
// record of that, or has expired.
func (e *Engine) pay(s *shard, key []byte, dst *journal.Buffer) {
	h, _ := e.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.changes.version++
	s.table.copyKey(h, key, dst)
}

// flushVersion is a version above all that any shard has, above all that any can reach
// while Flush goes from one to the next, and above that of any other Flush.
func (e *Engine) flushVersion() uint64 {
	const headroom = 1 << 32
	v := e.flushed
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		if c := s.table.changes; c != nil {
			v = max(v, c.version)
		}
		s.mu.Unlock()
	}
	return v + headroom
}

// flushed adds the record of all keys having gone, under its version.
func (c *changes) flushed(version uint64) {
	c.begin()
	c.version = version
	c.owed = nil
	c.buf.Flush(version)
}
