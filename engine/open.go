package engine

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"unsafe"

	"limitdb/engine/table"
	"limitdb/engine/wait"
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

// New returns an empty engine. Its memory returns to the system at Close, or
// when the engine is garbage collected.
func New(o Options) *Engine {
	n := o.Shards
	if n <= 0 {
		n = defaultShards
	}
	n = min(n, maxShards)
	shardBits := uint(bits.Len(uint(n - 1)))
	e := &Engine{core: core{
		shards:    make([]shard, 1<<shardBits),
		shardBits: shardBits,
		seed:      o.Seed,
		mark:      uint16(rand.Uint32()),
		alarms:    wait.NewAlarms(),
	}}
	e.Waits, e.Journal, e.Walks = Waits{&e.core}, Journal{&e.core}, Walks{&e.core}
	e.Recovery, e.Figures, e.Upkeep = Recovery{&e.core}, Figures{&e.core}, Upkeep{&e.core}
	for e.seed == 0 {
		e.seed = rand.Uint64()
	}
	all := make([]following, len(e.shards))
	e.arena = table.NewArena(len(e.shards) * shardBytes)
	for i := range e.shards {
		s := &e.shards[i]
		s.waits.Init(e.alarms, i)
		s.buffers, s.following = &e.buffers, &all[i]
		s.table.Init(e.arena, &table.Owner{Evicting: s.evicting, Evicted: s.waits.Stir, Holds: s.waits.HasLine}, e.seed, shardBits, i)
	}
	e.SetMaxMemory(o.MaxMemory, o.Policy)
	return e
}

// Close forgets every key without recording it, ends all waiting requests with
// ErrClosed, and returns the memory to the system. Every later decision returns
// ErrClosed, and walks find no keys. A call that runs during Close ends as if
// it had come before or after it.
func (e Upkeep) Close() {
	e.flushing.Lock()
	defer e.flushing.Unlock()
	e.closed.Store(true)
	e.eachShard(func(s *shard) {
		s.closed = true
		s.table.Flush()
		*s.following = following{}
	})
	for {
		q, _ := e.alarms.Pop(math.MaxInt64)
		if q == nil {
			break
		}
		e.serve(math.MinInt64, q)
	}
	for e.arena.Bury() {
	}
	for e.arena.Trim(true) {
	}
}

const (
	defaultShards = 256
	maxShards     = 1 << 16
)

// shardBytes is the size of a new shard in Go's heap.
const shardBytes = int(unsafe.Sizeof(shard{}) + unsafe.Sizeof(following{}))
