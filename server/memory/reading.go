// Package memory has MEMORY, and reads how much memory the process and the machine have.
package memory

import (
	"fmt"
	"os"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// Reading holds the last reading of the process's memory from the system. A reading is
// expensive, so there is at most one every memoryEvery.
type Reading struct {
	mu               sync.Mutex // guards all below
	at               int64      // ns of Unix time; 0: never
	rss, heap, total uint64

	peak atomic.Uint64 // the most bytes in use so far
}

const memoryEvery = int64(100 * time.Millisecond)

// Read returns the bytes of resident memory, of Go's heap and of the machine. They are at most a
// tenth of a second old.
func (m *Reading) Read(now int64) (rss, heap, total uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == 0 || now-m.at >= memoryEvery {
		m.at, m.rss, m.heap, m.total = now, ResidentBytes(), heapBytes(), TotalMemory()
	}
	return m.rss, m.heap, m.total
}

// Peak notes that so many bytes are in use, and returns the most that there have been.
func (m *Reading) Peak(used uint64) uint64 {
	for {
		before := m.peak.Load()
		if used <= before || m.peak.CompareAndSwap(before, used) {
			return max(used, before)
		}
	}
}

// heapBytes returns the bytes of the objects on the Go heap.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// ResidentBytes returns the process's resident memory, or 0 if /proc does not have it.
func ResidentBytes() uint64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident uint64
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return 0
	}
	return resident * uint64(os.Getpagesize())
}
