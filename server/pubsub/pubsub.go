// Package pubsub keeps who has subscribed to what. It knows no client and no protocol, and nothing
// is ever published.
package pubsub

import (
	"maps"
	"slices"
	"sync"
)

// A Kind is one of three kinds of subscription. Each has names of its own.
type Kind uint8

// The kinds there are.
const (
	Channel Kind = iota
	Pattern
	Shard
	Kinds // their number
)

// What one client may subscribe to: nothing is ever published, so that more than a
// library's few channels only takes memory.
const (
	MaxNames = 1024
	MaxBytes = 64 << 10 // of all names together
)

// Subscriptions is what one session has subscribed to. Only the session itself
// changes it, so that it reads without the lock; others read under it. Topics must be set.
type Subscriptions struct {
	Topics *Topics // the server's
	count  int     // of all kinds
	bytes  int     // of all names

	mu    sync.Mutex // guards names against PUBSUB of other sessions
	names [Kinds]map[string]struct{}
}

// Len returns how many names there are, of all kinds.
func (b *Subscriptions) Len() int { return b.count }

// Bytes returns how long all names are together.
func (b *Subscriptions) Bytes() int { return b.bytes }

// Has reports whether name is subscribed to.
func (b *Subscriptions) Has(kind Kind, name []byte) bool {
	_, ok := b.names[kind][string(name)]
	return ok
}

// Add subscribes to name. It returns false where there is no room.
func (b *Subscriptions) Add(kind Kind, name []byte) bool {
	if b.Has(kind, name) {
		return true
	}
	if b.count >= MaxNames || b.bytes+len(name) > MaxBytes {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.names[kind] == nil {
		b.names[kind] = make(map[string]struct{})
	}
	b.names[kind][string(name)] = struct{}{}
	b.Topics.add(kind, string(name), 1)
	b.count++
	b.bytes += len(name)
	return true
}

// Remove ends the subscription to name, if there is one.
func (b *Subscriptions) Remove(kind Kind, name []byte) {
	if !b.Has(kind, name) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.names[kind], string(name))
	b.Topics.add(kind, string(name), -1)
	b.count--
	b.bytes -= len(name)
}

// Clear ends all subscriptions.
func (b *Subscriptions) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind, names := range b.names {
		for name := range names {
			b.Topics.add(Kind(kind), name, -1)
		}
	}
	b.names = [Kinds]map[string]struct{}{}
	b.count, b.bytes = 0, 0
}

// Heard reports whether name is subscribed to. Any goroutine may call it.
func (b *Subscriptions) Heard(kind Kind, name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.names[kind][name]
	return ok
}

// Counts returns how many names of each kind there are. Any goroutine may call it.
func (b *Subscriptions) Counts() (n [Kinds]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind := range n {
		n[kind] = len(b.names[kind])
	}
	return n
}

// List returns the names of a kind in order. Any goroutine may call it.
func (b *Subscriptions) List(kind Kind) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]string, 0, len(b.names[kind]))
	for name := range b.names[kind] {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Shown returns the count in replies about kind: channels and patterns are
// counted together, shard channels by themselves.
func (b *Subscriptions) Shown(kind Kind) int64 {
	if kind == Shard {
		return int64(len(b.names[Shard]))
	}
	return int64(len(b.names[Channel]) + len(b.names[Pattern]))
}

// Topics counts, for every name of each kind, the clients that subscribe to it. Any goroutine may call
// its methods.
type Topics struct {
	mu    sync.Mutex // guards names
	names [Kinds]map[string]int64
}

// add adds n, 1 or -1, to the subscribers of name.
func (t *Topics) add(kind Kind, name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names[kind] == nil {
		t.names[kind] = make(map[string]int64)
	}
	if t.names[kind][name] += n; t.names[kind][name] == 0 {
		delete(t.names[kind], name)
	}
}

// Count returns the number of subscribers of name.
func (t *Topics) Count(kind Kind, name []byte) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[kind][string(name)]
}

// Len returns the number of names.
func (t *Topics) Len(kind Kind) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.names[kind])
}

// All returns the names, in no order.
func (t *Topics) All(kind Kind) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.names[kind]))
}
