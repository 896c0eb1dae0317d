package engine

import "limitdb/limit"

// maxWalk is the most keys of a table that a transaction walks over: it bounds the
// time for which all shards are locked to some 100 ms.
const maxWalk = 1 << 20

// Each calls fn for every key, as the transaction has made it, until fn returns
// false. It needs all shards, as a key that was not declared does. key is valid
// only during the call; fn must not use the transaction. The errors are
// ErrUndeclared, and ErrTooMany for a table of more than a million keys.
func (t *Txn) Each(fn func(key []byte, kind limit.Kind) bool) error {
	if t.undeclared || len(t.shards) < len(t.e.shards) {
		t.undeclared = true
		return ErrUndeclared
	}
	keys := 0
	for i := range t.e.shards {
		if keys += t.e.shards[i].table.Stats().Keys; keys > maxWalk {
			return ErrTooMany
		}
	}
	written := map[string]bool{}
	for i := range t.items {
		it := &t.items[i]
		if !it.written || it.Grow {
			continue
		}
		written[string(it.Key)] = true
		if it.kind != 0 && !fn(it.Key, it.kind) {
			return nil
		}
	}
	more, cursor := true, uint64(0)
	for more {
		_, cursor = t.e.shardAt(cursor).table.Walk(t.now, cursor, walkChunk, func(key []byte, info Info) {
			if more && !written[string(key)] {
				more = fn(key, info.Kind)
			}
		})
		more = more && cursor != 0
	}
	return nil
}
