package replication

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"limitdb/internal/journal"
)

// All nodes have the same states at the same index of the log. To check this, each node hashes its table at certain
// indexes. These are indexes of idle batches, when nothing is in flight, at replicated times that all nodes choose
// alike. The hash does not depend on the order of the states.

const (
	// hashMargin is the remaining time below which a state does not count, because nodes remove expired states at
	// different moments.
	hashMargin = 10 * time.Second
	// hashShare bounds hashing, with its rests, to one part in this many of a node's time.
	hashShare = 25
)

// hashed is a hash of the table's states at an index.
type hashed struct{ index, sum uint64 }

// hashes is the state of a node's hashing. The replica's lock guards all but changed.
type hashes struct {
	done    hashed
	period  int64         // in seconds of the replicated time, a power of two
	running bool          // a hash is being computed
	changed atomic.Uint64 // counts the groups that have changed the table
}

// hashAt starts a hash of the table as it is at an index, if one is due. The lock is held.
func (r *replica) hashAt(index uint64) {
	h := &r.hashes
	if h.running || r.rebuilding || r.failed || r.machine.clock/int64(time.Second)%max(h.period, 1) != 0 {
		return
	}
	changed, broken, clock := h.changed.Load(), r.broken, r.machine.clock
	h.running = r.life.start(func() {
		time.Sleep(restMax) // until then a busy cluster has changed the table
		began := r.clock.Elapsed()
		p := pace{r.clock.Elapsed, began}
		sum, ended := hashTable(r.table, clock+int64(hashMargin), func() (useful bool) {
			p.rest()
			return h.changed.Load() == changed && !stopped(r.stop)
		})
		took := r.clock.Elapsed() - began
		r.mu.Lock()
		defer r.mu.Unlock()
		h.running = false
		if !ended {
			return
		}
		h.period = hashPeriod(h.period, took)
		if h.changed.Load() == changed && r.broken == broken && r.primary.logged() {
			h.done = hashed{index, sum}
		}
	})
}

// hashPeriod returns the seconds until the next hash: a power of two, so that nodes with different periods still choose
// some of the same times. before is the current period, and took is how long the last hash took, in ns. One hash at
// most doubles the period. Otherwise a process that was stopped during a hash would show no hash for a long time.
func hashPeriod(before, took int64) int64 {
	most, period := 2*max(before, 1), int64(1)
	for period < most && period*int64(time.Second) < hashShare*took {
		period *= 2
	}
	return period
}

// hashTable returns the sum of the hashes of all states that have not expired at the time at. Before each step it asks
// whether the sum is still useful, and gives up if not: all nodes hash at the same moment, and in a busy cluster they
// would take the processors from its decisions.
func hashTable(t Table, at int64, useful func() bool) (sum uint64, ended bool) {
	var buf journal.Buffer
	var b []byte
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		if !useful() {
			return 0, false
		}
		buf.Reset(0)
		cursor = t.Copy(at, cursor, &buf)
		for rest := buf.Bytes; len(rest) > 0; {
			r, after, err := journal.Parse(rest)
			if err != nil {
				return 0, false // the table has made it
			}
			rest = after
			if journal.Timed(r.Kind) && len(r.State) >= 8 && int64(binary.LittleEndian.Uint64(r.State)) <= at {
				continue
			}
			b = append(append(append(b[:0], r.Kind, byte(len(r.Key)), byte(len(r.Key)>>8)), r.Key...), r.State...)
			sum += xxh3.Hash(b)
		}
	}
	return sum, true
}
