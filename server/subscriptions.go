package server

import (
	"maps"
	"slices"
	"sync"
)

// The three kinds of subscription, each with names of its own.
type subKind uint8

const (
	subChannel subKind = iota
	subPattern
	subShard
	subKinds
)

// What one client may subscribe to: nothing is ever published, so that more than a
// library's few channels only takes memory.
const (
	subsMost      = 1024
	subsBytesMost = 64 << 10 // of all names together
)

// subscriptions is what one session has subscribed to. Only the session itself
// changes it, so that it reads without the lock; others read under it.
type subscriptions struct {
	count  int     // of all kinds
	bytes  int     // of all names
	topics *topics // the server's

	mu    sync.Mutex // guards names against PUBSUB of other sessions
	names [subKinds]map[string]struct{}
}

// has tells whether name is subscribed to.
func (b *subscriptions) has(kind subKind, name []byte) bool {
	_, ok := b.names[kind][string(name)]
	return ok
}

// add subscribes to name; false: there is no room.
func (b *subscriptions) add(kind subKind, name []byte) bool {
	if b.has(kind, name) {
		return true
	}
	if b.count >= subsMost || b.bytes+len(name) > subsBytesMost {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.names[kind] == nil {
		b.names[kind] = make(map[string]struct{})
	}
	b.names[kind][string(name)] = struct{}{}
	b.topics.count(kind, string(name), 1)
	b.count++
	b.bytes += len(name)
	return true
}

func (b *subscriptions) remove(kind subKind, name []byte) {
	if !b.has(kind, name) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.names[kind], string(name))
	b.topics.count(kind, string(name), -1)
	b.count--
	b.bytes -= len(name)
}

func (b *subscriptions) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind, names := range b.names {
		for name := range names {
			b.topics.count(subKind(kind), name, -1)
		}
	}
	b.names = [subKinds]map[string]struct{}{}
	b.count, b.bytes = 0, 0
}

// heard reports whether name is subscribed to. Any goroutine may call it.
func (b *subscriptions) heard(kind subKind, name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.names[kind][name]
	return ok
}

// counts returns how many names of each kind there are. Any goroutine may call it.
func (b *subscriptions) counts() (n [subKinds]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind := range n {
		n[kind] = len(b.names[kind])
	}
	return n
}

// list returns the names of a kind in order. Any goroutine may call it.
func (b *subscriptions) list(kind subKind) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]string, 0, len(b.names[kind]))
	for name := range b.names[kind] {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// shown is the count that replies about kind carry: channels and patterns are
// counted together, shard channels by themselves.
func (b *subscriptions) shown(kind subKind) int64 {
	if kind == subShard {
		return int64(len(b.names[subShard]))
	}
	return int64(len(b.names[subChannel]) + len(b.names[subPattern]))
}

// topics counts, for every name of each kind, the clients that subscribe to it.
type topics struct {
	mu    sync.Mutex // guards names
	names [subKinds]map[string]int64
}

// count adds n, 1 or -1, to the subscribers of name.
func (t *topics) count(kind subKind, name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names[kind] == nil {
		t.names[kind] = make(map[string]int64)
	}
	if t.names[kind][name] += n; t.names[kind][name] == 0 {
		delete(t.names[kind], name)
	}
}

// of returns the number of subscribers of name.
func (t *topics) of(kind subKind, name []byte) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[kind][string(name)]
}

// len returns the number of names.
func (t *topics) len(kind subKind) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.names[kind])
}

// all returns the names, in no order.
func (t *topics) all(kind subKind) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.names[kind]))
}

// dropSubscriptions ends them all without a reply, for RESET.
func (s *session) dropSubscriptions() {
	s.subs.clear()
	s.publishSubs()
}

// subOverhead is about what a map holds for a name beyond its bytes.
const subOverhead = 64

// publishSubs lets others know how much there is now.
func (s *session) publishSubs() {
	before := s.pub.subscribed.Swap(int32(s.subs.count))
	switch now := int32(s.subs.count); {
	case before == 0 && now > 0:
		s.srv.subscribed.Add(1)
	case before > 0 && now == 0:
		s.srv.subscribed.Add(-1)
	}
	s.pub.subBytes.Store(int64(s.subs.bytes + s.subs.count*subOverhead))
}
