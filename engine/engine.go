// Package engine keeps the state of every key in a lock-striped table and runs
// one atomic step of an algorithm under one shard's lock. Time is an argument
// of every call, in nanoseconds of Unix time.
package engine

import (
	"errors"

	"limitdb/limit"
)

// ErrWrongType is returned when a live key holds the state of another
// algorithm family.
var ErrWrongType = errors.New("engine: key holds another kind of state")

// Options configures an Engine. Zero fields mean the default that the comment names.
type Options struct {
	// Shards is the number of stripes, rounded up to a power of two; 0 means 256.
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
type Engine struct{}

// New returns an empty engine.
func New(o Options) *Engine { return &Engine{} }

// Take decides whether cost may be taken from key at now, and takes it if so.
// Errors: ErrWrongType and those of limit.Take; after an error nothing has changed.
func (e *Engine) Take(now int64, key []byte, l *limit.Limit, cost int64) (limit.Decision, error) {
	return limit.Decision{}, nil
}

// Peek answers as Take would and changes nothing.
func (e *Engine) Peek(now int64, key []byte, l *limit.Limit, cost int64) (limit.Decision, error) {
	return limit.Decision{}, nil
}

// Refund gives cost back, never above full.
func (e *Engine) Refund(now int64, key []byte, l *limit.Limit, cost int64) (limit.Decision, error) {
	return limit.Decision{}, nil
}

// Reset forgets key and tells whether it was live at now.
func (e *Engine) Reset(now int64, key []byte) bool { return false }

// Info tells about key, or false where it is not live at now.
func (e *Engine) Info(now int64, key []byte) (Info, bool) { return Info{}, false }

// Range visits live keys from cursor on (0 starts), about count slots of the
// table, and returns the next cursor (0: the end). A key that is live during
// the whole iteration is visited at least once, whatever grows or shrinks
// meanwhile. key is valid during the call only; fn must not call the engine.
func (e *Engine) Range(now int64, cursor uint64, count int, fn func(key []byte, info Info)) uint64 {
	return 0
}

// Random appends a random live key to dst, or returns false when there is none.
func (e *Engine) Random(now int64, dst []byte) ([]byte, bool) { return dst, false }

// Flush forgets every key.
func (e *Engine) Flush() {}

// Sweep drops expired keys, looking at about budget slots, and returns how
// many it dropped. It holds one shard's lock at a time, each for a bounded
// number of slots. Call it from a background ticker.
func (e *Engine) Sweep(now int64, budget int) int { return 0 }

// Stats adds up the shards' counters.
func (e *Engine) Stats() Stats { return Stats{} }
