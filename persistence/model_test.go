package persistence

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"limitdb/internal/journal"
)

// table is a Part in plain Go: a map for each shard.
type table struct {
	shards []*tableShard
	// onCopy is called between two steps of a copy, unless it is nil.
	onCopy func()
	// perStep is how many keys a step of Copy takes.
	perStep int
	// onCut is called after each shard is cut, unless it is nil.
	onCut func()
}

type tableShard struct {
	mu      sync.Mutex
	version uint64
	pending journal.Buffer
	aside   journal.Buffer // what the last cut set aside
	states  map[string]value
	missed  map[string]int64 // see Part.Missed
}

type value struct {
	kind  byte
	state []byte
}

func newTable(shards int) *table {
	t := &table{perStep: 3}
	for range shards {
		t.shards = append(t.shards, &tableShard{states: map[string]value{}})
	}
	return t
}

func keyOf(n int) string { return fmt.Sprintf("key:%04d", n) }

func (t *table) index(key []byte) int {
	n := 0
	for _, c := range key {
		n = n*31 + int(c)
	}
	return n % len(t.shards)
}

func (t *table) shard(key []byte) *tableShard { return t.shards[t.index(key)] }

// recover applies a change without a record of it.
func (t *table) recover(r *journal.Record) {
	s := t.shard(r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Op == journal.Change {
		s.recoverChange(r)
		return
	}
	delete(s.missed, string(r.Key))
	if r.Op == journal.Delete {
		delete(s.states, string(r.Key))
		return
	}
	s.states[string(r.Key)] = value{r.Kind, slices.Clone(r.State)}
}

// inParts returns the kind of a key whose states change in parts.
func inParts(key string) byte {
	return []byte{66, 96, 25, 17}[key[len(key)-1]%4]
}

func (s *tableShard) recoverChange(r *journal.Record) {
	e, v, kind := r.Edit(), s.states[string(r.Key)], inParts(string(r.Key))
	revision, n := journal.Revision(e.Head), journal.HeadSize(kind)
	switch {
	case v.kind == kind && int32(journal.Revision(v.state[:n])-revision) >= 0:
	case v.kind == kind && journal.Revision(v.state[:n])+1 == revision && len(v.state)-n == e.Before:
		body := e.Apply(append(make([]byte, 0, e.Most), v.state[n:]...))
		s.states[string(r.Key)] = value{kind, slices.Concat(e.Head, body)}
	default:
		if s.missed == nil {
			s.missed = map[string]int64{}
		}
		s.missed[string(r.Key)] = r.Expires()
		return
	}
	delete(s.missed, string(r.Key))
}

// change replaces bytes of the body of a key's state, which is of inParts and long, and returns the new state.
func (t *table) change(key string, expires int64, at, del int, ins []byte) []byte {
	s := t.shard([]byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	kind := inParts(key)
	n := journal.HeadSize(kind)
	old := s.states[key].state
	head := stateAt(expires, old[8:n]...)
	journal.SetRevision(head, journal.Revision(old[:n])+1)
	body := old[n:]
	state := slices.Concat(head, body[:at], ins, body[at+del:])
	s.pending.Change(s.version, kind, []byte(key), head, len(body), journal.AppendSplice(nil, at, del, ins))
	s.states[key] = value{kind, state}
	return state
}

// holds returns the body of a key's state that can be changed in part, or nil.
func (t *table) holds(key string, now int64) []byte {
	s := t.shard([]byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.states[key]; v.kind == inParts(key) && journal.CanChange(v.kind, v.state) && expiresAt(v.state) > now {
		return v.state[journal.HeadSize(v.kind):]
	}
	return nil
}

// missed returns a key that lacks the state that was changed.
func (t *table) missed(now int64) (key string, ok bool) {
	for _, s := range t.shards {
		for key, expires := range s.missed {
			if expires > now {
				return key, true
			}
		}
	}
	return "", false
}

func (t *table) set(kind byte, key string, state []byte) {
	s := t.shard([]byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.states[key] = value{kind, slices.Clone(state)}
	s.pending.Set(s.version, kind, []byte(key), state)
}

func (t *table) delete(key string) {
	s := t.shard([]byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	v, there := s.states[key]
	if !there {
		return
	}
	s.version++
	delete(s.states, key)
	s.pending.Delete(s.version, v.kind, []byte(key))
}

// flush removes all keys, and calls between after each shard.
func (t *table) flush(between func()) {
	v := uint64(0)
	for _, s := range t.shards {
		s.mu.Lock()
		v = max(v, s.version)
		s.mu.Unlock()
	}
	v += 1 << 32
	for _, s := range t.shards {
		s.mu.Lock()
		s.version = v
		clear(s.states)
		s.pending.Flush(v)
		s.mu.Unlock()
		between()
	}
}

// retire drops the records of changes, as a table without a journal does.
func (t *table) retire() {
	for _, s := range t.shards {
		s.version = 0
		s.pending.Reset(0)
	}
}

func (t *table) part() Part {
	return Part{
		Owns: func(kind byte) bool { return kind < 100 },
		Dirty: func() bool {
			for _, s := range t.shards {
				s.mu.Lock()
				n := s.pending.Records
				s.mu.Unlock()
				if n > 0 {
					return true
				}
			}
			return false
		},
		Cut: func() {
			for _, s := range t.shards {
				s.mu.Lock()
				s.aside.Add(&s.pending)
				s.pending.Reset(0)
				s.mu.Unlock()
				if t.onCut != nil {
					t.onCut()
				}
			}
		},
		Drain:  t.drain,
		Copy:   t.copy,
		Expect: func(int64) error { return nil },
		Apply: func(records []journal.Record, share, shares int) error {
			for _, r := range records {
				if t.index(r.Key)%shares == share {
					t.recover(&r)
				}
			}
			return nil
		},
		Resume: func(version uint64, _ *journal.Gate, _ func()) {
			for _, s := range t.shards {
				s.version = version
			}
		},
	}
}

// drain adds records of one shard after the other, and stops between two shards, or after the last, once dst
// has limit bytes.
func (t *table) drain(dst *journal.Buffer, limit int) (more bool) {
	for _, s := range t.shards {
		dst.Add(&s.aside)
		s.aside.Reset(0)
		if len(dst.Bytes) >= limit {
			return true
		}
	}
	return false
}

// copy walks the keys of each shard in the order of their numbers. A cursor consists of a shard and the
// number of the next key.
func (t *table) copy(cursor uint64, dst *journal.Buffer) (next uint64) {
	if t.onCopy != nil {
		t.onCopy()
	}
	at, from := int(cursor>>32), int(uint32(cursor))
	s := t.shards[at]
	s.mu.Lock()
	defer s.mu.Unlock()
	var numbers []int
	for k := range s.states {
		n, _ := strconv.Atoi(k[len("key:"):])
		if n >= from {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if i == t.perStep {
			return uint64(at)<<32 | uint64(n)
		}
		v := s.states[keyOf(n)]
		dst.Set(s.version, v.kind, []byte(keyOf(n)), v.state)
	}
	if at+1 == len(t.shards) {
		return 0
	}
	return uint64(at+1) << 32
}

// get returns the key's state, or nil.
func (t *table) get(key string) []byte {
	s := t.shard([]byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[key].state
}

func (t *table) len() int {
	n := 0
	for _, s := range t.shards {
		n += len(s.states)
	}
	return n
}

// stateAt returns a state that expires at a time, followed by more.
func stateAt(expires int64, more ...byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(expires)), more...)
}

// history has the past states of each key, and which of them must not be lost.
type history struct {
	keys [][][]byte // the states of each key in order; nil means none
	safe []int      // for each key, the first of its states that may be found
	seen []int      // for each key, how many of its states the last start may have found
}

func newHistory(keys int) *history {
	h := &history{keys: make([][][]byte, keys), safe: make([]int, keys), seen: make([]int, keys)}
	for i := range h.keys {
		h.keys[i] = [][]byte{nil}
	}
	return h
}

func (h *history) add(n int, state []byte) { h.keys[n] = append(h.keys[n], state) }

// mark returns the number of the last state of every key.
func (h *history) mark() []int {
	m := make([]int, len(h.keys))
	for i := range m {
		if len(h.keys[i]) > h.seen[i] {
			m[i] = len(h.keys[i]) - 1
		}
	}
	return m
}

// ack records that the marked states must not be lost.
func (h *history) ack(mark []int) {
	for i := range mark {
		h.safe[i] = max(h.safe[i], mark[i])
	}
}

// check compares the recovered state, from which the store continues at now, with the states that are possible. The history
// continues from there.
func (h *history) check(t *table, now int64) error {
	for i := range h.keys {
		got := t.get(keyOf(i))
		if got != nil && expiresAt(got) <= now {
			got = nil
		}
		var found [][]byte
		for _, s := range h.keys[i][h.safe[i]:] {
			gone := s == nil || expiresAt(s) <= now
			if gone && got == nil || !gone && bytes.Equal(got, s) {
				found = append(found, s) // an expired one too: the next start may be at an earlier time
			}
		}
		if found == nil {
			return fmt.Errorf("%s is %x, want one of %x (of %x), at %d", keyOf(i), got, h.keys[i][h.safe[i]:], h.keys[i], now)
		}
		h.keys[i] = found
		h.safe[i], h.seen[i] = 0, len(found)
	}
	return nil
}

func expiresAt(state []byte) int64 { return int64(binary.LittleEndian.Uint64(state)) }

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
