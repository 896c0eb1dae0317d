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
	"sync"
	"sync/atomic"

	"limitdb/engine/table"
	"limitdb/engine/wait"
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

// Engine is the table. Its own methods are those that decide on keys: in a
// step that the caller writes (UpdateAt), or by the fast way of the most common step (TakeAt). The others
// are in groups. All methods may be called from any goroutine.
type Engine struct {
	core
	Waits
	Journal
	Walks
	Recovery
	Figures
	Upkeep
}

// The groups of an engine's methods.
type (
	// Waits has the requests that wait: see Txn.Ask.
	Waits struct{ *core }
	// Journal has the changes, for those who keep them elsewhere: see journal.go.
	Journal struct{ *core }
	// Walks has the walks over all keys: see scan.go.
	Walks struct{ *core }
	// Recovery has what brings a table back: see restore.go.
	Recovery struct{ *core }
	// Figures has what an engine tells of itself.
	Figures struct{ *core }
	// Upkeep has what happens to the table as a whole.
	Upkeep struct{ *core }
)

// core is what all of them share.
type core struct {
	shards    []shard
	shardBits uint
	seed      uint64
	mark      uint16 // see Mark

	// arena holds the memory of all shards, alarms the deadlines of their
	// queues.
	arena  *table.Arena
	alarms *wait.Alarms

	// closed is set before Close takes the first lock.
	closed atomic.Bool

	// sweepAt is the place on the line where the next Sweep continues.
	sweepAt atomic.Uint64
	// goneBack is told of estimates that go back when their time is over; nil: nobody is.
	goneBack func(*GoneBack)
	// barrenUntil is when reclaim may look for expired keys again.
	barrenUntil atomic.Int64
	squeezing   squeezing
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
	// zones has those of the limits of holds.
	zones limit.Zones
	// missing is set if Missed has to look.
	missing atomic.Bool
}

// place returns the key's place on the line and the shard that owns it.
func (e *core) place(key []byte) (uint64, *shard) {
	h := table.Hash(key, e.seed)
	return h, e.shardOf(h)
}

// shardOf returns the shard of a key with hash h.
func (e *core) shardOf(h uint64) *shard { return &e.shards[h>>(64-e.shardBits)] }

// eachShard calls fn for each shard, under its lock.
func (e *core) eachShard(fn func(s *shard)) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		fn(s)
		s.mu.Unlock()
	}
}

// shardAt returns the shard of a cursor.
func (e *core) shardAt(cursor uint64) *shard {
	return &e.shards[cursor>>(table.PlaceBits-e.shardBits)]
}

// GoneBack is an estimate that has gone back because its time was over.
type GoneBack struct {
	Now      int64 // in Unix ns
	Key, ID  []byte
	Estimate int64 // what was held
	Returned int64 // how much of it still counted
}

// TellGoneBack has fn told of each estimate that goes back because its time is over. It is called under the lock of a shard, so fn must not
// use the engine, nor keep the key. Call TellGoneBack before the first decision.
func (e *Engine) TellGoneBack(fn func(*GoneBack)) { e.goneBack = fn }
