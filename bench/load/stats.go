package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// shards is the number of locks over which the figures are spread. A histogram for each connection would take
// 200 kB of memory each.
const shards = 8

// figures has the counts and latencies of an interval.
type figures struct {
	latency, lag             *hdrhistogram.Histogram // in ns
	requests, errors, denied uint64
	firstError               string
}

// longest is the maximum latency that the histogram records; longer ones count as this.
const longest = time.Hour

func newFigures() *figures {
	// From 64 ns on, three digits.
	h := func() *hdrhistogram.Histogram { return hdrhistogram.New(100, int64(longest), 3) }
	return &figures{latency: h(), lag: h()}
}

func (f *figures) reset() {
	f.latency.Reset()
	f.lag.Reset()
	f.requests, f.errors, f.denied = 0, 0, 0
}

func (f *figures) add(o *figures) {
	f.latency.Merge(o.latency)
	f.lag.Merge(o.lag)
	f.requests += o.requests
	f.errors += o.errors
	f.denied += o.denied
	if f.firstError == "" {
		f.firstError = o.firstError
	}
}

// shard is where some of the connections count.
type shard struct {
	mu     sync.Mutex // guards recent
	recent *figures
	spare  *figures // empty; swapped with recent
}

// record counts the replies of g, all with the same latency.
func (s *shard) record(d time.Duration, g got, firstError string) {
	s.mu.Lock()
	f := s.recent
	// The value is always in range, so there is no error.
	_ = f.latency.RecordValues(clamp(d), int64(g.replies))
	f.requests += g.replies
	f.denied += g.limited
	if g.errors > 0 {
		f.errors += g.errors
		f.firstError = firstError
	}
	s.mu.Unlock()
}

// recordLag counts how late a request was sent.
func (s *shard) recordLag(d time.Duration) {
	s.mu.Lock()
	_ = s.recent.lag.RecordValue(clamp(d))
	s.mu.Unlock()
}

func clamp(d time.Duration) int64 { return int64(min(max(d, 0), longest)) }

// stats gathers the figures of the shards. Only one goroutine calls collect.
type stats struct {
	shards []*shard
	total  *figures
}

func newStats(connections int) *stats {
	s := &stats{total: newFigures()}
	for range min(connections, shards) {
		s.shards = append(s.shards, &shard{recent: newFigures(), spare: newFigures()})
	}
	return s
}

func (s *stats) shard(index int) *shard { return s.shards[index%len(s.shards)] }

// collect adds the counts since the last call to the total, and returns them. It holds a lock only to
// swap two pointers, because merging takes long enough to show in a latency.
func (s *stats) collect() *figures {
	interval := newFigures()
	for _, sh := range s.shards {
		sh.mu.Lock()
		sh.recent, sh.spare = sh.spare, sh.recent
		sh.mu.Unlock()
		interval.add(sh.spare)
		sh.spare.reset()
	}
	s.total.add(interval)
	return interval
}
