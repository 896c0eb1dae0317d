package limit

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The sliding window counter with two weighted windows: Cloudflare's, described
// in "How we built rate limiting capable of scaling to millions of domains"
// (2017). Time is cut into windows of Period from the epoch on. The requests of the
// previous window are assumed to have come evenly, so they count by the share of
// that window which a window that ends now still covers:
//
//	weighted  = ⌈previous·(Period − elapsed)/Period⌉
//	limited   ⇔ weighted + current + cost > Max
//	remaining = max(0, Max − weighted − current)
//	reset     = until nothing counts any more, at most two Periods
//
// where elapsed is the time since the current window began. Rounding up changes
// no answer, since all else is whole: x ≤ n ⇔ ⌈x⌉ ≤ n.
//
// The wait ends when the weight is small enough. With f = Max − current − cost free
// places in the current window, that is when Period − elapsed is at most
// ⌊f·Period/previous⌋. If f is negative, the wait continues in the next window, whose
// previous is current.
//
// Promise: at most Max + Max/Period·t in any time t. A window admits at most Max;
// and where the last request of a time t is e into its window, that window and
// the one before have admitted at most Max + Max·e/Period. So it can be as much
// as GCRA with a burst of Max, and is at most Max if requests do come evenly.
//
// The state:
//
//	 0               8                 9 (…)
//	┌───────────────┬─────────────────┬───────────────────┬──────────────────┐
//	│ end, Unix ns  │ tag, see tag.go │ previous, uvarint │ current, uvarint │
//	│ 8 bytes, LE   │ 1 to 10 bytes   │ 1 to 9 bytes      │ 1 to 9 bytes     │
//	└───────────────┴─────────────────┴───────────────────┴──────────────────┘
//
// The end is that of the window after the state's current one, because the count
// of the current window matters until then. At a time before its current window (if
// the clock has gone back), a state is as at the beginning of that window, where
// the weight is largest.
//
// With another Period, what is used, u = previous·(Period − elapsed)/Period +
// current, carries over. A grant makes it the previous window of the new limit: with
// U = ⌈u⌉,
//
//	granted: previous = U, current = cost
//
// in windows that began ⌊(U − u)/U·Period⌋ ago, so that u stays the same. A denial
// makes it a straight line: u goes down at the pace of the new limit until nothing
// counts. The debt of a line is the product of its use and its Period, so
//
//	denied: debt = ⌈u·Period⌉, used = ⌈debt/Period⌉
//
// and the debt goes down by Max each ns. The tag of a line has the bit of FIRST, which
// no limit of SLIDING has. A line keeps the Max of its pace as current, and the end is
// when the debt is 0, rounded up; previous is what the debt then is below 0, which is
// less than Max.
//
// A denial is written only if that makes no wait longer. Waits are linear between
// the ends of the windows, so it is enough to compare u there. The rounding
// makes none longer: the wait until n are used is ⌈(⌈u·Period⌉ − n·Period)/Max⌉ =
// ⌈⌈(u − n)·Period⌉/Max⌉ = ⌈(u − n)·Period/Max⌉, which is the time on the exact line,
// in whole ns; and so are the waits of the windows.
//
// For the same reason a denial keeps no other limit from making its own waits
// shorter. The line of the other limit begins at the same use, but for the rounding; it
// is written if it is steeper, and otherwise the first line is already below it.
//
// Promise, if the limit changes: at most M + R·t in any time t, with the largest
// Max and the fastest R = Max/Period. No count is ever divided by a shorter time
// than that of the limit that admitted it, or of a later one.

// slidingWindow is the two windows in force, or the line, if there is one.
type slidingWindow struct {
	end       int64 // nothing counts from then on
	period    int64 // of the windows, or of the line's pace
	prev, cur int64 // a line has the Max of its pace as prev
	// weight is the time that is left of the current window, or of a line; early is
	// the time until the window begins, if the clock has gone back.
	weight, early int64
	below         int64 // a line: what the debt is below 0 at its end
	// live is set if a state is in force, line if it is a line, rolled if the current
	// window is over and is prev here, other if the state is not of the limit's windows.
	live, line, rolled, other bool
}

// slidingTake is Take for SLIDING.
func slidingTake(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var w slidingWindow
	changed, err := w.decide(d, l, state, now, cost)
	if err != nil || !changed {
		return nil, err
	}
	return w.put(dst), nil
}

// slidingPeek is Peek for SLIDING.
func slidingPeek(d *Decision, l *Limit, state []byte, now, cost int64) error {
	var w slidingWindow
	_, err := w.decide(d, l, state, now, cost)
	return err
}

// decide fills in the decision and the windows, which include the request if it
// counts. It reports whether the windows have changed.
func (w *slidingWindow) decide(d *Decision, l *Limit, state []byte, now, cost int64) (changed bool, err error) {
	if err = w.find(l, state, now, cost); err != nil {
		return false, err
	}
	used := w.used()
	limited := l.Max == 0 || cost > l.Max || used > uint64(l.Max-cost)
	counted := cost > 0 && (!limited || l.CountDenied && l.Max > 0)
	if w.other && cost > 0 && cost <= l.Max {
		if limited {
			changed = w.hasten(l, now)
		} else {
			w.move(l, now, int64(used))
		}
	}
	if counted {
		if err = w.count(now, cost); err != nil {
			return false, err
		}
		used = w.used()
	}
	w.tell(d, l, now, used)
	if d.Limited = limited; limited && cost <= l.Max && l.Max > 0 {
		d.Wait = w.wait(l.Max - cost)
	}
	return counted || changed, nil
}

// move makes the use, which is used when rounded up, the previous window of l.
func (w *slidingWindow) move(l *Limit, now, used int64) {
	elapsed := int64(0)
	if _, part := w.exact(); part > 0 {
		elapsed, _ = mulDiv(w.period-part, l.Period, w.period)
		elapsed /= used
	}
	weight := l.Period - elapsed
	*w = slidingWindow{end: now + weight, period: l.Period, prev: used, weight: weight, live: true, rolled: true}
}

// hasten makes the use a line at the pace of l, if that makes a wait shorter and none
// longer. It reports whether it has.
func (w *slidingWindow) hasten(l *Limit, now int64) bool {
	whole, part := w.exact()
	next := slidingWindow{period: l.Period, prev: l.Max, live: true, rolled: true, line: true}
	hi, lo := bits.Mul64(whole, uint64(l.Period))
	lo, carry := bits.Add64(lo, uint64(share(l.Period, part, w.period)), 0)
	if int64(whole) < 0 || !next.owe(now, hi+carry, lo) {
		return false
	}
	// The line must be no later than the end of the previous window's weight, and than
	// that of the current one's.
	pace := compareProducts(l.Max, w.early+w.period, w.prev, l.Period)
	if w.cur == 0 {
		if pace <= 0 {
			return false
		}
	} else {
		left := w.end - now
		if pace < 0 || next.weight > left || pace == 0 && next.weight == left && next.below == 0 {
			return false
		}
	}
	*w = next
	return true
}

// debt returns the debt of a line.
func (w *slidingWindow) debt() (hi, lo uint64) {
	hi, lo = bits.Mul64(uint64(w.prev), uint64(w.weight))
	lo, borrow := bits.Sub64(lo, uint64(w.below), 0)
	return hi - borrow, lo
}

// owe sets the debt of a line, and reports whether the end fits.
func (w *slidingWindow) owe(now int64, hi, lo uint64) bool {
	lo, carry := bits.Add64(lo, uint64(w.prev-1), 0)
	if hi += carry; hi >= uint64(w.prev) {
		return false
	}
	left, rem := divide(hi, lo, w.prev)
	w.weight, w.below = int64(left), w.prev-1-int64(rem)
	w.end = now + w.weight
	return w.weight >= 0 && w.end >= now
}

// slidingRefund is Refund for SLIDING: from a line; or first from the current window,
// then from the one before.
func slidingRefund(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var w slidingWindow
	if err := w.find(l, state, now, cost); err != nil {
		return nil, err
	}
	changed := w.live && cost > 0 && (w.cur > 0 || w.prev > 0)
	switch {
	case !changed:
	case w.line:
		hi, lo := bits.Mul64(uint64(cost), uint64(w.period))
		all, low := w.debt()
		lo, borrow := bits.Sub64(low, lo, 0)
		hi, borrow = bits.Sub64(all, hi, borrow)
		if borrow > 0 || hi|lo == 0 {
			w = slidingWindow{period: w.period}
		} else {
			w.owe(now, hi, lo)
		}
	default:
		fromCur := min(w.cur, cost)
		w.cur -= fromCur
		w.prev -= min(w.prev, cost-fromCur)
		w.settle()
	}
	w.tell(d, l, now, w.used())
	if !changed {
		return nil, nil
	}
	return w.put(dst), nil
}

// settle brings the windows in order once something has been given back.
func (w *slidingWindow) settle() {
	if w.cur == 0 && !w.rolled { // only the previous window counts
		w.rolled = true
		w.end -= w.period
	}
	w.live = w.cur > 0 || w.prev > 0
}

// find checks the arguments and finds the windows in force.
func (w *slidingWindow) find(l *Limit, state []byte, now, cost int64) error {
	if l.Max|cost < 0 || l.Period < 1 {
		return badCounter(l)
	}
	w.period = l.Period
	if len(state) == 0 {
		return nil
	}
	if err := w.read(state); err != nil {
		return err
	}
	switch {
	case w.end <= now:
		*w = slidingWindow{period: l.Period}
		return nil
	case w.end-now < 0:
		return ErrOverflow
	}
	w.live, w.other = true, w.line || w.period != l.Period
	w.weigh(w.end - now)
	return nil
}

// weigh sets weight, early and rolled for a state that ends after left.
func (w *slidingWindow) weigh(left int64) {
	period := w.period
	switch {
	case w.line:
		w.below, w.prev, w.cur, w.rolled = w.prev, w.cur, 0, true
		w.weight = left
	case left <= period:
		w.prev, w.cur, w.rolled = w.cur, 0, true
		w.weight = left
	case left-period <= period:
		w.weight = left - period
	default:
		w.weight, w.early = period, left-period-period
	}
}

// exact returns how much counts now: whole, and part of the period. It returns the
// largest uint64 and 0 if that does not fit.
func (w *slidingWindow) exact() (whole uint64, part int64) {
	if w.prev == 0 {
		return uint64(w.cur), 0
	}
	hi, lo := w.debt()
	if hi >= uint64(w.period) {
		return math.MaxUint64, 0
	}
	whole, rem := divide(hi, lo, w.period)
	if whole += uint64(w.cur); whole < uint64(w.cur) {
		return math.MaxUint64, 0
	}
	return whole, int64(rem)
}

// used returns how much counts now, rounded up.
func (w *slidingWindow) used() uint64 {
	whole, part := w.exact()
	if part > 0 {
		whole++
	}
	return whole
}

// count adds cost to the current window, or to a line.
func (w *slidingWindow) count(now, cost int64) error {
	if w.line {
		hi, lo := bits.Mul64(uint64(cost), uint64(w.period))
		all, low := w.debt()
		lo, carry := bits.Add64(low, lo, 0)
		if hi, _ = bits.Add64(all, hi, carry); !w.owe(now, hi, lo) {
			return ErrOverflow
		}
		return nil
	}
	end := w.end
	switch {
	case !w.live:
		end = now - modulo(now, w.period) + w.period + w.period
	case w.rolled:
		end += w.period
	}
	// The end is at most two Periods after now: it may wrap, but not twice.
	if end < now || end-now < 0 {
		return ErrOverflow
	}
	w.end, w.live, w.rolled = end, true, false
	w.cur = addUpTo(w.cur, cost)
	return nil
}

// wait returns the time until at most places are used. More are used now.
func (w *slidingWindow) wait(places int64) int64 {
	if w.cur <= places {
		// prev uses the rest, so it is more than the places that are left.
		hi, lo := bits.Mul64(uint64(places-w.cur), uint64(w.period))
		lo, carry := bits.Add64(lo, uint64(w.below), 0)
		weight, _ := divide(hi+carry, lo, w.prev)
		return w.early + w.weight - int64(weight)
	}
	weight, _ := mulDiv(places, w.period, w.cur)
	return w.early + w.weight + (w.period - weight)
}

// tell fills in the decision of a granted request.
func (w *slidingWindow) tell(d *Decision, l *Limit, now int64, used uint64) {
	*d = Decision{Limit: l.Max, Remaining: remaining(l.Max, used), Wait: Never}
	if w.live {
		d.Reset = w.end - now
	}
}

// slidingLevel is Level for SLIDING.
func slidingLevel(state []byte, now int64) int64 {
	var w slidingWindow
	if err := w.read(state); err != nil || w.end <= now {
		return 0
	}
	w.weigh(until(w.end, now))
	return int64(min(w.used(), math.MaxInt64))
}

// read reads a state.
func (w *slidingWindow) read(state []byte) error {
	const shortest = 8 + 1 + 1 + 1
	if len(state) < shortest {
		return ErrState
	}
	tag, n := readTag(state[8:])
	at := 8 + n
	prev, n1 := readCount(state[at:])
	at += n1
	cur, n2 := readCount(state[at:])
	if n == 0 || n1 == 0 || n2 == 0 || at+n2 != len(state) || tag.period == 0 {
		return ErrState
	}
	w.end, w.prev, w.cur = int64(binary.LittleEndian.Uint64(state)), prev, cur
	w.period, w.line = tag.period, tag.first
	if w.line && prev >= cur {
		return ErrState
	}
	return nil
}

// put writes the windows over dst. Windows whose counts are 0 are written as expired.
func (w *slidingWindow) put(dst []byte) []byte {
	end, prev, cur := w.end, w.prev, w.cur
	if w.rolled {
		prev, cur = w.below, w.prev
	}
	if !w.live {
		end = math.MinInt64
	}
	var buf [MaxState]byte
	b := binary.LittleEndian.AppendUint64(buf[:0], uint64(end))
	b = appendTag(b, windowTag{period: w.period, first: w.line})
	b = binary.AppendUvarint(b, uint64(prev))
	b = binary.AppendUvarint(b, uint64(cur))
	return append(dst[:0], b...)
}
