package serve

import (
	"bytes"
	"slices"
	"sync"

	"limitdb/internal/journal"
	"limitdb/persistence"
	"limitdb/server"
	"limitdb/state"
)

// rulesKind is the kind of the records that rules keep with the data: their text, if they were set by command, the
// secret that is hashed with long identities, and what they have counted. Users that were set by command are kept in the same way.
const rulesKind = byte(state.Rules)

// keptRules holds the records that rules keep with the data: as a part of the store, or of a node's table.
type keptRules struct {
	mu      sync.Mutex // guards all below
	values  map[string][]byte
	changed []string // names whose values are to be cut
	cut     []string // names that have been cut, to be drained
	version uint64
	dirtied func() // nil while nothing is kept
	// follows is set while another node of the cluster decides. Only clear and apply change the values then.
	follows bool
}

// The names of the values.
const (
	rulesText     = "text"
	rulesSecret   = "secret"
	rulesCounters = "counters"
	usersText     = "users"
)

// keep keeps the text of rules that were set by command, unless it is nil, and the secret, unless one is kept. Both
// are in the same cut. On a node of a cluster that does not lead, it keeps nothing and returns server.ErrNotLeading.
func (k *keptRules) keep(text []byte, secret [16]byte) error {
	return k.change(func() {
		if text != nil {
			k.put(rulesText, text)
		}
		if len(k.values[rulesSecret]) != len(secret) {
			k.put(rulesSecret, secret[:])
		}
	})
}

// keepCounters stores the counters of the rules, unless they have not changed or another node leads.
func (k *keptRules) keepCounters(counters []byte) {
	_ = k.change(func() {
		if !bytes.Equal(counters, k.values[rulesCounters]) {
			k.put(rulesCounters, counters)
		}
	})
}

// change runs by, which may put values, with the lock held. While another node decides, it returns server.ErrNotLeading.
func (k *keptRules) change(by func()) error {
	k.mu.Lock()
	if k.follows {
		k.mu.Unlock()
		return server.ErrNotLeading
	}
	before := k.version
	by()
	changed, dirtied := k.version != before, k.dirtied
	k.mu.Unlock()
	if changed && dirtied != nil {
		dirtied()
	}
	return nil
}

// put sets a value. The lock is held.
func (k *keptRules) put(name string, value []byte) {
	if k.values == nil {
		k.values = map[string][]byte{}
	}
	k.values[name] = bytes.Clone(value)
	k.version++
	if !slices.Contains(k.changed, name) {
		k.changed = append(k.changed, name)
	}
}

// text returns the text of the rules, nil if none were set by command.
func (k *keptRules) text() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.values[rulesText]
}

// counters returns the stored counters of the rules, or nil if there are none.
func (k *keptRules) counters() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.values[rulesCounters]
}

// secret returns the secret, and whether one is kept.
func (k *keptRules) secret() (secret [16]byte, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.values[rulesSecret]
	copy(secret[:], b)
	return secret, len(b) == len(secret)
}

// clear forgets everything.
func (k *keptRules) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.values, k.changed, k.cut = nil, nil, nil
}

// The functions of a persistence.Part.

func (k *keptRules) dirty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.changed) > 0
}

func (k *keptRules) cutOff() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut, k.changed = append(k.cut, k.changed...), nil
}

func (k *keptRules) drain(dst *journal.Buffer, _ int) (more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range k.cut {
		dst.Set(k.version, rulesKind, []byte(name), k.values[name])
	}
	k.cut = nil
	return false
}

func (k *keptRules) copyTo(dst *journal.Buffer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, value := range k.values {
		dst.Set(k.version, rulesKind, []byte(name), value)
	}
}

// apply takes the values of records of rulesKind, and returns the others.
func (k *keptRules) apply(records []journal.Record) (others []journal.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(records, func(r journal.Record) bool {
		if r.Kind != rulesKind {
			return false
		}
		if k.values == nil {
			k.values = map[string][]byte{}
		}
		if delete(k.values, string(r.Key)); r.Op == journal.Set {
			k.values[string(r.Key)] = bytes.Clone(r.State)
		}
		return true
	})
}

// follow makes keep refuse changes until resume, as another node of the cluster decides.
func (k *keptRules) follow() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.follows, k.dirtied = true, nil
}

// resume allows changes; each of them calls dirtied from now on.
func (k *keptRules) resume(version uint64, dirtied func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version, k.dirtied, k.follows = max(k.version, version), dirtied, false
}

// part returns k as a part of the store of a standalone server.
func (k *keptRules) part() persistence.Part {
	return persistence.Part{
		Owns:   func(kind byte) bool { return kind == rulesKind },
		Dirty:  k.dirty,
		Cut:    k.cutOff,
		Drain:  k.drain,
		Copy:   func(_ uint64, dst *journal.Buffer) uint64 { k.copyTo(dst); return 0 },
		Expect: func(int64) error { return nil },
		Apply: func(records []journal.Record, share, _ int) error {
			if share == 0 {
				k.apply(slices.Clone(records))
			}
			return nil
		},
		Resume: func(version uint64, _ *journal.Gate, dirtied func()) { k.resume(version, dirtied) },
	}
}
