package simulate

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"
)

// Result is the result of a replay. Times are in ns, shares from 0 to 1.
type Result struct {
	// Lines is the number of lines, without empty ones. Bad is how many of them were not requests.
	Lines int64 `json:"lines"`
	Bad   int64 `json:"bad_lines"`
	// Anonymous is how many of the lines have no caller.
	Anonymous int64 `json:"without_caller"`

	Requests uint64    `json:"requests"`
	Cost     uint64    `json:"cost"`
	Callers  int       `json:"callers"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	// Late is how many requests had a time before that of the request before them, and LateBy by how much at
	// most. They count at the later time.
	Late   uint64 `json:"late"`
	LateBy int64  `json:"late_by_ns"`

	Demand   Demand    `json:"demand"`
	Limits   []Outcome `json:"limits"`
	Timeline Timeline  `json:"timeline"`

	plain bool // every cost was 1
}

// Outcome is what one limit did.
type Outcome struct {
	// Limit is the limit in text form.
	Limit string `json:"limit"`

	Denied      uint64  `json:"denied"`
	DeniedShare float64 `json:"denied_share"`
	// DeniedCost is the cost of the denied requests.
	DeniedCost uint64 `json:"denied_cost"`
	// Callers is the number of callers that were denied at least once.
	Callers      uint64  `json:"callers_denied"`
	CallersShare float64 `json:"callers_denied_share"`

	// Wait sums up the waits that denied callers were told. Never is the number of denials without one,
	// because the request could never be admitted.
	Wait  Times  `json:"wait"`
	Never uint64 `json:"never"`
	// Delay sums up the waits of requests that were admitted after a wait.
	Delay Times `json:"delay"`

	// Peak is the most that one caller was admitted in any Window.
	Peak   uint64    `json:"peak"`
	PeakBy string    `json:"peak_by,omitempty"`
	PeakAt time.Time `json:"peak_at"`
	Window int64     `json:"window_ns"`

	// Holds is what was held, of a trace that says what each request has cost in the end; nil for others.
	Holds *Holds `json:"holds,omitempty"`

	// Errors counts requests that the limit could not decide. Error is the first error.
	Errors uint64 `json:"errors"`
	Error  string `json:"error,omitempty"`

	// Top has the callers that were denied most often, at most MaxTop.
	Top []Caller `json:"top"`

	algorithm string // with options, but without the rate
	max       int64
}

// Times sums up durations. Median and P90 have three digits, rounded up.
type Times struct {
	Count  uint64 `json:"count"`
	Median int64  `json:"median_ns"`
	P90    int64  `json:"p90_ns"`
	Worst  int64  `json:"worst_ns"`

	curve []point
}

// point is a duration, and the share of all durations that are not longer.
type point struct {
	ns    int64
	share float64
}

// Caller is a caller that was denied.
type Caller struct {
	Caller   string `json:"caller"`
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
}

// Timeline counts requests over time, in buckets of equal length.
type Timeline struct {
	Start    time.Time `json:"start"`
	Width    int64     `json:"width_ns"`
	Requests []uint64  `json:"requests"`
	// Denied has a row for each limit.
	Denied [][]uint64 `json:"denied"`
}

// MaxTop is the maximum number of callers in Outcome.Top.
const MaxTop = 10

// Result sums up the replay so far.
func (r *Replay) Result() *Result {
	res := &Result{
		Lines: r.lines, Bad: r.bad, Anonymous: r.anonymous,
		Requests: r.requests, Cost: r.cost, Callers: len(r.index),
		First: timeAt(r.first), Last: timeAt(r.now),
		Late: r.late, LateBy: r.lateMost,
		Timeline: Timeline{Start: timeAt(r.timeline.start), Width: r.timeline.width, Requests: slices.Clone(r.timeline.requests)},
		Demand:   r.demand.result(&r.callers),
		plain:    r.plain,
	}
	for i, l := range r.lanes {
		res.Limits = append(res.Limits, r.outcome(l))
		res.Timeline.Denied = append(res.Timeline.Denied, slices.Clone(r.timeline.denied[i]))
	}
	return res
}

// timeAt returns a time in UTC, whatever the machine's zone.
func timeAt(ns int64) time.Time { return time.Unix(0, ns).UTC() }

func (r *Replay) outcome(l *lane) Outcome {
	o := Outcome{
		Limit:  l.limit.String(),
		Denied: l.denied, DeniedShare: share(l.denied, r.requests), DeniedCost: l.cost,
		Callers: l.affected, CallersShare: share(l.affected, uint64(len(r.index))),
		Wait: l.waits.times(), Never: l.never, Delay: l.delays.times(),
		Peak: l.peak, PeakAt: timeAt(l.peakAt), Window: l.period,
		Errors: l.errors, Top: r.top(l),
		max:   l.limit.Max,
		Holds: l.holds,
	}
	// "GCRA 100/m BURST 20" is GCRA BURST 20, at 100.
	words := strings.Fields(o.Limit)
	o.algorithm = strings.Join(slices.Delete(words, 1, 2), " ")
	if l.peak > 0 {
		o.PeakBy = r.callers.at(l.peakBy).key
	}
	if l.err != nil {
		o.Error = l.err.Error()
	}
	return o
}

// top returns the callers that were denied most often.
func (r *Replay) top(l *lane) []Caller {
	top := []Caller{}
	for n := range l.seats.n {
		denied := l.seats.at(n).denied
		if denied == 0 || len(top) == MaxTop && denied < top[MaxTop-1].Denied {
			continue
		}
		c := r.callers.at(n)
		top = append(top, Caller{Caller: c.key, Requests: c.requests, Denied: denied})
		slices.SortFunc(top, func(a, b Caller) int {
			return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Caller, b.Caller))
		})
		top = top[:min(len(top), MaxTop)]
	}
	return top
}

// times sums up the counted durations.
func (d *durations) times() Times {
	t := Times{Count: d.count, Median: d.quantile(50), P90: d.quantile(90), Worst: d.worst}
	seen := uint64(0)
	d.each(func(ns int64, n uint64) bool {
		seen += n
		t.curve = append(t.curve, point{ns, share(seen, d.count)})
		return true
	})
	return t
}

// share returns part / whole, or 0 if whole is 0.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// WriteJSON writes the result as one indented object. In keys, bytes that are not UTF-8 become the
// replacement character.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
