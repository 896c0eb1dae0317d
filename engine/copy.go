package engine

import (
	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
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
func (e Journal) Copy(now int64, cursor uint64, dst *journal.Buffer) (next uint64) {
	boxes, next := e.copySegment(now, cursor, dst)
	for i := range boxes {
		s := e.shardOf(boxes[i].Hash)
		s.mu.Lock()
		s.copySpot(&boxes[i], dst)
		s.mu.Unlock()
	}
	return next
}

// copySegment copies the segment at a cursor. It returns the spots of those whose states
// are in boxes, and the next cursor.
func (e Journal) copySegment(now int64, cursor uint64, dst *journal.Buffer) (boxes []table.Spot, next uint64) {
	s := e.shardAt(cursor)
	s.mu.Lock()
	defer s.mu.Unlock()
	now = max(now, s.last)
	version := s.version()
	return s.table.Copy(now, cursor, func(kind limit.Kind, key, state []byte) {
		s.copyState(version, kind, key, state, dst)
	})
}

// copySpot appends a record of what is in a spot with its current state, if it is still
// there.
func (s *shard) copySpot(sp *table.Spot, dst *journal.Buffer) {
	if s.table.Find(sp); sp.Found() {
		s.copyState(s.version(), sp.Kind(), sp.Key, s.table.State(sp), dst)
	}
}

// copyState appends a record of a key with its state.
func (s *shard) copyState(version uint64, kind limit.Kind, key, state []byte, dst *journal.Buffer) {
	recorded := kind.Recorded(state)
	dst.Set(version, byte(recorded), key, state)
	if recorded != kind && s.changes != nil {
		s.changes.recordWhole(key)
	}
}

// version returns the version of the last change, or 0 if changes are not
// recorded.
func (s *shard) version() uint64 {
	if s.changes == nil {
		return 0
	}
	return s.changes.version
}
