package replication

import (
	"sync/atomic"

	"limitdb/internal/stats"
)

// writeTimes counts how long the writes of the log took, each with its syncs.
type writeTimes [stats.Buckets]atomic.Uint64

func (w *writeTimes) add(took int64) { w[stats.Bucket(took)].Add(1) }

// p99 returns the time, in ns, within which 99 of 100 writes were done; 0 if there were none.
func (w *writeTimes) p99() int64 {
	var h stats.Histogram
	for i := range w {
		h.Buckets[i] = w[i].Load()
	}
	if h.Count() == 0 {
		return 0
	}
	return h.Quantile(0.99)
}

// groupSizes is a running mean of the sizes of the groups that the node has proposed, in bytes: each new group counts
// for a sixteenth.
type groupSizes struct{ mean16 uint64 }

func (g *groupSizes) add(bytes int) { g.mean16 += uint64(bytes) - g.mean16/16 }

func (g *groupSizes) mean() uint64 { return g.mean16 / 16 }
