// Package engine keeps the state of every key in a lock-striped table and runs
// one atomic step of an algorithm under one shard's lock. Time is an argument
// of every call, in nanoseconds of Unix time.
//
// A key's hash, seeded for each process, is its place on a line: the top bits
// choose the shard and the next ones the bucket. Every walk (Range, Sweep)
// follows that line, so its cursor is a place on it and means the same
// whatever the shards' tables have become since.
package engine

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"limitdb/limit"
)

// ErrWrongType is returned when a live key holds the state of another
// algorithm family.
var ErrWrongType = errors.New("engine: key holds another kind of state")

const (
	defaultShards = 256
	maxShards     = 1 << 16
)

// Options configures an Engine. Zero fields mean the default that the comment names.
type Options struct {
	// Shards is the number of stripes, rounded up to a power of two, at most
	// 65 536; 0 means 256.
	Shards int
	// Seed seeds the hash; 0 means a random seed for this process.
	Seed uint64
}

// Info describes one live key.
type Info struct {
	Algorithm limit.Algorithm
	// Expires is the Unix time in nanoseconds from which the state no longer matters.
	Expires int64
	// Bytes is what the key costs in the table.
	Bytes int64
}

// Stats is the sum of all shards' counters since the start.
type Stats struct {
	Keys                               int64
	Bytes                              int64 // of the table, exactly
	Allowed, Limited, Peeked, Refunded uint64
	Expired                            uint64 // keys dropped because their time had come
}

// Engine is the table. All methods may be called from any goroutine.
type Engine struct {
	shards    []shard
	shardBits uint
	seed      uint64

	// sweepAt is the place on the line where the next Sweep goes on.
	sweepAt atomic.Uint64
	// draws numbers the calls of Random, so that each looks elsewhere.
	draws atomic.Uint64
}

// New returns an empty engine.
func New(o Options) *Engine {
	n := o.Shards
	if n <= 0 {
		n = defaultShards
	}
	n = min(n, maxShards)
	shardBits := uint(bits.Len(uint(n - 1)))
	e := &Engine{shards: make([]shard, 1<<shardBits), shardBits: shardBits, seed: o.Seed}
	for e.seed == 0 {
		e.seed = rand.Uint64()
	}
	for i := range e.shards {
		e.shards[i].table = newTable(shardBits)
	}
	return e
}

// place returns the key's place on the line and the shard that owns it.
func (e *Engine) place(key []byte) (uint64, *shard) {
	h := xxh3.HashSeed(key, e.seed)
	return h, &e.shards[h>>(64-e.shardBits)]
}

// Take decides whether cost may be taken from key at now, and takes it if so.
// Errors: ErrWrongType and those of limit.Take; after an error nothing has changed.
func (e *Engine) Take(now int64, key []byte, l *limit.Limit, cost int64) (limit.Decision, error) {
	h, s := e.place(key)
	return s.take(h, now, key, l, cost)
}

// Peek answers as Take would and changes nothing. Its errors are those of Take.
func (e *Engine) Peek(now int64, key []byte, l *limit.Limit, cost int64) (limit.Decision, error) {
	h, s := e.place(key)
	return s.peek(h, now, key, l, cost)
}

// Refund gives cost back, never above full; a key that is full again is
// forgotten. Its errors are those of Take.
func (e *Engine) Refund(now int64, key []byte, l *limit.Limit, cost int64) (limit.Decision, error) {
	h, s := e.place(key)
	return s.refund(h, now, key, l, cost)
}

// Reset forgets key and tells whether it was live at now.
func (e *Engine) Reset(now int64, key []byte) bool {
	h, s := e.place(key)
	return s.reset(h, now, key)
}

// Info tells about key, or false where it is not live at now.
func (e *Engine) Info(now int64, key []byte) (Info, bool) {
	h, s := e.place(key)
	return s.info(h, now, key)
}

// Flush forgets every key, one shard after the other.
func (e *Engine) Flush() {
	for i := range e.shards {
		e.shards[i].flush()
	}
}

// Stats adds up the shards' counters.
func (e *Engine) Stats() Stats {
	var sum Stats
	for i := range e.shards {
		e.shards[i].addTo(&sum)
	}
	return sum
}
