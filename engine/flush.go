package engine

import "limitdb/engine/wait"

// Flush forgets every key in one step. Later calls of Sweep return the memory
// to the system, unless new keys use it.
func (e Upkeep) Flush() {
	f := e.BeginFlush()
	f.Step(len(e.shards))
}

// Flushing is a Flush that has forgotten the keys but has not yet freed all
// memory.
type Flushing struct{ e *core }

// BeginFlush forgets every key in one step of all shards, so that a transaction
// happens wholly before it or wholly after it. It only sets the tables aside,
// which takes well under a microsecond for each shard. Step frees their memory.
func (e Upkeep) BeginFlush() Flushing {
	e.flushing.Lock() // two flushes at once would get the same version
	defer e.flushing.Unlock()
	e.eachShard((*shard).payOwed) // pays for most keys before all shards are locked
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
	return Flushing{e.core}
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

// flush forgets all keys. It records version. The shard is locked.
func (s *shard) flush(version uint64) {
	s.payOwed()
	s.table.Flush()
	*s.following = following{}
	clear(s.skip[:])
	if c := s.changes; c != nil {
		c.flushed(version)
	}
	s.waits.LastTurns(func(t *wait.Turn) { s.keepTurns(s.last, t) })
	s.waits.Stir()
}
