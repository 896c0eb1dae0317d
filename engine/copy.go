package engine

import (
	"limitdb/internal/journal"
	"limitdb/limit"
)

// Copy adds records with the states of some of the keys that are live at
// now, those that come next at a cursor, and returns the cursor behind them; 0
// to begin, and 0 at the end. A key that is live all the time is copied at least
// once, as it is at that moment, and with the version of its shard's last change.
//
// One segment is copied at a time: its records lie behind one another, which is
// the fastest that memory is read, and at most one span's bytes, which bounds how
// long the shard is held. The states in boxes follow one by one.
func (e *Engine) Copy(now int64, cursor uint64, dst *journal.Buffer) (next uint64) {
	boxes, next := e.copySegment(now, cursor, dst)
	for _, key := range boxes {
		h, s := e.place(key)
		s.mu.Lock()
		s.table.copyKey(h, key, dst)
		s.mu.Unlock()
	}
	return next
}

// copySegment copies the segment at a cursor and returns the keys whose states are in boxes.
func (e *Engine) copySegment(now int64, cursor uint64, dst *journal.Buffer) (boxes [][]byte, next uint64) {
	s := e.shardAt(cursor)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = max(now, s.last)
	t := &s.table
	version := t.version()
	g := t.lookup(cursor << placeShift)
	g.each(func(r record) {
		if r.isBoxed() {
			boxes = append(boxes, append([]byte(nil), r.key()...))
		} else if state := r.state(); limit.Expires(r.kind(), state) > now {
			dst.Set(version, byte(r.kind()), r.key(), state)
		}
	})
	return boxes, g.end()
}

// copyKey adds the record of one key as it is, if it is there.
func (t *table) copyKey(h uint64, key []byte, dst *journal.Buffer) {
	if g, at := t.find(h, key); at != nil {
		r := g.record(at)
		dst.Set(t.version(), byte(r.kind()), key, t.state(r))
	}
}

// version is that of the last change, 0 where nobody keeps records of them.
func (t *table) version() uint64 {
	if t.changes == nil {
		return 0
	}
	return t.changes.version
}
