// Package pubsub keeps the subscriptions of clients and finds the receivers of a message. It knows
// no connection and no protocol.
package pubsub

import (
	"slices"
	"sync"

	"limitdb/internal/glob"
)

// A Kind is one of three kinds of subscription. Each kind has its own names.
type Kind uint8

// The kinds of subscription.
const (
	Channel Kind = iota
	Pattern
	Shard
	Kinds // their number
)

// The limits of one client's subscriptions.
const (
	MaxNames = 1024
	MaxBytes = 64 << 10 // of all names together
)

// Subscriptions holds the subscriptions of one session. Only the session changes them, so it
// reads them without the lock; other goroutines take the lock. Topics must be set.
type Subscriptions struct {
	Topics *Topics // the server's
	Owner  any     // whose subscriptions they are, for Receivers
	count  int     // of all kinds
	bytes  int     // of all names

	mu    sync.Mutex // guards names against PUBSUB of other sessions
	names [Kinds]map[string]struct{}
}

// Len returns the number of names of all kinds.
func (b *Subscriptions) Len() int { return b.count }

// Bytes returns the total length of all names.
func (b *Subscriptions) Bytes() int { return b.bytes }

// Has reports whether b has a subscription to name. Only the session may call it.
func (b *Subscriptions) Has(kind Kind, name []byte) bool {
	_, ok := b.names[kind][string(name)]
	return ok
}

// Add subscribes to name. It returns false if there is no room.
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
	b.Topics.join(kind, string(name), b)
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
	b.Topics.leave(kind, string(name), b)
	b.count--
	b.bytes -= len(name)
}

// Clear ends all subscriptions.
func (b *Subscriptions) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind, names := range b.names {
		for name := range names {
			b.Topics.leave(Kind(kind), name, b)
		}
	}
	b.names = [Kinds]map[string]struct{}{}
	b.count, b.bytes = 0, 0
}

// Heard reports whether b has a subscription to name. Any goroutine may call it.
func (b *Subscriptions) Heard(kind Kind, name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.names[kind][name]
	return ok
}

// Counts returns the number of names of each kind. Any goroutine may call it.
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

// Shown returns the count to show in replies about kind. Channels and patterns are counted
// together, shard channels by themselves.
func (b *Subscriptions) Shown(kind Kind) int64 {
	if kind == Shard {
		return int64(len(b.names[Shard]))
	}
	return int64(len(b.names[Channel]) + len(b.names[Pattern]))
}

// Topics knows the subscribers of every name of each kind. Any goroutine may call its methods.
type Topics struct {
	mu    sync.Mutex // guards names
	names [Kinds]map[string]*topic
}

// topic is one name.
type topic struct {
	subs    map[*Subscriptions]struct{}
	pattern *glob.Pattern // of a Pattern that is valid
}

func (t *Topics) join(kind Kind, name string, b *Subscriptions) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names[kind] == nil {
		t.names[kind] = make(map[string]*topic)
	}
	at := t.names[kind][name]
	if at == nil {
		at = &topic{subs: make(map[*Subscriptions]struct{})}
		if kind == Pattern {
			at.pattern, _ = glob.Compile(name)
		}
		t.names[kind][name] = at
	}
	at.subs[b] = struct{}{}
}

func (t *Topics) leave(kind Kind, name string, b *Subscriptions) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.names[kind][name]
	if at == nil {
		return
	}
	if delete(at.subs, b); len(at.subs) == 0 {
		delete(t.names[kind], name)
	}
}

// Receiver is a subscription that a message is for.
type Receiver struct {
	Owner   any
	Pattern string // the pattern that the channel matches; "" for a channel itself
	Kind    Kind
}

// Receivers returns the subscriptions that a message is for: on a Channel those to the channel
// and those to patterns that it matches, on a Shard channel those to it.
func (t *Topics) Receivers(kind Kind, channel []byte) (all []Receiver) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := t.names[kind][string(channel)]; at != nil {
		for b := range at.subs {
			all = append(all, Receiver{Owner: b.Owner, Kind: kind})
		}
	}
	if kind != Channel {
		return all
	}
	for name, at := range t.names[Pattern] {
		if at.pattern == nil || !at.pattern.Match(channel) {
			continue
		}
		for b := range at.subs {
			all = append(all, Receiver{Owner: b.Owner, Pattern: name, Kind: Pattern})
		}
	}
	return all
}

// Count returns the number of subscribers of name.
func (t *Topics) Count(kind Kind, name []byte) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := t.names[kind][string(name)]; at != nil {
		return int64(len(at.subs))
	}
	return 0
}

// Len returns the number of names.
func (t *Topics) Len(kind Kind) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.names[kind])
}
