package limit

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The sliding window counter with two weighted windows: Cloudflare's, described
// in "How we built rate limiting capable of scaling to millions of domains"
// (2017). Time is cut into windows of Period from the epoch on. What was counted
// in the window before the current one is taken to have come evenly, so that it
// counts for the part of it that a window ending now still covers:
//
//	weighted  = ⌈previous·(Period − elapsed)/Period⌉
//	limited   ⇔ weighted + current + cost > Max
//	remaining = max(0, Max − weighted − current)
//	reset     = until nothing counts any more, at most two Periods
//
// where elapsed is the time since the current window began. Rounding up changes
// no answer, since all else is whole: x ≤ n ⇔ ⌈x⌉ ≤ n.
//
// The wait ends when the weight has become small enough: with the free places
// f = Max − current − cost of the current window, when Period − elapsed is at
// most ⌊f·Period/previous⌋. If there are none, it goes on in the next window,
// where current is the previous.
//
// Promise: at most Max + Max/Period·t in any time t. A window admits at most Max;
// and where the last request of a time t is e into its window, that window and
// the one before have admitted at most Max + Max·e/Period. So it can be as much
// as GCRA's with a burst of Max, and is no more than Max if requests do come
// evenly.
//
// The state:
//
//	 0               8                 9 (…)
//	┌───────────────┬─────────────────┬───────────────────┬──────────────────┐
//	│ end, Unix ns  │ tag, see tag.go │ previous, uvarint │ current, uvarint │
//	│ 8 bytes, LE   │ 1 to 10 bytes   │ 1 to 9 bytes      │ 1 to 9 bytes     │
//	└───────────────┴─────────────────┴───────────────────┴──────────────────┘
//
// The end is that of the window after the current one of the state, since until
// then its count matters. A state at another Period is none. Before its current
// window begins (the clock has gone back), a state is as at its beginning, where
// the weight is largest.

// slidingWindow is what is in force, or nothing.
type slidingWindow struct {
	end       int64 // from when on nothing counts
	prev, cur int64
	// weight is what is left of the current window, and early how long it is
	// until it begins, if the clock has gone back.
	weight, early int64
	// live: there is a state in force. rolled: its current window is over, and
	// is prev here.
	live, rolled bool
}

// slidingTake is Take for SLIDING.
func slidingTake(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var w slidingWindow
	counted, err := w.decide(d, l, state, now, cost)
	if err != nil || !counted {
		return nil, err
	}
	return w.put(dst, l), nil
}

// slidingPeek is Peek for SLIDING.
func slidingPeek(d *Decision, l *Limit, state []byte, now, cost int64) error {
	var w slidingWindow
	_, err := w.decide(d, l, state, now, cost)
	return err
}

// decide fills in the decision and the windows, with the request if it has been
// counted.
func (w *slidingWindow) decide(d *Decision, l *Limit, state []byte, now, cost int64) (counted bool, err error) {
	if err = w.find(l, state, now, cost); err != nil {
		return false, err
	}
	used := w.used(l.Period)
	limited := l.Max == 0 || cost > l.Max || used > uint64(l.Max-cost)
	counted = cost > 0 && (!limited || l.CountDenied && l.Max > 0)
	if counted {
		if err = w.count(l, now, cost); err != nil {
			return false, err
		}
		used = w.used(l.Period)
	}
	w.tell(d, l, now, used)
	if d.Limited = limited; limited && cost <= l.Max && l.Max > 0 {
		d.Wait = w.wait(l, cost)
	}
	return counted, nil
}

// slidingRefund is Refund for SLIDING: first from the current window, then from
// the one before.
func slidingRefund(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var w slidingWindow
	if err := w.find(l, state, now, cost); err != nil {
		return nil, err
	}
	changed := w.live && cost > 0 && (w.cur > 0 || w.prev > 0)
	if changed {
		fromCur := min(w.cur, cost)
		w.cur -= fromCur
		w.prev -= min(w.prev, cost-fromCur)
		if w.cur == 0 && !w.rolled { // the window before is the last that counts
			w.rolled = true
			w.end -= l.Period
		}
		w.live = w.cur > 0 || w.prev > 0
	}
	w.tell(d, l, now, w.used(l.Period))
	if !changed {
		return nil, nil
	}
	return w.put(dst, l), nil
}

// find checks the arguments and finds what is in force.
func (w *slidingWindow) find(l *Limit, state []byte, now, cost int64) error {
	if l.Max|cost < 0 || l.Period < 1 {
		return badCounter(l, cost)
	}
	if len(state) == 0 {
		return nil
	}
	period, err := w.read(state)
	if err != nil {
		return err
	}
	if w.end <= now || period != l.Period {
		*w = slidingWindow{}
		return nil
	}
	if w.end-now < 0 {
		return ErrOverflow
	}
	w.live = true
	w.place(period, w.end-now)
	return nil
}

// place tells where in the windows the time is, if the state ends after left.
func (w *slidingWindow) place(period, left int64) {
	switch {
	case left <= period:
		w.prev, w.cur, w.rolled = w.cur, 0, true
		w.weight = left
	case left-period <= period:
		w.weight = left - period
	default:
		w.weight, w.early = period, left-period-period
	}
}

// used is what counts now.
func (w *slidingWindow) used(period int64) uint64 {
	return uint64(share(w.prev, w.weight, period)) + uint64(w.cur)
}

// count adds cost to the current window.
func (w *slidingWindow) count(l *Limit, now, cost int64) error {
	end := w.end
	switch {
	case !w.live:
		end = now - modulo(now, l.Period) + l.Period + l.Period
	case w.rolled:
		end += l.Period
	}
	// It is no more than two Periods after now, which may wrap but not lap.
	if end < now || end-now < 0 {
		return ErrOverflow
	}
	w.end, w.live, w.rolled = end, true, false
	w.cur = addUpTo(w.cur, cost)
	return nil
}

// wait is how long a request must wait that is limited now, and not above Max.
func (w *slidingWindow) wait(l *Limit, cost int64) int64 {
	places := l.Max - cost
	if w.cur <= places {
		// Limited by prev, which is more than the free places therefore.
		weight, _ := mulDiv(places-w.cur, l.Period, w.prev)
		return w.early + w.weight - weight
	}
	weight, _ := mulDiv(places, l.Period, w.cur)
	return w.early + w.weight + (l.Period - weight)
}

// tell fills in the decision on a request that is granted.
func (w *slidingWindow) tell(d *Decision, l *Limit, now int64, used uint64) {
	*d = Decision{Limit: l.Max, Remaining: remaining(l.Max, used), Wait: Never}
	if w.live {
		d.Reset = w.end - now
	}
}

// slidingLevel is Level for SLIDING.
func slidingLevel(state []byte, now int64) int64 {
	var w slidingWindow
	period, err := w.read(state)
	if err != nil || w.end <= now {
		return 0
	}
	w.place(period, until(w.end, now))
	return int64(min(w.used(period), math.MaxInt64))
}

// read reads a state.
func (w *slidingWindow) read(state []byte) (period int64, err error) {
	const shortest = 8 + 1 + 1 + 1
	if len(state) < shortest {
		return 0, ErrState
	}
	tag, n := readTag(state[8:])
	at := 8 + n
	prev, n1 := readCount(state[at:])
	at += n1
	cur, n2 := readCount(state[at:])
	if n == 0 || n1 == 0 || n2 == 0 || at+n2 != len(state) || tag.first || tag.period == 0 {
		return 0, ErrState
	}
	w.end, w.prev, w.cur = int64(binary.LittleEndian.Uint64(state)), prev, cur
	return tag.period, nil
}

// put writes the windows over dst. Those that have nothing left are written as
// long expired.
func (w *slidingWindow) put(dst []byte, l *Limit) []byte {
	end, prev, cur := w.end, w.prev, w.cur
	if w.rolled {
		prev, cur = 0, w.prev
	}
	if !w.live {
		end = math.MinInt64
	}
	var buf [MaxState]byte
	b := binary.LittleEndian.AppendUint64(buf[:0], uint64(end))
	b = appendTag(b, windowTag{period: l.Period})
	b = binary.AppendUvarint(b, uint64(prev))
	b = binary.AppendUvarint(b, uint64(cur))
	return append(dst[:0], b...)
}

// remaining is what is left of most.
func remaining(most int64, used uint64) int64 {
	if used >= uint64(most) {
		return 0
	}
	return most - int64(used)
}

// share is ⌈n·part/whole⌉, for a part from 0 to the whole.
func share(n, part, whole int64) int64 {
	if n == 0 || part == whole {
		return n
	}
	q, exact := mulDiv(n, part, whole)
	if !exact {
		q++
	}
	return q
}

// mulDiv is ⌊a·b/c⌋, which must be less than 2⁶³, and whether it is exact. All
// are 0 or more, and c is not 0.
func mulDiv(a, b, c int64) (q int64, exact bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi == 0 {
		q := lo / uint64(c)
		return int64(q), q*uint64(c) == lo
	}
	quo, rem := bits.Div64(hi, lo, uint64(c))
	return int64(quo), rem == 0
}
