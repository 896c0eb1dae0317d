package simulate

import (
	"slices"

	"limitdb/limit"
)

// demand tracks how much each caller asks for at most in any window of a period, whatever the limits decide.
type demand struct {
	period  int64
	seats   pages[asked]
	held    int // bytes of windows
	sweepAt int // the value of held at which windows are shrunk
}

// asked is what demand keeps for a caller.
type asked struct {
	window window
	peak   uint64
}

// maxAsked replaces larger costs, so that sums do not overflow.
const maxAsked = 1 << 40

// add counts a request of caller n.
func (d *demand) add(n uint32, now, cost int64) {
	if cost == 0 {
		return
	}
	a := d.seats.at(n)
	before := cap(a.window.buf)
	a.peak = max(a.peak, a.window.add(now, uint64(min(cost, maxAsked)), d.period))
	if d.held += cap(a.window.buf) - before; d.held > d.sweepAt {
		d.held = 0
		for i := range d.seats.n {
			w := &d.seats.at(i).window
			w.shrink(now, d.period)
			d.held += cap(w.buf)
		}
		const least = 1 << 20
		d.sweepAt = 2*d.held + least
	}
}

// Demand says how much callers ask for at most in any window, whatever the limits decide.
type Demand struct {
	// Window is the period of the first limit, in ns.
	Window int64 `json:"window_ns"`
	// Half of the callers ask for at most Median, and 99 % for at most P99. The busiest caller, MostBy, asks
	// for Most.
	Median uint64 `json:"median"`
	P99    uint64 `json:"p99"`
	Most   uint64 `json:"most"`
	MostBy string `json:"most_by,omitempty"`
	// Suggested is a limit that denies nothing to 99 % of the callers, since GCRA admits every sequence in
	// which no window exceeds its limit. It is "" if there is no such limit.
	Suggested string `json:"suggested,omitempty"`
}

// result sums up the demand of all callers.
func (d *demand) result(callers *pages[caller]) Demand {
	r := Demand{Window: d.period}
	peaks := make([]uint64, 0, d.seats.n)
	for n := range d.seats.n {
		p := d.seats.at(n).peak
		if p > r.Most {
			r.Most, r.MostBy = p, callers.at(n).key
		}
		peaks = append(peaks, p)
	}
	if len(peaks) == 0 {
		return r
	}
	slices.Sort(peaks)
	r.Median = peaks[(len(peaks)-1)/2]
	r.P99 = peaks[(len(peaks)*99+99)/100-1]
	suggested := limit.Limit{Algorithm: limit.GCRA, Max: int64(r.P99), Period: d.period, Burst: int64(r.P99)}
	if r.P99 > 0 && suggested.Validate() == nil {
		r.Suggested = suggested.String()
	}
	return r
}
