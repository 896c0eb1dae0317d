package engine

import (
	"sync/atomic"
	"unsafe"

	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// changes is a shard's buffer. Like the shards, it is padded so that two cores
// do not share a cache line of it.
type changes struct {
	changesData
	_ [(128 - unsafe.Sizeof(changesData{})%128) % 128]byte
}

// changesData is the contents of the buffer. The shard's lock guards its fields except
// pending.
type changesData struct {
	journal *changeLog
	// version numbers the shard's changes.
	version uint64
	buf     journal.Buffer
	// owed holds the keys whose long states have changed since the last cut.
	owed map[name]owed
	// noted is how many bytes of states owed has noted.
	noted int
	// parts holds the sizes of the Changes of keys since the last cut.
	parts map[name]int
	// was is the long LOG that a step changes, because the step does so in place.
	was limit.Since
	// splices is scratch of payState.
	splices []byte
	// due has the records that the last cut owes, until Drain has taken them.
	due debt
	// full, spare and aside belong to Cut and Drain: the records that were set
	// aside, a buffer for the next records, and whether Drain has anything left
	// to do.
	full  journal.Buffer
	spare []byte
	aside bool
	// pending is set if there are records, so that Cut need not lock shards in
	// which nothing has happened.
	pending atomic.Bool
}

// name is that of a record: its key, and whether it is the one beside that of the key.
type name struct {
	key    string
	beside bool
}

// owed is a long state for which there is no record yet.
type owed struct {
	hash uint64 // of its key
	kind limit.Kind
	// since is the state that the records give the key; nil if its next record must
	// have the whole state.
	since *limit.Since
}

// debt is the set of records of long states that a cut owes.
type debt struct {
	// keys are the keys that have no record yet.
	keys map[name]owed
	// paid holds the records of the other keys.
	paid journal.Buffer
	// version is the version of these records. It is above those of all changes
	// before the cut and below those of all changes after it.
	version uint64
}

// changeLog is what all shards' buffers share.
type changeLog struct {
	gate *journal.Gate
	// dirty is set if a cut would find something. It is set before a change
	// becomes visible.
	dirty  atomic.Bool
	notify func()
	// notes is how many bytes of states a shard notes at least, before it notes no more.
	notes int
	// floor is the time of RecordWhole.
	floor atomic.Int64
}

// set appends the record of a key's new state and returns its offset.
func (c *changes) set(a limit.Kind, key, state []byte) (offset int) {
	c.begin()
	offset = len(c.buf.Bytes)
	c.buf.Set(c.version, byte(a), key, state)
	return offset
}

// forget appends the record that a key has gone and returns its offset.
func (c *changes) forget(a limit.Kind, key []byte) (offset int) {
	c.begin()
	offset = len(c.buf.Bytes)
	c.buf.Delete(c.version, byte(a), key)
	return offset
}

// owe notes that a key has a new state, which comes from that of since, or is to be
// recorded whole if since is nil.
func (c *changes) owe(a limit.Kind, sp *table.Spot, since *limit.Since) {
	c.begin()
	if c.owed == nil {
		c.owed = map[name]owed{}
	}
	if o := c.owed[name{string(sp.Key), sp.Beside}]; o.kind != a || o.since != since {
		c.owed[name{string(sp.Key), sp.Beside}] = owed{sp.Hash, a, since}
	}
}

func (c *changes) begin() {
	c.version++
	if len(c.buf.Bytes) > 0 || c.pending.Load() {
		return // the first record has already set pending
	}
	c.pending.Store(true)
	if !c.journal.dirty.Load() && c.journal.dirty.CompareAndSwap(false, true) {
		c.journal.notify()
	}
}

func (c *changes) setAside() {
	c.full, c.buf, c.spare, c.parts = c.buf, journal.Buffer{Bytes: c.spare[:0]}, nil, nil
	if len(c.owed) > 0 {
		c.version++
		c.due, c.owed, c.noted = debt{keys: c.owed, version: c.version}, nil, 0
	}
	c.aside = true
	c.pending.Store(false)
}

// flushed appends the record that all keys have gone, with version.
func (c *changes) flushed(version uint64) {
	c.begin()
	c.version = version
	c.owed, c.noted, c.parts = nil, 0, nil
	c.buf.Flush(version)
}
