// Package history keeps what a server has decided in each of the last seconds and minutes, and how long that took.
package history

import (
	"slices"
	"sync"
	"time"

	"limitdb/internal/stats"
)

// Figures are what a server has counted since its start, and what it has now.
type Figures struct {
	Allowed, Limited, Shadow, Expired, Evicted         uint64
	HoldsTaken, HoldsSettled, HoldsOver, HoldsReturned uint64
	Blocks                                             uint64 // that began
	Keys, Bytes, MaxBytes                              int64
	Clients, MaxClients, Waiting                       int64
	Times                                              stats.Histogram // of the commands that decide
}

// Checks are how long the checks in a namespace took, since the start.
type Checks struct {
	Namespace string
	Times     stats.Histogram
}

const (
	// kept is how many samples there are by the second: five minutes.
	kept = 300
	// every is the time between two of them, in ns.
	every = int64(time.Second)
	// keptMinutes is how many samples there are by the minute: those at both ends of 24 hours. They take half a megabyte.
	keptMinutes = 24*60 + 1
	// everyMinute is the time between two of them, in ns.
	everyMinute = int64(time.Minute)
	// recent is how many of the last samples the times of the head of a reply are of.
	recent = 10
	// checksEvery is how many samples apart those are that have the times of checks: in each, they would take too much memory.
	checksEvery = 60
)

// sample is what was counted at a time.
type sample struct {
	at int64 // ns of Unix time
	Figures
	checks []Checks // nil in most
}

// series are samples, the oldest first.
type series []sample

// due reports whether it is time for a sample. A clock that went back makes one due.
func (s series) due(now, every int64) bool {
	n := len(s)
	return n == 0 || now >= s[n-1].at+every || now < s[n-1].at
}

// add adds a sample, in the place of the oldest if there are most.
func (s *series) add(one sample, most int) {
	if len(*s) == most {
		*s = slices.Delete(*s, 0, 1)
	}
	*s = append(*s, one)
}

// after returns what happened between samples, where that ended after a time in ms.
func (s series) after(at int64) (all []second) {
	first, _ := slices.BinarySearchFunc(s, at, func(s sample, at int64) int {
		if s.at/1e6 <= at {
			return -1
		}
		return 1
	})
	for i := max(first, 1); i < len(s); i++ {
		all = append(all, between(&s[i-1], &s[i]))
	}
	return all
}

// History has the last samples. Any goroutine may call its methods. Read and Checks must be set.
type History struct {
	// Node returns the name of this node, "" for one that stands alone. Nil: it stands alone.
	Node func() string
	// Read returns the figures of this moment, and Checks those of the checks.
	Read   func() Figures
	Checks func() []Checks

	mu      sync.Mutex // guards all below
	samples series     // by the second
	minutes series     // by the minute
	added   int        // samples by the second, ever
}

// Look takes a sample, if the last one is a second old, and keeps it for longer if it is the first of a minute. now is in ns of Unix time.
func (h *History) Look(now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.samples.due(now, every) {
		return
	}
	s := sample{at: now, Figures: h.Read()}
	if h.minutes.due(now, everyMinute) {
		h.minutes.add(s, keptMinutes)
	}
	if h.added%checksEvery == 0 {
		s.checks = h.Checks()
	}
	h.added++
	h.samples.add(s, kept)
}

// second is what happened between two samples, of a second or a minute.
type second struct {
	at, took                 int64 // ms
	allowed, limited, shadow uint64
	times                    stats.Histogram
	now                      *Figures // at its end
}

// between returns what happened between two samples. If a counter has decreased, as when another node begins to lead, nothing
// was counted.
func between(before, s *sample) second {
	more := func(now, then uint64) uint64 { return now - min(now, then) }
	return second{
		s.at / 1e6, s.at/1e6 - before.at/1e6,
		more(s.Allowed, before.Allowed), more(s.Limited, before.Limited), more(s.Shadow, before.Shadow),
		timesBetween(&before.Times, &s.Times), &s.Figures,
	}
}

// timesBetween returns the times that were counted after before, or all of them if the counters began anew.
func timesBetween(before, now *stats.Histogram) stats.Histogram {
	times := *now
	if before.Count() <= now.Count() {
		times.Sub(before)
	}
	return times
}

// after returns the seconds that ended after a time in ms, the times of the last few, and the last sample. The caller holds the lock.
func (h *History) after(at int64) (all []second, times stats.Histogram, last sample) {
	n := len(h.samples)
	if n == 0 {
		return nil, times, last
	}
	last = h.samples[n-1]
	return h.samples.after(at), timesBetween(&h.samples[max(0, n-1-recent)].Times, &last.Times), last
}

// checked returns how long checks took since the oldest sample that has their times.
func (h *History) checked() []Checks {
	now := h.Checks()
	var before []Checks
	if i := slices.IndexFunc(h.samples, func(s sample) bool { return s.checks != nil }); i >= 0 {
		before = h.samples[i].checks
	}
	for i := range now {
		at := slices.IndexFunc(before, func(b Checks) bool { return b.Namespace == now[i].Namespace })
		if at >= 0 {
			now[i].Times = timesBetween(&before[at].Times, &now[i].Times)
		}
	}
	return now
}
