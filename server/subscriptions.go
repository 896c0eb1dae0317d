package server

import (
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
	count int // of all kinds
	bytes int // of all names

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
	b.count--
	b.bytes -= len(name)
}

func (b *subscriptions) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
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

// subscribers counts, for every name of a kind, the clients that subscribe to it.
func (srv *Server) subscribers(kind subKind) map[string]int64 {
	all := make(map[string]int64)
	srv.clients.each(func(s *session) {
		if s.pub.subscribed.Load() == 0 {
			return
		}
		for _, name := range s.subs.list(kind) {
			all[name]++
		}
	})
	return all
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
	s.pub.subscribed.Store(int32(s.subs.count))
	s.pub.subBytes.Store(int64(s.subs.bytes + s.subs.count*subOverhead))
}
