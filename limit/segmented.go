package limit

import "math"

// The sliding window counter with n sub-windows: Alibaba Sentinel's LeapArray,
// Hystrix' rolling buckets. Time is cut into sub-windows of S = ⌈Period/n⌉ from
// the epoch on. The current one and the n−1 before it count, each as a whole:
//
//	counted   = sum of the sub-windows that count
//	limited   ⇔ counted + cost > Max
//	remaining = max(0, Max − counted)
//	wait      = until enough of the oldest have left
//	reset     = until the newest has left
//
// A sub-window leaves n sub-windows after it began, so a request counts for longer
// than n−1 of them and for at most n.
//
// Promise: at most Max in any n consecutive sub-windows, so at most
// Max in any time up to (n−1)·S, and at most Max·⌈(⌈t/S⌉ + 1)/n⌉ in any time t.
// The more sub-windows, the closer that is to the log, and the larger the state.
//
// The state:
//
//	 0               8                 9 (…)                   10 (…)
//	┌───────────────┬─────────────────┬──────────────────────┬──────────────────┐
//	│ end, Unix ns  │ tag, see tag.go │ n·4 + log₂ of width, │ counts of width  │
//	│ 8 bytes, LE   │ 1 to 10 bytes   │ uvarint, 1–2 bytes   │ bytes, LE        │
//	└───────────────┴─────────────────┴──────────────────────┴──────────────────┘
//
// The counts are those from the oldest that is not 0 to the newest, which is not
// 0 either; the end is when the newest leaves. All have the width of the largest,
// 1, 2, 4 or 8 bytes, which grows when it must, and shrinks again when sub-windows
// leave. At a time before the newest sub-window (if the clock has gone back), the
// state is as at the beginning of that sub-window.
//
// With another Period or n, all that counts carries over:
//
//	granted: into the current sub-window of the new limit, with the request
//	denied:  into the current one of windows of ⌈counted/Max⌉ Periods and the new n
//
// A denial is written only if all that counts then leaves before any of it would
// have.
//
// Promise, if the limit changes: at most M·(⌊t/D⌋ + 1) in any time t, with the
// largest Max and the least D = (n−1)·S. Whatever the limit becomes, a request
// counts for at least D.

// segmentedTake is Take for SEGMENTED.
func segmentedTake(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var s segments
	counts, added, changed, err := s.decide(d, l, state, now, cost)
	if err != nil || !changed {
		return nil, err
	}
	return s.add(counts, now+d.Reset, added, dst), nil
}

// segmentedPeek is Peek for SEGMENTED.
func segmentedPeek(d *Decision, l *Limit, state []byte, now, cost int64) error {
	var s segments
	_, _, _, err := s.decide(d, l, state, now, cost)
	return err
}

// segmentedRefund is Refund for SEGMENTED: from the newest sub-window on.
func segmentedRefund(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var s segments
	counts, err := s.find(l, state, now, cost)
	if err != nil {
		return nil, err
	}
	if s.total > 0 && cost > 0 {
		next = s.giveBack(counts, cost, dst)
	}
	*d = Decision{Limit: l.Max, Remaining: remaining(l.Max, s.total), Wait: Never}
	if s.live {
		d.Reset = s.end - now
	}
	return next, nil
}

// decide fills in the decision, and s without the request. It returns how much to
// add, and whether the state changes.
func (s *segments) decide(d *Decision, l *Limit, state []byte, now, cost int64) (counts []byte, added int64, changed bool, err error) {
	if counts, err = s.find(l, state, now, cost); err != nil {
		return nil, 0, false, err
	}
	limited := l.Max == 0 || cost > l.Max || s.total > uint64(l.Max-cost)
	if s.other && cost > 0 && cost <= l.Max {
		if limited {
			changed = s.hasten(l, counts, now)
		} else {
			changed = s.move(l.Period, l.Segments, now)
		}
		if changed {
			counts = nil
		} else if !limited {
			return nil, 0, false, ErrOverflow
		}
	}
	end, total := s.end, s.total
	if cost > 0 && (!limited || l.CountDenied && l.Max > 0) {
		if end, err = s.nextEnd(now); err != nil {
			return nil, 0, false, err
		}
		changed = true
		if added, total = cost, total+uint64(cost); total < s.total {
			total = math.MaxUint64
		}
	}
	*d = Decision{Limited: limited, Limit: l.Max, Remaining: remaining(l.Max, total), Wait: Never}
	if s.live || added > 0 {
		d.Reset = end - now
	}
	if limited && cost <= l.Max && l.Max > 0 {
		d.Wait = d.Reset
		if at, ok := s.fits(counts, l.Max-cost, added); ok {
			d.Wait = at - now
		}
	}
	return counts, added, changed, nil
}

// move moves all counts into the current one of n sub-windows of period, and reports
// whether their end fits.
func (s *segments) move(period, n, now int64) bool {
	length := subWindow(period, n)
	over, span := mul(length, n)
	end := now - modulo(now, length) + span
	if over != 0 || span < 0 || end < now {
		return false
	}
	*s = segments{
		end: end, width: 1, period: period, n: n, length: length,
		total: s.total, moved: int64(min(s.total, math.MaxInt64)), live: true,
	}
	return true
}

// hasten moves all counts to where l admits as much, if all of them then leave
// before the first one would now. It reports whether it has.
func (s *segments) hasten(l *Limit, counts []byte, now int64) bool {
	if s.total > math.MaxInt64 {
		return false
	}
	over, period := mul(l.Period, int64((s.total-1)/uint64(l.Max))+1)
	if over != 0 || period < 0 {
		return false
	}
	next := *s
	if !next.move(period, l.Segments, now) {
		return false
	}
	first, _ := s.fits(counts, int64(s.total-1), 0)
	if next.end >= first {
		return false
	}
	*s = next
	return true
}

// nextEnd returns when the current sub-window leaves.
func (s *segments) nextEnd(now int64) (int64, error) {
	end := s.end + s.since*s.length
	if !s.live {
		end = now - modulo(now, s.length) + s.n*s.length
	}
	if end < now { // it is at most n·S after now
		return 0, ErrOverflow
	}
	return end, nil
}

// fits returns when enough of the oldest have left that at most places count. added
// has come to the current sub-window; ok is false if added alone is more.
func (s *segments) fits(counts []byte, places, added int64) (at int64, ok bool) {
	n := len(counts) / s.width
	if s.since > 0 {
		places -= added
		added = 0
	}
	if places < 0 {
		return 0, false
	}
	for i := n - 1; i >= 0; i-- {
		places -= addUpTo(getCount(counts, i, s.width), added)
		added = 0
		if places < 0 {
			return s.end - int64(n-1-i)*s.length, true
		}
	}
	return 0, false
}

// find checks the arguments and finds the state in force.
func (s *segments) find(l *Limit, state []byte, now, cost int64) (counts []byte, err error) {
	s.width = 1
	if l.Max|cost < 0 || l.Period < 1 || l.Segments < 2 || l.Segments > MaxSegments {
		return nil, badCounter(l)
	}
	if !s.cut(l.Period, l.Segments) {
		return nil, ErrOverflow
	}
	if len(state) == 0 {
		return nil, nil
	}
	counts, period, n, err := s.read(state)
	switch {
	case err != nil:
		return nil, err
	case s.end <= now:
		*s = segments{width: 1, period: s.period, n: s.n, length: s.length}
		return nil, nil
	case s.end-now < 0:
		return nil, ErrOverflow
	}
	s.live = true
	if s.other = period != s.period || n != s.n; s.other && !s.cut(period, n) {
		return nil, ErrState
	}
	counts, ok := s.counting(counts, n, s.end-now)
	if !ok {
		return nil, ErrState
	}
	return counts, nil
}

// cut sets the sub-windows to n of period, and reports whether they fit in int64.
func (s *segments) cut(period, n int64) bool {
	s.period, s.n = period, n
	s.length = subWindow(period, n)
	over, span := mul(s.length, n)
	return over == 0 && span >= 0
}

// counting returns the counts that count now, if the newest leaves after left, and sums
// them up. ok is false if one of them is damaged.
func (s *segments) counting(counts []byte, n, left int64) (now []byte, ok bool) {
	if left <= (n-1)*s.length {
		s.since = n - int64((uint64(left)+uint64(s.length)-1)/uint64(s.length))
	}
	if old := int64(len(counts)/s.width) - (n - s.since); old > 0 {
		counts = counts[old*int64(s.width):]
	}
	s.total, ok = sumCounts(counts, s.width)
	return counts, ok
}

// subWindow returns S = ⌈Period/n⌉.
func subWindow(period, n int64) int64 {
	return int64((uint64(period) + uint64(n) - 1) / uint64(n))
}

// segmentedLevel is Level for SEGMENTED.
func segmentedLevel(state []byte, now int64) int64 {
	var s segments
	counts, period, n, err := s.read(state)
	if err != nil || s.end <= now || !s.cut(period, n) {
		return 0
	}
	if _, ok := s.counting(counts, n, until(s.end, now)); !ok {
		return 0
	}
	return int64(min(s.total, math.MaxInt64))
}
