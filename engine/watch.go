package engine

import (
	"bytes"

	"limitdb/engine/table"
)

// Watching keys for changes, for transactions that must not run if one of their
// keys has changed.
//
// A shard keeps the watches of its keys in a list, and whatever stores a state
// looks at that list: a comparison with nil as long as nobody watches a key of the
// shard. Removal, eviction and expiry need no such look: a key that was there is
// then absent, or was stored again.

// Watch watches a key from the moment at which it was made.
type Watch struct {
	s       *shard
	h       uint64
	key     []byte
	there   bool // the key was live
	changed bool
	next    *Watch // in the shard's list
}

// Watch begins to watch key. The caller ends it with Stop.
func (e *Engine) Watch(now int64, key []byte) *Watch {
	h, s := e.place(key)
	w := &Watch{s: s, h: h, key: bytes.Clone(key)}
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := table.Spot{Hash: h, Key: w.key}
	s.open(now, &sp)
	w.there, w.next = sp.Found(), s.watched
	s.watched = w
	return w
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for p := &w.s.watched; *p != nil; p = &(*p).next {
		if *p == w {
			*p = w.next
			return
		}
	}
}

// Key returns the key that is watched.
func (w *Watch) Key() []byte { return w.key }

// Changed reports whether the key of a watch, which is one of those that were
// given to Update, has changed since the watch began: it was stored, also with the
// same state, removed, evicted or flushed, or it has expired. In an engine other
// than the watch's, it has.
func (t *Txn) Changed(w *Watch) bool {
	it, err := t.item(w.key)
	return err != nil || it.s != w.s || w.changed || w.there && it.kind == 0
}

// touch notes that a state is being stored.
func (s *shard) touch(sp *table.Spot) {
	for w := s.watched; w != nil; w = w.next {
		if w.h == sp.Hash && bytes.Equal(w.key, sp.Key) {
			w.changed = true
		}
	}
}
