package engine

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"

	"limitdb/limit"
)

// TopOrder is what Top ranks keys by.
type TopOrder uint8

// By what Top can rank: how often a key was denied, or asked for at all.
const (
	ByLimited TopOrder = iota
	ByRequests
	topOrders
)

// TopKey is a key that Top tells of.
type TopKey struct {
	// Key is the key as it is, or if it is longer than 82 bytes the first ones,
	// three dots, and eight digits that tell it from others which begin so.
	Key []byte
	// Count is how often it was, lately: see Top.
	Count int64
}

// following are a shard's sketches. They are not in the shard itself: shards so
// far apart would have their first lines compete for the same places in the
// processor's caches.
type following [topOrders]sketch

// count counts a decision that asked for something, and tells whether follow is
// to be called.
func (s *shard) count(d *limit.Decision) (follow bool) {
	s.skip[ByRequests]--
	if !d.Limited {
		s.allowed++
		return s.skip[ByRequests] < 0
	}
	s.limited++
	s.skip[ByLimited]--
	return s.skip[ByRequests]|s.skip[ByLimited] < 0
}

// countDenied counts a denial that no algorithm has made: others are before it.
func (s *shard) countDenied(now int64, h uint64, key []byte) {
	if s.count(&limit.Decision{Limited: true}) {
		s.follow(now, h, key)
	}
}

// follow notes key where it is to be looked at.
func (s *shard) follow(now int64, h uint64, key []byte) {
	for by := range s.following {
		if s.skip[by] < 0 {
			s.skip[by] = s.following[by].note(now, h, key)
		}
	}
}

// Top tells which keys were denied, or asked for, most often of late, the most
// frequent first: at most n, and of one namespace only, unless that is nil. A
// namespace is what stands in a key before its first colon; keys without one are
// of the empty namespace.
//
// A count says how often in this minute of the clock, with half of the count in
// the minute before, a quarter of the one before that, and so on. Where a shard
// has up to 256 decisions, or denials, a minute, it is not above the truth, and
// below it by a twelfth of all that the shard has had at most; beyond that, one in
// 128 is looked at, and counts for 128. See sketch.
func (e *Engine) Top(now int64, by TopOrder, n int, namespace []byte) []TopKey {
	var all []TopKey
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		t := &s.following[by]
		t.age(s.clamp(now))
		t.each(func(h uint64, key []byte, length int, count uint32) {
			if namespace == nil || isIn(namespace, key, length) {
				all = append(all, TopKey{shown(h, key, length), int64(count)})
			}
		})
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b TopKey) int {
		if a.Count != b.Count {
			return cmp.Compare(b.Count, a.Count)
		}
		return bytes.Compare(a.Key, b.Key)
	})
	return all[:min(n, len(all))]
}

// isIn tells whether a key of so many bytes, of which these are the first, is in
// a namespace.
func isIn(namespace, key []byte, length int) bool {
	own, _, found := bytes.Cut(key, []byte(":"))
	if !found {
		return len(namespace) == 0 && length == len(key)
	}
	return bytes.Equal(own, namespace)
}

// shown is a copy of a key of so many bytes, of which these are the first.
func shown(h uint64, key []byte, length int) []byte {
	if length == len(key) {
		return bytes.Clone(key)
	}
	h = mix(h) // the hash itself is nobody's business
	text := append(bytes.Clone(key), "..."...)
	return hex.AppendEncode(text, []byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)})
}
