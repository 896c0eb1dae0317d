package engine

import (
	"math"

	"limitdb/engine/table"
	"limitdb/hold"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// A table comes back from disk in three steps: Expect, then Restore for all
// records, from as many goroutines as there are shares, then Tidy.
//
// Nearly every key that comes back is in far memory: nobody has asked for it
// yet, and a snapshot is in the order of another seed's hashes. So Restore
// prefetches the memory of a batch of keys before it handles the first. Each
// goroutine has its own shards, so it neither waits for another's lock nor
// takes cache lines away from it. A table that knows how many keys to expect is
// not split and copied again and again while it fills.

// leastKey is less than the memory of any key, in bytes.
const leastKey = 16

// Expect prepares an empty engine for that many keys. It creates the segments
// that the engine would have grown for them, with indexes of the right size.
// Each expected key that does not come costs some 7 bytes until Tidy. Keys
// beyond the expected number cost nothing extra. Sweep, called with times like
// now, skips these segments for some seconds. The error is one of the system;
// the engine is sound after it.
func (e Recovery) Expect(now, keys int64) error {
	if most, _ := e.arena.Limit(); most > 0 {
		keys = min(keys, most/leastKey)
	}
	each := int(min(max(keys, 0)>>e.shardBits, math.MaxInt32))
	var err error
	e.eachShard(func(s *shard) {
		switch {
		case err != nil:
		case s.closed:
			err = ErrClosed
		default:
			err = s.table.Expect(s.clamp(now), each)
		}
	})
	return err
}

// Restore applies recovered changes in their order, ignores the budget, and
// does not record them. It handles only the keys of one share, numbered 0 to
// shares−1. Every key belongs to exactly one share, and calls for different
// shares may run at the same time. Errors: journal.ErrNewer for a kind that
// this version does not know, ErrKey, and those of the system. The changes
// before the one at fault have then been applied.
func (e Recovery) Restore(changes []journal.Record, share, shares int) error {
	b := recovered{e: e.core}
	for i := range changes {
		h, _ := e.place(changes[i].Key)
		if int(h>>(64-e.shardBits))*shares>>e.shardBits != share {
			continue
		}
		if b.n == table.BatchSize {
			if err := b.apply(); err != nil {
				return err
			}
		}
		b.changes[b.n], b.keys[b.n], b.places[b.n] = &changes[i], changes[i].Key, Place(h)
		b.n++
	}
	return b.apply()
}

// recovered is a batch of changes that are applied together.
type recovered struct {
	e       *core
	n       int
	changes [table.BatchSize]*journal.Record
	keys    [table.BatchSize][]byte
	places  [table.BatchSize]Place
	batch   table.Batch
}

// apply applies the changes of the batch and empties it.
func (b *recovered) apply() error {
	b.e.fetch(b.keys[:b.n], b.places[:b.n], &b.batch)
	for i, r := range b.changes[:b.n] {
		h := uint64(b.places[i])
		s := b.e.shardOf(h)
		if err := s.restore(h, r); err != nil {
			return err
		}
		if r.Op == journal.Change && s.hasMissed() {
			b.e.missing.Store(true)
		}
	}
	b.n = 0
	return nil
}

func (s *shard) restore(h uint64, r *journal.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	a := limit.Kind(r.Kind).Restored()
	sp := table.Spot{Hash: h, Key: r.Key}
	if a == limit.HOLDS {
		sp.Hash, sp.Beside = table.Beside(h), true
	}
	s.table.Find(&sp)
	if r.Op == journal.Change {
		return s.restoreChange(&sp, r)
	}
	s.found(r)
	switch {
	case r.Op == journal.Delete:
		if sp.Found() {
			s.table.Remove(&sp)
		}
		return nil
	case !a.Known():
		return unknownKind(r.Kind)
	}
	return s.table.Put(s.last, &sp, table.Unknown(a), r.State, true)
}

// Tidy frees what Expect has reserved for keys that did not come.
func (e Recovery) Tidy() {
	e.eachShard(func(s *shard) { s.table.Tidy() })
}

// AssumeUsedUp makes every key that is absent, or is forgotten later, count as
// if all of its limit had been taken then. It is for a restart after a
// crash that may have lost the last changes of unknown keys: no limit is
// exceeded then, however many changes were lost. It costs a new key a second
// decision.
func (e Recovery) AssumeUsedUp(then int64) {
	e.eachShard(func(s *shard) { s.usedUp = then })
}

// Sound returns an error for the state of a record of holds that cannot be read. Those of other kinds are found out when they are used.
func Sound(kind byte, state []byte) error {
	if limit.Kind(kind) == limit.HOLDS {
		return hold.Set(state).Check()
	}
	return nil
}
