package stats

// Engine has the figures of an engine: the sum of all shards' counters since the start.
type Engine struct {
	Keys  int64
	Bytes int64 // memory taken from the system, exactly
	// Decisions: a request for several limits is one. Refused counts those that
	// ended with ErrOOM instead.
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
	// HoldsTaken counts the estimates that were held, HoldsSettled those that were settled, HoldsOver those of
	// them that cost more than was left, and HoldsReturned those that went back when their time was over.
	HoldsTaken, HoldsSettled, HoldsOver, HoldsReturned uint64
	// OnceRepeated counts requests with ONCE that had been granted before.
	OnceRepeated uint64
	// Blocks counts the blocks that began.
	Blocks uint64
}
