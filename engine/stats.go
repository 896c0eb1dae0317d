package engine

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
	sum.Waiting += int64(s.waits.waiting)
	sum.WaitingKeys += int64(len(s.waits.queues) + len(s.waits.lines))
	sum.Waited += s.waits.waited
}
