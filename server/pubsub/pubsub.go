// Package pubsub keeps the subscriptions of clients, finds the receivers of a message, and has the commands to subscribe and publish. It
// knows no session.
package pubsub

import (
	"cmp"
	"slices"
	"sync"

	"limitdb/internal/glob"
	"limitdb/resp"
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

// nameSize is about how many bytes a subscription takes beside its name and a pattern.
const nameSize = 512

// Subscriptions holds the subscriptions of one session. Only the session changes them, so it
// reads them without the lock; other goroutines take the lock. Topics must be set.
type Subscriptions struct {
	Topics *Topics    // the server's
	Owner  Subscriber // whose subscriptions they are
	count  int        // of all kinds
	bytes  int        // of all names
	memory int        // that they take

	mu    sync.Mutex // guards names against PUBSUB of other sessions
	names [Kinds]map[string]*topic
}

// Len returns the number of names of all kinds.
func (b *Subscriptions) Len() int { return b.count }

// Bytes returns the total length of all names.
func (b *Subscriptions) Bytes() int { return b.bytes }

// Memory returns about how many bytes the subscriptions take. A pattern counts for each of its subscribers.
func (b *Subscriptions) Memory() int { return b.memory }

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
		b.names[kind] = make(map[string]*topic)
	}
	at := b.Topics.join(kind, string(name), b)
	b.names[kind][at.name] = at
	b.count++
	b.bytes += len(name)
	b.memory += at.size()
	return true
}

// Remove ends the subscription to name, if there is one.
func (b *Subscriptions) Remove(kind Kind, name []byte) {
	at := b.names[kind][string(name)]
	if at == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.names[kind], at.name)
	b.Topics.leave(kind, at, b)
	b.count--
	b.bytes -= len(name)
	b.memory -= at.size()
}

// Clear ends all subscriptions.
func (b *Subscriptions) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind, names := range b.names {
		for _, at := range names {
			b.Topics.leave(Kind(kind), at, b)
		}
	}
	b.names = [Kinds]map[string]*topic{}
	b.count, b.bytes, b.memory = 0, 0, 0
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

// Subscriber is a client that subscribes, as any goroutine may see it.
type Subscriber interface {
	// Proto returns the version of the protocol in which the client reads messages.
	Proto() resp.Proto
	// Deliver sends bytes that are not a reply.
	Deliver(b []byte)
	// CountSubs is called when the client has changed its subscriptions.
	CountSubs()
}

// Topics knows the subscribers of every name of each kind. Any goroutine may call its methods.
type Topics struct {
	mu    sync.Mutex // guards all below
	names [Kinds]map[string]*topic
	// patterns are those of names in the order of their ids, and those that are gone since. A Search goes from id to id, so
	// that it can take as many turns as it needs.
	patterns []*topic
	gone     int // of patterns, those without subscribers
	words    int // the Cost of one byte of a channel, for all patterns that have subscribers
	lastID   int64
}

// topic is one name.
type topic struct {
	name    string
	subs    map[*Subscriptions]struct{}
	pattern *glob.Pattern // of a Pattern that is valid
	id      int64         // of a Pattern
}

// size returns about how many bytes a subscription to the topic takes.
func (at *topic) size() int {
	n := nameSize + len(at.name)
	if at.pattern != nil {
		n += at.pattern.Size()
	}
	return n
}

// width returns the cost of matching one byte of a channel.
func (at *topic) width() int {
	if at.pattern == nil {
		return 0
	}
	return at.pattern.Cost(1)
}

func (t *Topics) join(kind Kind, name string, b *Subscriptions) *topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names[kind] == nil {
		t.names[kind] = make(map[string]*topic)
	}
	at := t.names[kind][name]
	if at == nil {
		at = &topic{name: name, subs: make(map[*Subscriptions]struct{})}
		if kind == Pattern {
			t.lastID++
			at.id = t.lastID
			at.pattern, _ = glob.Compile(name)
			t.patterns = append(t.patterns, at)
			t.words += at.width()
		}
		t.names[kind][name] = at
	}
	at.subs[b] = struct{}{}
	return at
}

func (t *Topics) leave(kind Kind, at *topic, b *Subscriptions) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(at.subs, b); len(at.subs) > 0 {
		return
	}
	delete(t.names[kind], at.name)
	if kind != Pattern {
		return
	}
	t.words -= at.width()
	if t.gone++; t.gone > len(t.patterns)/2 {
		t.patterns = slices.DeleteFunc(t.patterns, func(at *topic) bool { return len(at.subs) == 0 })
		t.gone = 0
	}
}

// Receiver is a subscription that a message is for.
type Receiver struct {
	Owner   Subscriber
	Pattern string // the pattern that the channel matches; "" for a channel itself
	Kind    Kind
}

// ReceiverSize is about how many bytes a Receiver takes.
const ReceiverSize = 40

// A Search finds the subscriptions that a message is for: on a Channel those to the channel and those to patterns that it
// matches, on a Shard channel those to it. Patterns may be many and a channel long, so it goes in steps.
type Search struct {
	Channel []byte
	All     []Receiver // what it has found so far
	topics  *Topics
	kind    Kind
	last    int64 // the id of the last pattern that it has looked at
	until   int64 // that of the last pattern when it began
	begun   bool
}

// searchStep is the cost of the patterns that a step of a Search matches. It takes some 100 µs.
const searchStep = 64 << 10

// patternCost is the cost of a pattern beside that of its Match.
const patternCost = 64

const (
	// searchMost is the most that all steps of a Search may cost together, some 25 ms, if the channel is longer than shortChannel.
	searchMost = 16 << 20
	// shortChannel is the length of a channel that no number of patterns makes too long.
	shortChannel = 128
)

// LongestChannel returns how many bytes the channel of a message may have now. The more patterns there are, and the longer they are, the
// fewer it may have.
func (t *Topics) LongestChannel() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(MaxBytes, max(shortChannel, searchMost/max(1, t.words)))
}

// Search begins to find the receivers of a message.
func (t *Topics) Search(kind Kind, channel []byte) Search {
	return Search{Channel: channel, topics: t, kind: kind}
}

// Step goes on searching, and reports whether all receivers have been found.
func (s *Search) Step() (done bool) {
	t := s.topics
	t.mu.Lock()
	defer t.mu.Unlock()
	if !s.begun {
		s.begun, s.until = true, t.lastID
		s.add(t.names[s.kind][string(s.Channel)], "", s.kind)
	}
	if s.kind != Channel || len(t.patterns) == 0 {
		return true
	}
	i, _ := slices.BinarySearchFunc(t.patterns, s.last+1, func(at *topic, id int64) int { return cmp.Compare(at.id, id) })
	for cost := 0; ; i++ {
		if i == len(t.patterns) || t.patterns[i].id > s.until {
			return true
		}
		if cost >= searchStep {
			return false
		}
		at := t.patterns[i]
		s.last = at.id
		cost += patternCost
		if at.pattern == nil || len(at.subs) == 0 {
			continue
		}
		if cost += at.pattern.Cost(len(s.Channel)); at.pattern.Match(s.Channel) {
			s.add(at, at.name, Pattern)
		}
	}
}

// add adds the subscribers of a topic, which may be nil.
func (s *Search) add(at *topic, pattern string, kind Kind) {
	if at == nil {
		return
	}
	for b := range at.subs {
		s.All = append(s.All, Receiver{Owner: b.Owner, Pattern: pattern, Kind: kind})
	}
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
