package stats

import "sync"

// Rates keeps INFO's instantaneous figures: a mean over the last samples. The zero value is ready to use. Any
// goroutine may call its methods.
type Rates struct {
	mu      sync.Mutex // guards the fields below
	samples [16]rateSample
	next    int
}

// rateSample has the values of the counters at a time in ns.
type rateSample struct {
	at int64
	Traffic
}

// Sample records the counters at now, in ns.
func (r *Rates) Sample(now int64, t Traffic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples[r.next%len(r.samples)] = rateSample{now, t}
	r.next++
}

// PerSecond returns commands, bytes in and bytes out per second.
func (r *Rates) PerSecond() (calls, in, out float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next < 2 {
		return 0, 0, 0
	}
	newest := r.samples[(r.next-1)%len(r.samples)]
	oldest := r.samples[r.next%len(r.samples)]
	if r.next < len(r.samples) {
		oldest = r.samples[0]
	}
	span := float64(newest.at-oldest.at) / 1e9
	if span <= 0 {
		return 0, 0, 0
	}
	rate := func(newest, oldest uint64) float64 { return float64(newest-oldest) / span }
	return rate(newest.Calls, oldest.Calls), rate(newest.In, oldest.In), rate(newest.Out, oldest.Out)
}
