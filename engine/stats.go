package engine

import "limitdb/internal/stats"

// Stats is the sum of all shards' counters since the start.
type Stats = stats.Engine

// Stats adds up the shards' counters.
func (e Figures) Stats() Stats {
	var sum Stats
	e.AddStats(&sum, 0, len(e.shards))
	return sum
}

// AddStats adds the counters of at most that many shards, beginning with shard
// from, to sum. It returns the next shard, or 0 after the last one. To take
// Stats in steps, begin with shard 0 and a zero sum, or with the sum of other engines.
func (e Figures) AddStats(sum *Stats, from, shards int) (next int) {
	last := min(len(e.shards), from+shards)
	for i := from; i < last; i++ {
		e.shards[i].addTo(sum)
	}
	if last < len(e.shards) {
		return last
	}
	sum.Bytes += e.Bytes()
	return 0
}

// Bytes returns the memory taken from the system, as in Stats.Bytes.
func (e Figures) Bytes() int64 { return e.arena.Used() }

func (s *shard) addTo(sum *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table.Stats()
	sum.Keys += int64(t.Keys)
	sum.Allowed += s.allowed
	sum.Limited += s.limited
	sum.Peeked += s.peeked
	sum.Refunded += s.refunded
	sum.Refused += s.refused
	sum.Expired += t.Expired
	sum.Evicted += t.Evicted
	sum.EvictedDenied += t.EvictedDenied
	sum.Forgiven += t.Forgiven
	waiting, keys, waited := s.waits.Figures()
	sum.Waiting += int64(waiting)
	sum.WaitingKeys += int64(keys)
	sum.Waited += waited
	sum.HoldsTaken += s.held[holdsTaken]
	sum.HoldsSettled += s.held[holdsSettled]
	sum.HoldsOver += s.held[holdsOver]
	sum.HoldsReturned += s.held[holdsReturned]
	sum.OnceRepeated += s.held[onceRepeated]
	sum.Blocks += s.held[blocksBegun]
}
