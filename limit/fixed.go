package limit

import (
	"encoding/binary"
	"math"
)

// The fixed window counter: what Redis users build with INCR and EXPIRE, and
// the Envoy rate limit service with a window's number in the key. Time is cut
// into windows, and each admits Max:
//
//	count     = what has been taken in the window of now
//	limited   ⇔ count + cost > Max
//	remaining = max(0, Max − count)
//	wait      = end − now if cost ≤ Max, else Never
//	reset     = end − now
//
// Windows begin every Period from the epoch on; or, with FIRST, when a key is
// taken from that has no window, each for itself; or are units of the calendar
// (see calendar.go).
//
// Promise: at most Max in each window, so at most Max·(⌈t/Period⌉ + 1) in any
// time t. That is twice Max in a moment where two windows meet: who cannot have
// that chooses another algorithm.
//
// The state:
//
//	 0               8                 9 (…)
//	┌───────────────┬─────────────────┬────────────────┐
//	│ end, Unix ns  │ tag, see tag.go │ count, uvarint │
//	│ 8 bytes, LE   │ 1 to 10 bytes   │ 1 to 9 bytes   │
//	└───────────────┴─────────────────┴────────────────┘
//
// A window is in force until its end, also at times before it (the clock has
// gone back). With another Max, the count stays. With another Period, kind or
// unit, there is no window yet, nor if the end is none of the calendar's in the
// zone asked for.

// fixedWindow is what is in force, or nothing.
type fixedWindow struct {
	end, count int64
	live       bool // there is a window in force
}

// fixedTake is Take for FIXED.
func fixedTake(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var w fixedWindow
	counted, err := w.decide(d, l, state, now, cost)
	if err != nil || !counted {
		return nil, err
	}
	return w.put(dst, l), nil
}

// fixedPeek is Peek for FIXED.
func fixedPeek(d *Decision, l *Limit, state []byte, now, cost int64) error {
	var w fixedWindow
	_, err := w.decide(d, l, state, now, cost)
	return err
}

// fixedRefund is Refund for FIXED: the count goes down, not below 0.
func fixedRefund(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var w fixedWindow
	if err := w.find(l, state, now, cost); err != nil {
		return nil, err
	}
	if w.count == 0 || cost == 0 {
		w.tell(d, l, now)
		return nil, nil
	}
	w.count -= min(w.count, cost)
	w.live = w.count > 0
	w.tell(d, l, now)
	return w.put(dst, l), nil
}

// decide fills in the decision and the window, with the request if it has been
// counted.
func (w *fixedWindow) decide(d *Decision, l *Limit, state []byte, now, cost int64) (counted bool, err error) {
	if err = w.find(l, state, now, cost); err != nil {
		return false, err
	}
	limited, wait := l.Max == 0 || w.count > l.Max-cost, Never
	if limited && w.live && cost <= l.Max && l.Max > 0 {
		wait = w.end - now
	}
	counted = cost > 0 && (!limited || l.CountDenied && l.Max > 0)
	if counted {
		if !w.live {
			if w.end, err = fixedEnd(l, now); err != nil {
				return false, err
			}
			w.live = true
		}
		w.count = addUpTo(w.count, cost)
	}
	w.tell(d, l, now)
	d.Limited, d.Wait = limited, wait
	return counted, nil
}

// tell fills in the decision on a request that is granted.
func (w *fixedWindow) tell(d *Decision, l *Limit, now int64) {
	*d = Decision{Limit: l.Max, Remaining: max(0, l.Max-w.count), Wait: Never}
	if w.live {
		d.Reset = w.end - now
	}
}

// find checks the arguments and finds the window in force.
func (w *fixedWindow) find(l *Limit, state []byte, now, cost int64) error {
	if l.Max|cost < 0 || l.Calendar > Year || l.Calendar == NoUnit && l.Period < 1 {
		return badCounter(l, cost)
	}
	if len(state) == 0 {
		return nil
	}
	tag, err := w.read(state)
	if err != nil {
		return err
	}
	if w.end <= now || tag != tagOf(l) || tag.unit != NoUnit && !calendarEnds(l, w.end) {
		*w = fixedWindow{}
		return nil
	}
	if w.end-now < 0 {
		return ErrOverflow
	}
	w.live = true
	return nil
}

// fixedEnd is when the window ends that begins at now, or that now lies in.
func fixedEnd(l *Limit, now int64) (end int64, err error) {
	switch {
	case l.Calendar != NoUnit:
		sec := calendarEnd(l.Calendar, l.Zone, wholeSeconds(now))
		if sec > math.MaxInt64/second {
			return 0, ErrOverflow
		}
		return sec * second, nil
	case l.First:
		end = now + l.Period
	default:
		end = now + (l.Period - modulo(now, l.Period))
	}
	if end < now {
		return 0, ErrOverflow
	}
	return end, nil
}

// calendarEnds tells whether a window of the calendar ends at end.
func calendarEnds(l *Limit, end int64) bool {
	sec := end / second
	return sec*second == end && calendarEnd(l.Calendar, l.Zone, sec-1) == sec
}

// fixedLevel is Level for FIXED.
func fixedLevel(state []byte, now int64) int64 {
	var w fixedWindow
	if _, err := w.read(state); err != nil || w.end <= now {
		return 0
	}
	return w.count
}

// read reads a state.
func (w *fixedWindow) read(state []byte) (t windowTag, err error) {
	const shortest = 8 + 1 + 1
	if len(state) < shortest {
		return t, ErrState
	}
	t, n := readTag(state[8:])
	count, m := readCount(state[8+n:])
	if n == 0 || m == 0 || 8+n+m != len(state) {
		return t, ErrState
	}
	w.end, w.count = int64(binary.LittleEndian.Uint64(state)), count
	return t, nil
}

// put writes the window over dst. One that has nothing left is written as long
// expired.
func (w *fixedWindow) put(dst []byte, l *Limit) []byte {
	end := w.end
	if !w.live {
		end = math.MinInt64
	}
	var buf [MaxState]byte
	b := binary.LittleEndian.AppendUint64(buf[:0], uint64(end))
	b = appendTag(b, tagOf(l))
	b = binary.AppendUvarint(b, uint64(w.count))
	return append(dst[:0], b...)
}

// badCounter is the error of the first argument of a counter that is out of
// range.
func badCounter(l *Limit, cost int64) error {
	switch {
	case l.Max < 0:
		return ErrMax
	case l.Calendar > Year:
		return ErrCalendar
	case l.Calendar == NoUnit && l.Period < 1:
		return ErrPeriod
	case l.Algorithm == SEGMENTED && (l.Segments < 2 || l.Segments > MaxSegments):
		return ErrSegments
	}
	return ErrCost
}

// addUpTo is a + b of two integers that are not negative, or the largest there
// is: an exact count no longer matters there.
func addUpTo(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
