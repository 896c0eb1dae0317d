package server

import "sync"

// rates keeps INFO's instantaneous figures: a mean over the last samples of
// the housekeeper.
type rates struct {
	mu      sync.Mutex // guards all below
	samples [16]rateSample
	next    int
}

// rateSample is what the counters stood at at one time, in ns.
type rateSample struct {
	at           int64
	ops, in, out uint64
}

// sample records the counters at now.
func (r *rates) sample(now int64, srv *Server) {
	ops, in, out := srv.traffic()
	s := rateSample{at: now, ops: ops, in: in, out: out}
	r.mu.Lock()
	r.samples[r.next%len(r.samples)] = s
	r.next++
	r.mu.Unlock()
}

// perSecond returns operations and bytes in and out for each second.
func (r *rates) perSecond() (ops, in, out float64) {
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
	return float64(newest.ops-oldest.ops) / span, float64(newest.in-oldest.in) / span, float64(newest.out-oldest.out) / span
}
