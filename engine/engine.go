// Package engine keeps the state of every key in a lock-striped table. It runs
// each step of an algorithm atomically, under the lock of one shard. Time is an
// argument of every call, in nanoseconds of Unix time.
//
// A key's hash, seeded for each process, is its place on a line: the top bits
// choose the shard and the next ones the segment. Range and Sweep walk along
// that line. Their cursors are places on it, so a cursor stays valid when the
// shards' tables grow or shrink.
package engine

import (
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"unsafe"

	"limitdb/engine/table"
	"limitdb/limit"
)

// Errors that a call can return besides those of package limit. A call that
// returns one of them has changed nothing.
var (
	// ErrWrongType is returned when a live key holds the state of another
	// algorithm family.
	ErrWrongType = errors.New("engine: key holds another kind of state")
	// ErrKey is returned for a new key of more than MaxKey bytes.
	ErrKey = table.ErrKey
	// ErrOOM is returned when the memory budget has no room for a new key or
	// for a state that grows.
	ErrOOM = table.ErrOOM
)

// ErrClosed is returned by every decision after Close.
var ErrClosed = errors.New("engine: closed")

// MaxKey is the largest length of a key in bytes.
const MaxKey = table.MaxKey

// shardBytes is the size of a new shard in Go's heap.
const shardBytes = int(unsafe.Sizeof(shard{}) + unsafe.Sizeof(following{}))

const (
	defaultShards = 256
	maxShards     = 1 << 16
)

// Options configures an Engine. A zero field means the default that its comment
// names.
type Options struct {
	// Shards is the number of stripes, rounded up to a power of two, at most
	// 65 536; 0 means 256.
	Shards int
	// Seed seeds the hash; 0 means a random seed for this process.
	Seed uint64
	// MaxMemory is the memory budget in bytes; 0 means none. See SetMaxMemory.
	MaxMemory int64
	// Policy says what happens when the budget is used up; the zero value
	// refuses new keys.
	Policy Policy
}

// Info describes one live key.
type Info = table.Info

// Stats is the sum of all shards' counters since the start.
type Stats struct {
	Keys  int64
	Bytes int64 // memory taken from the system, exactly
	// Decisions. Refused counts those that ended with ErrOOM instead.
	Allowed, Limited, Peeked, Refunded, Refused uint64
	Expired                                     uint64 // keys dropped because they had expired
	Evicted                                     uint64 // keys dropped to stay within the memory budget
	// EvictedDenied counts the evicted keys whose callers were being denied.
	EvictedDenied uint64
	// Forgiven is the debt of the evicted keys: the sum of the times, in
	// nanoseconds, that they still needed to become full.
	Forgiven uint64
	// Waiting is the number of requests that wait now, on WaitingKeys keys.
	// Waited counts all that have ever had to wait.
	Waiting, WaitingKeys int64
	Waited               uint64
}

// Engine is the table. All methods may be called from any goroutine.
type Engine struct {
	shards    []shard
	shardBits uint
	seed      uint64
	mark      uint16 // see Mark

	// arena holds the memory of all shards, alarms the deadlines of their
	// queues.
	arena  *table.Arena
	alarms *alarms

	// sweepAt and squeezeAt are the places on the line where the next Sweep and
	// the next eviction for another shard's key continue.
	sweepAt, squeezeAt atomic.Uint64
	// barrenUntil is when reclaim may try again.
	barrenUntil atomic.Int64
	// journal is the part of the change log that the shards share; nil if
	// changes are not recorded.
	journal  atomic.Pointer[changeLog]
	flushing sync.Mutex // guards flushed
	flushed  uint64     // version of the last Flush
	// txns holds transactions (*Txn) for reuse.
	txns    sync.Pool
	buffers buffers
	// draws numbers the calls of Random, so that each looks in a different
	// place.
	draws atomic.Uint64
}

// New returns an empty engine. Its memory returns to the system at Close, or
// when the engine is garbage collected.
func New(o Options) *Engine {
	n := o.Shards
	if n <= 0 {
		n = defaultShards
	}
	n = min(n, maxShards)
	shardBits := uint(bits.Len(uint(n - 1)))
	e := &Engine{
		shards:    make([]shard, 1<<shardBits),
		shardBits: shardBits,
		seed:      o.Seed,
		mark:      uint16(rand.Uint32()),
		alarms:    newAlarms(),
	}
	for e.seed == 0 {
		e.seed = rand.Uint64()
	}
	all := make([]following, len(e.shards))
	e.arena = table.NewArena(len(e.shards) * shardBytes)
	for i := range e.shards {
		s := &e.shards[i]
		s.waits.alarms, s.buffers, s.following = e.alarms, &e.buffers, &all[i]
		s.table.Init(e.arena, &table.Owner{Evicting: s.evicting, Evicted: s.waits.stir, Holds: s.waits.hasLine}, e.seed, shardBits, i)
	}
	e.SetMaxMemory(o.MaxMemory, o.Policy)
	return e
}

// place returns the key's place on the line and the shard that owns it.
func (e *Engine) place(key []byte) (uint64, *shard) {
	h := table.Hash(key, e.seed)
	return h, &e.shards[h>>(64-e.shardBits)]
}

// Take decides whether cost may be taken from key at now, takes it if so, and
// writes the answer to *d, which is valid only if the error is nil. Errors:
// ErrWrongType, those of limit.Take, and for a new key ErrKey and ErrOOM. After
// an error nothing has changed.
func (e *Engine) Take(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	return e.TakeAt(0, now, key, l, cost, d)
}

// takeAgain continues a Take that returned err because the key's segment has no
// room or because others wait for the key. It returns any other error
// unchanged.
func (e *Engine) takeAgain(err error, now int64, h uint64, s *shard, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	if err == table.ErrNoRoom && e.reclaim(now) {
		err = s.take(now, h, key, l, cost, d)
	}
	if err == errBehind {
		_, err = e.ask(now, h, s, key, &Request{Limit: *l, Cost: cost}, nil, d)
	}
	return s.refuse(err)
}

// Peek answers as Take would and changes nothing. Its errors are ErrWrongType
// and those of limit.Peek.
func (e *Engine) Peek(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	h, s := e.place(key)
	return s.peek(now, h, key, l, cost, d)
}

// Refund gives cost back, but never beyond full. It forgets a key that is full
// again. Its errors are ErrWrongType and those of limit.Refund. For an absent
// key that counts as used up (see AssumeUsedUp), they are also ErrKey and
// ErrOOM.
func (e *Engine) Refund(now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	h, s := e.place(key)
	err := s.refund(now, h, key, l, cost, d)
	if err == table.ErrNoRoom && e.reclaim(now) {
		err = s.refund(now, h, key, l, cost, d)
	}
	return s.refuse(err)
}

// Reset forgets key and reports whether it was live at now.
func (e *Engine) Reset(now int64, key []byte) bool {
	h, s := e.place(key)
	return s.reset(now, h, key)
}

// Info returns what is known about key, and false if it is not live at now.
func (e *Engine) Info(now int64, key []byte) (Info, bool) {
	h, s := e.place(key)
	return s.info(now, h, key)
}

// Flush forgets every key in one step. Later calls of Sweep return the memory
// to the system, unless new keys use it.
func (e *Engine) Flush() {
	f := e.BeginFlush()
	f.Step(len(e.shards))
}

// Flushing is a Flush that has forgotten the keys but has not yet freed all
// memory.
type Flushing struct{ e *Engine }

// BeginFlush forgets every key in one step of all shards, so that a TakeAll
// happens wholly before it or wholly after it. It only sets the tables aside,
// which takes well under a microsecond for each shard. Step frees their memory.
func (e *Engine) BeginFlush() Flushing {
	e.flushing.Lock() // two flushes at once would get the same version
	defer e.flushing.Unlock()
	for i := range e.shards {
		e.shards[i].payAll() // pays for most keys before all shards are locked
	}
	if j := e.journal.Load(); j != nil {
		j.gate.Enter()
		defer j.gate.Leave()
	}
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		defer s.mu.Unlock()
		if c := s.changes; c != nil {
			e.flushed = max(e.flushed, c.version)
		}
	}
	e.flushed++
	for i := range e.shards {
		e.shards[i].flush(e.flushed)
	}
	return Flushing{e}
}

// Step frees the memory of at most that many shards, and reports whether none
// is left. Sweep frees the rest.
func (f *Flushing) Step(shards int) (done bool) {
	for ; shards > 0; shards-- {
		if !f.e.arena.Bury() {
			return true
		}
	}
	return false
}

// Close forgets every key without recording it, ends all waiting requests with
// ErrClosed, and returns the memory to the system. Every later decision returns
// ErrClosed, and walks find no keys. A call that runs during Close ends as if
// it had come before or after it.
func (e *Engine) Close() {
	e.flushing.Lock()
	defer e.flushing.Unlock()
	for i := range e.shards {
		e.shards[i].close()
	}
	for {
		q, _ := e.alarms.take(math.MaxInt64)
		if q == nil {
			break
		}
		q.shard.abandon(q)
	}
	for e.arena.Bury() {
	}
	for e.arena.Trim(true) {
	}
}

// Stats adds up the shards' counters.
func (e *Engine) Stats() Stats {
	var sum Stats
	e.AddStats(&sum, 0, len(e.shards))
	return sum
}

// AddStats adds the counters of at most that many shards, beginning with shard
// from, to sum. It returns the next shard, or 0 after the last one. To take
// Stats in steps, begin with shard 0 and a zero sum.
func (e *Engine) AddStats(sum *Stats, from, shards int) (next int) {
	last := min(len(e.shards), from+shards)
	for i := from; i < last; i++ {
		e.shards[i].addTo(sum)
	}
	if last < len(e.shards) {
		return last
	}
	sum.Bytes = e.Bytes()
	return 0
}

// Bytes returns the memory taken from the system, as in Stats.Bytes.
func (e *Engine) Bytes() int64 { return e.arena.Used() }
