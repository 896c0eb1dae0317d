package engine

import (
	"fmt"
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
// Without StartJournal there is no buffer, and a change costs one look at a nil.

// changes is a shard's buffer; the shard's lock guards its fields but pending.
type changes struct {
	journal *changeLog
	// version numbers the shard's changes.
	version uint64
	buf     []byte
	// spare belongs to Drain, which is called by one goroutine at a time.
	spare []byte
	// pending says that buf is not empty, so that Drain need not lock shards
	// in which nothing has happened.
	pending atomic.Bool
}

// changeLog is what all shards' buffers share.
type changeLog struct {
	// dirty says that a drain would find something. It is set before a change can be seen.
	dirty  atomic.Bool
	notify func()
}

// maxSpare is the largest buffer that a shard keeps for what comes next.
const maxSpare = 64 << 10

// set appends the record of a key's new state and returns where it begins.
func (c *changes) set(a limit.Algorithm, key, state []byte) (at int) {
	c.begin()
	at = len(c.buf)
	c.buf = journal.AppendSet(c.buf, c.version, byte(a), key, state)
	return at
}

// forget appends the record of a key having gone.
func (c *changes) forget(a limit.Algorithm, key []byte) (at int) {
	c.begin()
	at = len(c.buf)
	c.buf = journal.AppendDelete(c.buf, c.version, byte(a), key)
	return at
}

func (c *changes) begin() {
	c.version++
	if len(c.buf) > 0 {
		return // whoever put the first record there has said so
	}
	c.pending.Store(true)
	if !c.journal.dirty.Load() && c.journal.dirty.CompareAndSwap(false, true) {
		c.journal.notify()
	}
}

// undo takes back the record that begins at an offset and has n bytes; there
// may be others behind it.
func (c *changes) undo(at, n int) {
	c.buf = append(c.buf[:at], c.buf[at+n:]...)
}

// StartJournal begins to keep records of changes, with versions above version.
// notify is called when there is something to drain and there was not before,
// under a shard's lock: it must not block. Call it before the first change.
func (e *Engine) StartJournal(version uint64, notify func()) {
	shared := &changeLog{notify: notify}
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.table.changes = &changes{journal: shared, version: version}
		s.mu.Unlock()
	}
	e.journal.Store(shared)
}

// Dirty tells whether Drain would find something. What anybody has seen of a
// change before was drained, or is being drained, where it says no.
func (e *Engine) Dirty() bool {
	j := e.journal.Load()
	return j != nil && j.dirty.Load()
}

// Drain appends the records of all changes since it was called last, in the
// encoding of package journal; those of one key are in their order. One
// goroutine may call it at a time.
func (e *Engine) Drain(dst []byte) []byte {
	j := e.journal.Load()
	if j == nil {
		return dst
	}
	j.dirty.Store(false) // first: what comes from now on says so again
	for i := range e.shards {
		s := &e.shards[i]
		c := s.table.changes
		if !c.pending.Load() {
			continue
		}
		s.mu.Lock()
		full := c.buf
		c.buf = c.spare[:0]
		c.pending.Store(false)
		s.mu.Unlock()
		dst = append(dst, full...)
		if c.spare = full; cap(full) > maxSpare {
			c.spare = nil
		}
	}
	return dst
}

// copyBytes is how much Copy takes of one shard before it lets others in.
const copyBytes = 128 << 10

// Copy appends records with the states of some of the keys that are live at
// now, those that come next at a cursor, and returns the cursor behind them; 0
// to begin, and 0 at the end. A key that is live all the time is copied at least
// once, as it is at that moment, and with the version of its shard's last change.
func (e *Engine) Copy(now int64, cursor uint64, dst []byte) ([]byte, uint64) {
	s := e.shardAt(cursor)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = max(now, s.last)
	t := &s.table
	g := t.lookup(cursor << placeShift)
	if g.n == 0 {
		return dst, g.end()
	}
	version := uint64(0)
	if t.changes != nil {
		version = t.changes.version
	}
	begin := len(dst)
	b := g.home(cursor << placeShift)
	for last := min(g.lines, b+walkChunk); b < last && len(dst)-begin < copyBytes; b++ {
		g.eachOf(b, t.seed, func(r record) {
			if state := t.state(r); limit.Expires(r.algorithm(), state) > now {
				dst = journal.AppendSet(dst, version, byte(r.algorithm()), r.key(), state)
			}
		})
	}
	if b == g.lines {
		return dst, g.end()
	}
	return dst, g.lineStart(b)
}

// Restore gives a key a state that was recovered, whatever the budget. It keeps
// no record. The error tells of an algorithm that this version does not know,
// or of the system.
func (e *Engine) Restore(kind byte, key, state []byte) error {
	a := limit.Algorithm(kind)
	if !a.Known() {
		return fmt.Errorf("engine: a state is of algorithm %d, which this version does not know", kind)
	}
	h, s := e.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, at := s.table.find(h, key); at != nil {
		return s.table.update(s.last, h, g, at, key, a, state)
	}
	return s.table.insert(s.last, h, key, a, state, true)
}

// RestoreDelete forgets a key that Restore may have set. It keeps no record.
func (e *Engine) RestoreDelete(key []byte) {
	h, s := e.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, at := s.table.find(h, key); at != nil {
		s.table.remove(g, h, at)
	}
}

// flushVersion is a version above all that any shard has, and above all that any can
// reach while Flush goes from one to the next.
func (e *Engine) flushVersion() uint64 {
	const headroom = 1 << 32
	v := uint64(0)
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

// flushed appends the record of all keys having gone, under its version.
func (c *changes) flushed(version uint64) {
	c.begin()
	c.version = version
	c.buf = journal.AppendFlush(c.buf, version)
}
