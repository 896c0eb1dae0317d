package dashboard

import (
	"slices"
	"sync"

	"limitdb/internal/stats"
	"limitdb/observe"
)

// kept is how many samples the history has: five minutes.
const kept = 300

// sample has the figures of one second.
type sample struct {
	At        int64   `json:"at"` // Unix ms
	Allowed   float64 `json:"allowed"`
	Limited   float64 `json:"limited"`
	Shadow    float64 `json:"shadow"` // of the allowed: would have been limited
	Median    float64 `json:"p50"`    // times of a decision, in µs; 0 if there was none
	P99       float64 `json:"p99"`
	P999      float64 `json:"p999"`
	Keys      int64   `json:"keys"`
	Bytes     int64   `json:"bytes"`
	Clients   int64   `json:"clients"`
	Waiting   int64   `json:"waiting"`
	Commands  float64 `json:"commands"`
	decisions stats.Histogram
	totals    totals
	checks    []observe.Checks // of one sample in checksEvery
}

// checksEvery is how many samples apart those are that have the times of checks: in each, they would take too much memory.
const checksEvery = 60

// checks is how long the checks in a namespace took in the last minutes.
type checks struct {
	Namespace string  `json:"namespace"`
	Count     uint64  `json:"count"`
	Median    float64 `json:"p50"` // µs; 0 if there was none
	P99       float64 `json:"p99"`
}

// totals are counters at the time of a sample.
type totals struct{ allowed, limited, shadow, calls uint64 }

// history has the last samples.
type history struct {
	mu      sync.Mutex // guards all
	samples []sample   // the oldest first
	added   int        // samples, ever
}

// add turns the difference to the last sample into rates.
func (h *history) add(at int64, s *observe.Snapshot) {
	n := sample{At: at, Keys: s.Engine.Keys, Bytes: s.Engine.Bytes, Clients: s.Clients.Connected, Waiting: s.Engine.Waiting}
	n.totals = totals{allowed: s.Engine.Allowed, limited: s.Engine.Limited, shadow: s.ShadowLimited}
	for i := range s.Commands {
		c := &s.Commands[i]
		n.totals.calls += c.Calls()
		if decides(c.Name) {
			n.decisions.Add(&c.Latency)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) > 0 {
		n.since(&h.samples[len(h.samples)-1])
	}
	if h.added++; h.added%checksEvery == 1 {
		n.checks = s.Checks
	}
	if len(h.samples) == kept {
		h.samples = slices.Delete(h.samples, 0, 1)
	}
	h.samples = append(h.samples, n)
}

// since sets the rates from an earlier sample. If a counter has decreased, as when the node stops leading,
// its rate is 0.
func (n *sample) since(before *sample) {
	seconds := float64(n.At-before.At) / 1000
	if seconds <= 0 {
		return
	}
	rate := func(now, then uint64) float64 { return float64(now-min(now, then)) / seconds }
	n.Allowed = rate(n.totals.allowed, before.totals.allowed)
	n.Limited = rate(n.totals.limited, before.totals.limited)
	n.Shadow = rate(n.totals.shadow, before.totals.shadow)
	n.Commands = rate(n.totals.calls, before.totals.calls)
	times := n.decisions
	times.Sub(&before.decisions)
	n.Median, n.P99, n.P999 = micros(&times, 0.5), micros(&times, 0.99), micros(&times, 0.999)
}

// decides reports whether a command makes decisions.
func decides(name string) bool {
	switch name {
	case "cl.throttle", "gcra", "rl.take", "rl.takeall", "rl.check", "rl.peek", "rl.reserve":
		return true
	}
	return false
}

// micros returns a quantile in µs, with the times of a bucket spread evenly over it.
func micros(h *stats.Histogram, q float64) float64 {
	total := h.Count()
	if total == 0 {
		return 0
	}
	want, below := q*float64(total), uint64(0)
	for i, n := range h.Buckets {
		if float64(below+n) >= want && n > 0 {
			low, high := 0.0, float64(stats.Bound(i))
			if i > 0 {
				low = float64(stats.Bound(i - 1))
			}
			return (low + (high-low)*(want-float64(below))/float64(n)) / 1000
		}
		below += n
	}
	return float64(stats.Bound(stats.Buckets-1)) / 1000
}

// after returns the samples that are younger than a time.
func (h *history) after(at int64) []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, _ := slices.BinarySearchFunc(h.samples, at+1, func(s sample, at int64) int { return int(s.At - at) })
	return slices.Clone(h.samples[i:])
}

// checks returns how long checks have taken since the oldest sample with their times. now has them since the start.
func (h *history) checks(now []observe.Checks) []checks {
	var before []observe.Checks
	h.mu.Lock()
	if i := slices.IndexFunc(h.samples, func(s sample) bool { return s.checks != nil }); i >= 0 {
		before = h.samples[i].checks
	}
	h.mu.Unlock()
	all := []checks{}
	for _, c := range now {
		times := c.Latency
		i := slices.IndexFunc(before, func(b observe.Checks) bool { return b.Namespace == c.Namespace })
		if i >= 0 && before[i].Latency.Count() <= times.Count() { // else the namespace was away, and counts anew
			times.Sub(&before[i].Latency)
		}
		all = append(all, checks{c.Namespace, times.Count(), micros(&times, 0.5), micros(&times, 0.99)})
	}
	return all
}
