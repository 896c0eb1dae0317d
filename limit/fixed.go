package limit

import (
	"encoding/binary"
	"math"
)

// The fixed window counter, as Redis users build it with INCR and EXPIRE, and the
// Envoy rate limit service with the window's number in the key. Time is cut into
// windows, and each admits Max:
//
//	count     = what has been taken in the window of now
//	limited   ⇔ count + cost > Max
//	remaining = max(0, Max − count)
//	wait      = end − now if cost ≤ Max, else Never
//	reset     = end − now
//
// Windows begin every Period from the epoch on. With FIRST, a key's window begins
// when it is taken from and has none. With CALENDAR, windows are units of the
// calendar (see calendar.go).
//
// Promise: at most Max in each window, so at most Max·(⌈t/Period⌉ + 1) in any
// time t. Twice Max may go in the moment where two windows meet; the other
// algorithms do not allow that.
//
// The state:
//
//	 0               8                 9 (…)
//	┌───────────────┬─────────────────┬────────────────┐
//	│ end, Unix ns  │ tag, see tag.go │ count, uvarint │
//	│ 8 bytes, LE   │ 1 to 10 bytes   │ 1 to 9 bytes   │
//	└───────────────┴─────────────────┴────────────────┘
//
// A window is in force until its end, also at times before it begins (if the clock
// has gone back). With another Max, the count stays.
//
// A limit with another kind of window (Period, FIRST, unit, or a zone in which no
// window ends at that end) takes the count over. Let e be the end of the new
// limit's window around now. With FIRST, it is the window that began when the old
// one did; or one that begins now, if that has ended. Then
//
//	granted: end = e
//	denied:  end = e + (⌈count/Max⌉ − 1) windows more, if that is sooner
//
// A denial is written only if it moves the end. It leaves as much time as the new
// limit needs to admit the count: a count of 1000 must not be forgotten after a
// minute because somebody asked with 10 a minute. Such an end belongs to no
// window, so the state gets the empty tag, which differs from every limit's; the
// tag of a FIRST window keeps its beginning. A denial does not look further ahead
// than 64 windows of the calendar.
//
// Promise, if limits i alternate on one key: at most M + ΣMaxᵢ·(⌊t/Periodᵢ⌋ + 1) in
// any time t, where M is the largest Max. A count is forgotten only at the end of
// windows that together admit as much.

// mostUnits is the number of calendar windows that a denial looks ahead.
const mostUnits = 64

// fixedWindow is the window in force, if there is one.
type fixedWindow struct {
	end, count int64
	live       bool      // there is a window in force
	other      bool      // it is of another kind than the limit's
	tag        windowTag // of a window of another kind
}

// fixedTake is Take for FIXED.
func fixedTake(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var w fixedWindow
	changed, err := w.decide(d, l, state, now, cost)
	if err != nil || !changed {
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

// fixedRefund is Refund for FIXED. The count goes down to 0 at most.
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

// decide fills in the decision and the window, which includes the request if it
// counts. It reports whether the window has changed.
func (w *fixedWindow) decide(d *Decision, l *Limit, state []byte, now, cost int64) (changed bool, err error) {
	if err = w.find(l, state, now, cost); err != nil {
		return false, err
	}
	limited, wait := l.Max == 0 || w.count > l.Max-cost, Never
	if limited && w.live && cost <= l.Max && l.Max > 0 {
		if w.other && cost > 0 {
			changed = w.hasten(l, now)
		}
		wait = w.end - now
	}
	if cost > 0 && (!limited || l.CountDenied && l.Max > 0) {
		changed = true
		if !w.live || w.other && !limited {
			if w.end, err = w.windowEnd(l, now); err != nil {
				return false, err
			}
			w.live, w.other = true, false
		}
		w.count = addUpTo(w.count, cost)
	}
	w.tell(d, l, now)
	d.Limited, d.Wait = limited, wait
	return changed, nil
}

// hasten moves the end of another limit's window to the time by which l admits as
// much as the count, which is 1 or more. It reports whether that is sooner.
func (w *fixedWindow) hasten(l *Limit, now int64) bool {
	end, err := w.windowEnd(l, now)
	if err != nil || end >= w.end {
		return false
	}
	more := (w.count - 1) / l.Max // windows after the first
	if l.Calendar == NoUnit {
		if more > (w.end-1-end)/l.Period {
			return false
		}
		end += more * l.Period
	} else if more >= mostUnits {
		return false
	} else {
		for ; more > 0; more-- {
			if end, err = fixedEnd(l, end); err != nil || end >= w.end {
				return false
			}
		}
	}
	if length := w.tag.period - (w.end - end); w.tag.first && length > 0 {
		w.tag.period = length
	} else {
		w.tag = windowTag{}
	}
	w.end = end
	return true
}

// windowEnd returns the end of l's window, where w is none of l's.
func (w *fixedWindow) windowEnd(l *Limit, now int64) (end int64, err error) {
	if w.other && l.First && w.tag.first {
		longer := l.Period - w.tag.period
		end = w.end + longer
		if wrapped := (end < w.end) != (longer < 0); !wrapped && end > now && end-now > 0 {
			return end, nil
		}
	}
	return fixedEnd(l, now)
}

// tell fills in the decision of a granted request.
func (w *fixedWindow) tell(d *Decision, l *Limit, now int64) {
	*d = Decision{Limit: l.Max, Remaining: max(0, l.Max-w.count), Wait: Never}
	if w.live {
		d.Reset = w.end - now
	}
}

// find checks the arguments and finds the window in force.
func (w *fixedWindow) find(l *Limit, state []byte, now, cost int64) error {
	if l.Max|cost < 0 || l.Calendar > Year || l.Calendar == NoUnit && l.Period < 1 {
		return badCounter(l)
	}
	if len(state) == 0 {
		return nil
	}
	tag, err := w.read(state)
	if err != nil {
		return err
	}
	switch {
	case w.end <= now:
		*w = fixedWindow{}
		return nil
	case w.end-now < 0:
		return ErrOverflow
	}
	w.live = true
	if tag != tagOf(l) || tag.unit != NoUnit && !calendarEnds(l, w.end) {
		w.other, w.tag = true, tag
	}
	return nil
}

// fixedEnd returns the end of the window around now; with FIRST, of one that begins
// now.
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

// calendarEnds reports whether a window of the calendar ends at end.
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

// put writes the window over dst. A window whose count is 0 is written as expired.
func (w *fixedWindow) put(dst []byte, l *Limit) []byte {
	end := w.end
	if !w.live {
		end = math.MinInt64
	}
	var buf [MaxState]byte
	b := binary.LittleEndian.AppendUint64(buf[:0], uint64(end))
	tag := w.tag
	if !w.other {
		tag = tagOf(l)
	}
	b = appendTag(b, tag)
	b = binary.AppendUvarint(b, uint64(w.count))
	return append(dst[:0], b...)
}

// badCounter returns the error of a counter's first argument that is out of range.
func badCounter(l *Limit) error {
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
