package engine

import (
	"limitdb/internal/journal"
)

// Copy appends records of some of the keys that are live at now, beginning at
// cursor, and returns the next cursor. The walk begins and ends with cursor 0.
// A key that is live during the whole walk is copied at least once, with its
// state at that moment and the version of its shard's last change.
//
// Copy handles one segment in each call. Its records lie one behind another,
// which is the fastest way to read memory. They are at most one span's bytes,
// which bounds how long the shard is locked. The states in boxes follow one by
// one.
func (e *Engine) Copy(now int64, cursor uint64, dst *journal.Buffer) (next uint64) {
	boxes, next := e.copySegment(now, cursor, dst)
	for _, key := range boxes {
		_, s := e.place(key)
		s.mu.Lock()
		s.table.copyKey(key, dst)
		s.mu.Unlock()
	}
	return next
}

// copySegment copies the segment at a cursor. It returns the keys whose states
// are in boxes and the next cursor.
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
		} else if state := r.state(); expires(r.kind(), state) > now {
			dst.Set(version, byte(r.kind()), r.key(), state)
		}
	})
	return boxes, g.end()
}

// copyKey appends a record of one key with its current state, if the key is
// there.
func (t *table) copyKey(key []byte, dst *journal.Buffer) {
	if sp := t.spotOf(key); sp.at != nil {
		r := sp.r
		dst.Set(t.version(), byte(r.kind()), key, t.state(r))
	}
}

// version returns the version of the last change, or 0 if changes are not
// recorded.
func (t *table) version() uint64 {
	if t.changes == nil {
		return 0
	}
	return t.changes.version
}
