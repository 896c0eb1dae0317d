package stats

import "sync/atomic"

// Latency counts durations as a Histogram does. It is split into parts, so that cores rarely write to the same cache
// line. Any goroutine may call its methods.
type Latency struct{ parts []durations }

// NewLatency returns a Latency for writers that number themselves from 0 up to parts.
func NewLatency(parts int) *Latency { return &Latency{make([]durations, parts)} }

// Sum adds up the parts.
func (l *Latency) Sum() (h Histogram) {
	for i := range l.parts {
		l.parts[i].addTo(&h)
	}
	return h
}

// durations is a Histogram that is counted in.
type durations struct {
	ns      atomic.Uint64
	buckets [Buckets]atomic.Uint64
	_       [8]byte // up to a cache line
}

// add counts n durations of each nanoseconds.
func (d *durations) add(each int64, n uint32) {
	d.ns.Add(uint64(each) * uint64(n))
	d.buckets[Bucket(each)].Add(uint64(n))
}

// addTo adds the counts to h.
func (d *durations) addTo(h *Histogram) {
	h.Sum += d.ns.Load()
	for i := range d.buckets {
		h.Buckets[i] += d.buckets[i].Load()
	}
}
