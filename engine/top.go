package engine

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"

	"limitdb/engine/table"
)

// TopKey is a key in the result of Top.
type TopKey struct {
	// Key is the key. If it is longer than 82 bytes, it is the first 82, three
	// dots, and eight digits that distinguish it from other keys with the same
	// beginning.
	Key []byte
	// Count is how often the key came lately; see Top.
	Count int64
}

// Top returns the keys that were denied, or asked for, most often lately, the
// most frequent first. It returns at most n, and only those of one namespace
// unless namespace is nil. A key's namespace is the part before its first
// colon; a key without a colon is in the empty namespace.
//
// A count is how often the key came in this minute of the clock, plus half of
// the count in the minute before, a quarter of the one before that, and so on.
// If a shard has up to 256 decisions, or denials, a minute, the count is not
// above the truth, and below it by at most a twelfth of all that the shard has
// had. Beyond 256, the shard looks at one in 128 and counts it as 128. See
// sketch.
func (e Figures) Top(now int64, by TopOrder, n int, namespace []byte) []TopKey {
	var in func(key []byte, length int) bool
	if namespace != nil {
		in = InNamespace(namespace)
	}
	top, _ := e.AddTop(nil, now, by, n, in, 0, len(e.shards))
	return top
}

// AddTop adds the keys of at most that many shards, beginning with shard from,
// to top, which is in order, and cuts it to n keys. It leaves out keys for which in
// returns false, unless that is nil; in gets the first 82 bytes of a key and its
// length. AddTop also returns the next shard, or 0 after the last one. To take Top in
// steps, begin with shard 0 and no keys.
func (e Figures) AddTop(top []TopKey, now int64, by TopOrder, n int, in func(key []byte, length int) bool, from, shards int) (all []TopKey, next int) {
	last := min(len(e.shards), from+shards)
	for i := from; i < last; i++ {
		s := &e.shards[i]
		s.mu.Lock()
		t := &s.following[by]
		t.age(s.clamp(now))
		t.each(func(h uint64, key []byte, length int, count uint32) {
			if in == nil || in(key, length) {
				top = append(top, TopKey{shown(h, key, length), int64(count)})
			}
		})
		s.mu.Unlock()
	}
	slices.SortFunc(top, func(a, b TopKey) int {
		if a.Count != b.Count {
			return cmp.Compare(b.Count, a.Count)
		}
		return bytes.Compare(a.Key, b.Key)
	})
	if len(top) > n {
		clear(top[n:])
		top = top[:n]
	}
	if last == len(e.shards) {
		last = 0
	}
	return top, last
}

// InNamespace returns what reports to AddTop whether a key is in a namespace.
func InNamespace(namespace []byte) func(key []byte, length int) bool {
	return func(key []byte, length int) bool { return isIn(namespace, key, length) }
}

// isIn reports whether a key is in a namespace. The key has length bytes; key
// holds its first ones.
func isIn(namespace, key []byte, length int) bool {
	own, _, found := bytes.Cut(key, []byte(":"))
	if !found {
		return len(namespace) == 0 && length == len(key)
	}
	return bytes.Equal(own, namespace)
}

// Shown returns what Top shows of a key, which is the key itself unless it is
// long.
func (e Figures) Shown(key []byte) []byte {
	if len(key) <= sketchText {
		return key
	}
	h, _ := e.place(key)
	return shown(h, key[:sketchText], len(key))
}

// shown returns the text to show for a key of length bytes; key holds its first
// ones.
func shown(h uint64, key []byte, length int) []byte {
	if length == len(key) {
		return bytes.Clone(key)
	}
	h = table.Mix(h) // do not reveal the hash itself
	text := append(bytes.Clone(key), "..."...)
	return hex.AppendEncode(text, []byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)})
}
