package engine

import (
	"bytes"

	"limitdb/engine/table"
)

// Watching keys for changes, for transactions that must not run if one of their
// keys has changed.
//
// A shard keeps the watches of its keys by the keys' hashes. Whatever stores a state
// looks there, which is one comparison with nil as long as nobody watches a key of the
// shard. A watch is dropped once its key has changed, so the stores together spend no
// more time on watches than it took to make them. Removal, eviction and expiry do not
// look there: a key that was there is then absent, or was stored again.

// Watch watches a key from the moment at which it was made.
type Watch struct {
	s       *shard
	h       uint64
	key     []byte
	there   bool // the key was live
	changed bool
	listed  bool // the shard has it

	before, next *Watch // in the list of its hash
}

// WatchBytes is about how many bytes a watch takes, beside its key.
const WatchBytes = 128

// Watch begins to watch key. The caller ends it with Stop.
func (e *Engine) Watch(now int64, key []byte) *Watch {
	h, s := e.place(key)
	w := &Watch{s: s, h: h, key: bytes.Clone(key)}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := table.Spot{Hash: h, Key: w.key}
	s.open(now, &sp)
	w.there = sp.Found()
	s.list(w)
	return w
}

// list adds w to the shard's watches.
func (s *shard) list(w *Watch) {
	if s.watched == nil {
		s.watched = map[uint64]*Watch{}
	}
	if w.next = s.watched[w.h]; w.next != nil {
		w.next.before = w
	}
	s.watched[w.h], w.listed = w, true
}

// unlist removes w from the shard's watches.
func (s *shard) unlist(w *Watch) {
	switch {
	case w.before != nil:
		w.before.next = w.next
	case w.next != nil:
		s.watched[w.h] = w.next
	default:
		if delete(s.watched, w.h); len(s.watched) == 0 {
			s.watched = nil
		}
	}
	if w.next != nil {
		w.next.before = w.before
	}
	w.before, w.next, w.listed = nil, nil, false
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.listed {
		w.s.unlist(w)
	}
}

// Key returns the key that is watched.
func (w *Watch) Key() []byte { return w.key }

// Changed reports, in a step on its key, whether that has changed since the watch began: it
// was stored, also with the same state, removed, evicted or flushed, or it has expired. In
// an engine other than the watch's, it has.
func (w *Watch) Changed(t *Txn) bool {
	it, err := t.item(w.key)
	t.watches = true
	return err != nil || it.s != w.s || w.changed || w.there && it.kind == 0
}

// touch notes that a state is being stored.
func (s *shard) touch(sp *table.Spot) {
	for w := s.watched[sp.Hash]; w != nil; {
		next := w.next
		if bytes.Equal(w.key, sp.Key) {
			w.changed = true
			s.unlist(w)
		}
		w = next
	}
}
