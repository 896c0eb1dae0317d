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
// current, carries over to windows of another phase, until nothing of it counts.
// With U = ⌈u⌉:
//
//	granted: previous = U, current = cost, in windows of the new Period
//	denied:  previous = U, current = 0,    in windows of ⌈U·Period/Max⌉
//
// and both begin ⌊(U − u)/U⌋ of that length ago, so that u stays the same. After a
// denial u comes back at the pace of the new limit. A denial is written only if that
// makes no wait longer. Waits are linear between the ends of the current windows of
// both, so it is enough to compare them there. The tag of such windows has the bit
// of FIRST, which no limit of SLIDING has.
//
// Promise, if the limit changes: at most M + R·t in any time t, with the largest
// Max and the fastest R = Max/Period. No count is ever divided by a shorter time
// than that of the limit that admitted it, or of a later one.

// slidingWindow is the two windows in force, if there are any.
type slidingWindow struct {
	end       int64 // nothing counts from then on
	period    int64 // of the windows
	prev, cur int64
	// weight is the time that is left of the current window; early is the time
	// until it begins, if the clock has gone back.
	weight, early int64
	// live is set if a state is in force, rolled if its current window is over
	// and is prev here, other if its windows are not the limit's.
	live, rolled, other bool
	moved               bool // a denial has moved the windows: they are no limit's
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
		changed = w.change(l, now, used, limited)
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

// change carries the use over to windows of l, and reports whether it has. If
// limited is set, it does so only if that makes one wait shorter and none longer.
func (w *slidingWindow) change(l *Limit, now int64, used uint64, limited bool) bool {
	next := slidingWindow{period: l.Period, prev: int64(used), live: true, rolled: true, moved: limited}
	if limited {
		if next.prev < 0 {
			return false
		}
		period, exact := scale(next.prev, l.Period, l.Max)
		if !exact {
			period++
		}
		if next.period = period; period < 0 {
			return false
		}
	}
	elapsed := int64(0)
	if used > 0 {
		elapsed, _ = mulDiv(w.slack(), next.period, w.period)
		elapsed /= next.prev
	}
	next.weight = next.period - elapsed
	next.end = now + next.weight
	if limited && !w.slower(&next, now) {
		return false
	}
	*w = next
	return true
}

// slower reports whether next makes a wait shorter and none longer.
func (w *slidingWindow) slower(next *slidingWindow, now int64) bool {
	if next.end < now {
		return false
	}
	shorter := false
	for _, places := range [...]int64{next.prev - 1, w.cur, w.cur - 1, 0} {
		if places < 0 || places >= next.prev {
			continue
		}
		was, is := w.wait(places), next.wait(places)
		if is > was {
			return false
		}
		shorter = shorter || is < was
	}
	return shorter
}

// slack returns ⌈weighted⌉ − weighted, in parts of the period.
func (w *slidingWindow) slack() int64 {
	hi, lo := bits.Mul64(uint64(w.prev), uint64(w.weight))
	_, rem := bits.Div64(hi, lo, uint64(w.period)) // the weight is no more than the period
	if rem == 0 {
		return 0
	}
	return w.period - int64(rem)
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
		if w.cur == 0 && !w.rolled { // only the previous window counts
			w.rolled = true
			w.end -= w.period
		}
		w.live = w.cur > 0 || w.prev > 0
	}
	w.tell(d, l, now, w.used())
	if !changed {
		return nil, nil
	}
	return w.put(dst), nil
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
	w.live, w.other = true, w.moved || w.period != l.Period
	w.weigh(w.end - now)
	return nil
}

// weigh sets weight, early and rolled for a state that ends after left.
func (w *slidingWindow) weigh(left int64) {
	period := w.period
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

// used returns how much counts now.
func (w *slidingWindow) used() uint64 {
	return uint64(share(w.prev, w.weight, w.period)) + uint64(w.cur)
}

// count adds cost to the current window.
func (w *slidingWindow) count(now, cost int64) error {
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
		weight, _ := mulDiv(places-w.cur, w.period, w.prev)
		return w.early + w.weight - weight
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
	w.period, w.moved = tag.period, tag.first
	return nil
}

// put writes the windows over dst. Windows whose counts are 0 are written as expired.
func (w *slidingWindow) put(dst []byte) []byte {
	end, prev, cur := w.end, w.prev, w.cur
	if w.rolled {
		prev, cur = 0, w.prev
	}
	if !w.live {
		end = math.MinInt64
	}
	var buf [MaxState]byte
	b := binary.LittleEndian.AppendUint64(buf[:0], uint64(end))
	b = appendTag(b, windowTag{period: w.period, first: w.moved})
	b = binary.AppendUvarint(b, uint64(prev))
	b = binary.AppendUvarint(b, uint64(cur))
	return append(dst[:0], b...)
}

// remaining returns how much of most is left.
func remaining(most int64, used uint64) int64 {
	if used >= uint64(most) {
		return 0
	}
	return most - int64(used)
}

// share returns ⌈n·part/whole⌉, for a part from 0 to the whole.
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

// mulDiv returns ⌊a·b/c⌋, which must be less than 2⁶³, and whether it is exact.
// a and b are 0 or more, c is 1 or more.
func mulDiv(a, b, c int64) (q int64, exact bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi == 0 {
		q := lo / uint64(c)
		return int64(q), q*uint64(c) == lo
	}
	quo, rem := bits.Div64(hi, lo, uint64(c))
	return int64(quo), rem == 0
}
