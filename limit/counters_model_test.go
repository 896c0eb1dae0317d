package limit

import (
	"math"
	"math/big"
)

// The counters once more, in integers without bounds, with windows that are
// looked up on the wall clock.

// badCounterFields returns the error of the first argument of a counter that is out
// of range.
func badCounterFields(l Limit, cost int64) error {
	switch {
	case l.Max < 0:
		return ErrMax
	case l.Calendar > Year:
		return ErrCalendar
	case l.Calendar == NoUnit && l.Period < 1:
		return ErrPeriod
	case l.Algorithm == SEGMENTED && (l.Segments < 2 || l.Segments > MaxSegments):
		return ErrSegments
	case cost < 0:
		return ErrCost
	}
	return nil
}

// windows are what a counter counts in; none are those of an end that no window
// has.
type windows struct {
	period   int64
	first    bool
	calendar Unit
	segments int64
}

func windowsOf(l Limit) windows {
	return windows{l.Period, l.First, l.Calendar, l.Segments}
}

// floorTo returns the largest multiple of unit not above x.
func floorTo(x, unit int64) *big.Int {
	u := big.NewInt(unit)
	n := new(big.Int).Div(big.NewInt(x), u) // rounds down, for a positive unit
	return n.Mul(n, u)
}

// sum, and no more than the largest int64.
func sumUpTo(a *big.Int, b int64) *big.Int {
	n := new(big.Int).Add(a, big.NewInt(b))
	if !n.IsInt64() {
		n.SetInt64(math.MaxInt64)
	}
	return n
}

// atLeast0 returns n, or 0 if it is negative.
func atLeast0(n *big.Int) *big.Int {
	if n.Sign() < 0 {
		return new(big.Int)
	}
	return n
}

// fixedModel keeps a window's end and its count.
type fixedModel struct {
	windows windows
	end     *big.Int // nil: never seen
	count   *big.Int
}

func (m *fixedModel) expires() *big.Int { return m.end }

// endAt returns the end of the window that a time lies in, or that begins with it.
func (m *fixedModel) endAt(l Limit, now int64) *big.Int {
	switch {
	case l.Calendar != NoUnit:
		sec := new(big.Int).Div(big.NewInt(now), big.NewInt(second)).Int64()
		end, ok := quickEnd(l.Calendar, l.Zone, sec)
		if !ok {
			end = slowEnd(l.Calendar, l.Zone, sec)
		}
		return new(big.Int).Mul(big.NewInt(end), big.NewInt(second))
	case l.First:
		return new(big.Int).Add(big.NewInt(now), big.NewInt(l.Period))
	}
	end := floorTo(now, l.Period)
	return end.Add(end, big.NewInt(l.Period))
}

// sameKind reports whether the window kept is one of l's.
func (m *fixedModel) sameKind(l Limit) bool {
	if m.windows != windowsOf(l) {
		return false
	}
	return l.Calendar == NoUnit || m.endAt(l, m.end.Int64()-1).Cmp(m.end) == 0
}

// newEnd returns the end of l's window at a time, if the one kept is of another kind.
func (m *fixedModel) newEnd(l Limit, now int64) *big.Int {
	if l.First && m.windows.first {
		end := sub(m.end, big.NewInt(m.windows.period))
		end.Add(end, big.NewInt(l.Period))
		if left := sub(end, big.NewInt(now)); left.Sign() > 0 && left.IsInt64() && end.IsInt64() {
			return end
		}
	}
	return m.endAt(l, now)
}

// sooner returns the end of so many windows of l as admit the count, or nil if that is
// not sooner than the end of the one kept.
func (m *fixedModel) sooner(l Limit, now int64) *big.Int {
	windows := ceil(m.count, big.NewInt(l.Max))
	end := m.newEnd(l, now)
	switch windows.Sub(windows, big.NewInt(1)); {
	case l.Calendar == NoUnit:
		end = new(big.Int).Add(end, windows.Mul(windows, big.NewInt(l.Period)))
	case windows.Cmp(big.NewInt(63)) > 0:
		return nil
	default:
		for range windows.Int64() {
			if end.Cmp(m.end) >= 0 {
				return nil
			}
			end = m.endAt(l, end.Int64())
		}
	}
	if end.Cmp(m.end) < 0 {
		return end
	}
	return nil
}

func (m *fixedModel) decide(l Limit, now, cost int64, refund, keep bool) (Decision, error) {
	if err := badCounterFields(l, cost); err != nil {
		return Decision{}, err
	}
	next := &fixedModel{windowsOf(l), nil, new(big.Int)}
	same := true
	if m.end != nil && m.end.Cmp(big.NewInt(now)) > 0 {
		if !sub(m.end, big.NewInt(now)).IsInt64() {
			return Decision{}, ErrOverflow
		}
		next = &fixedModel{m.windows, m.end, m.count}
		same = m.sameKind(l)
	}
	d := Decision{Limit: l.Max, Wait: Never}
	changed := false
	switch {
	case refund:
		if changed = cost > 0 && next.count.Sign() > 0; changed {
			if next.count = atLeast0(sub(next.count, big.NewInt(cost))); next.count.Sign() == 0 {
				next.end = nil
			}
		}
	default:
		d.Limited = l.Max == 0 || new(big.Int).Add(next.count, big.NewInt(cost)).Cmp(big.NewInt(l.Max)) > 0
		if d.Limited && cost <= l.Max && l.Max > 0 {
			if !same && cost > 0 {
				if end := m.sooner(l, now); end != nil {
					next.windows, next.end, changed = windows{}, end, true
					length := sub(end, sub(m.end, big.NewInt(m.windows.period)))
					if m.windows.first && length.Sign() > 0 {
						next.windows = windows{period: length.Int64(), first: true}
					}
				}
			}
			d.Wait = sub(next.end, big.NewInt(now)).Int64()
		}
		if cost > 0 && (!d.Limited || l.CountDenied && l.Max > 0) {
			changed = true
			next.count = sumUpTo(next.count, cost)
			switch {
			case next.end == nil:
				next.windows, next.end = windowsOf(l), m.endAt(l, now)
			case !d.Limited && !same:
				next.windows, next.end = windowsOf(l), m.newEnd(l, now)
			}
			if !next.end.IsInt64() {
				return Decision{}, ErrOverflow
			}
		}
	}
	d.Remaining = atLeast0(sub(big.NewInt(l.Max), next.count)).Int64()
	if next.end != nil {
		d.Reset = sub(next.end, big.NewInt(now)).Int64()
	}
	if keep && changed {
		*m = *next
	}
	return d, nil
}

// historyModel is the model of SLIDING and SEGMENTED. It keeps the count of each of
// many short windows.
type historyModel struct {
	windows windows
	origin  *big.Int           // where the window of number 0 begins
	counts  map[int64]*big.Int // by the window's number; none is 0
	line    *lineModel         // in place of the windows, after a denial of SLIDING
}

// lineModel is a use that goes down to 0 at the pace of a limit.
type lineModel struct {
	end  *big.Rat
	pace *big.Rat
}

// at returns the use at a time.
func (l *lineModel) at(now *big.Int) *big.Rat {
	left := new(big.Rat).Sub(l.end, new(big.Rat).SetInt(now))
	if left.Sign() < 0 {
		return new(big.Rat)
	}
	return left.Mul(left, l.pace)
}

// with returns the line with more in use.
func (l *lineModel) with(cost int64) *lineModel {
	time := new(big.Rat).SetInt64(cost)
	time.Quo(time, l.pace)
	return &lineModel{time.Add(l.end, time), l.pace}
}

// width returns the length of a window, and many how many of them count.
func (m *historyModel) width() (width, many int64) {
	if m.windows.segments == 0 {
		return m.windows.period, 2
	}
	s := ceil(big.NewInt(m.windows.period), big.NewInt(m.windows.segments))
	return s.Int64(), m.windows.segments
}

// fits reports whether all windows that count fit.
func (m *historyModel) fits() bool {
	width, many := m.width()
	return m.windows.segments == 0 || new(big.Int).Mul(big.NewInt(width), big.NewInt(many)).IsInt64()
}

// newest returns the number of the newest window that has a count.
func (m *historyModel) newest() (number int64, ok bool) {
	for k := range m.counts {
		if !ok || k > number {
			number, ok = k, true
		}
	}
	return number, ok
}

// expires returns the time from which nothing counts, nil if nothing does now.
func (m *historyModel) expires() *big.Int {
	if m.line != nil {
		return ceil(m.line.end.Num(), m.line.end.Denom())
	}
	number, ok := m.newest()
	if !ok {
		return nil
	}
	width, many := m.width()
	n := new(big.Int).Add(big.NewInt(number), big.NewInt(many))
	n.Mul(n, big.NewInt(width))
	return n.Add(n, m.origin)
}

// window returns the number of the window of a time, and how far into it that is; as
// if time stood at the newest window's beginning until that begins.
func (m *historyModel) window(now *big.Int) (number int64, elapsed *big.Int) {
	width, _ := m.width()
	k, e := new(big.Int).DivMod(sub(now, m.origin), big.NewInt(width), new(big.Int))
	number = k.Int64()
	if newest, ok := m.newest(); ok && newest > number {
		return newest, new(big.Int)
	}
	return number, e
}

func (m *historyModel) countOf(number int64) *big.Int {
	if n := m.counts[number]; n != nil {
		return n
	}
	return new(big.Int)
}

// exact returns what counts at a time.
func (m *historyModel) exact(now *big.Int) *big.Rat {
	if ends := m.expires(); ends == nil || ends.Cmp(now) <= 0 {
		return new(big.Rat)
	}
	if m.line != nil {
		return m.line.at(now)
	}
	width, many := m.width()
	number, elapsed := m.window(now)
	if m.windows.segments == 0 {
		n := new(big.Int).Mul(m.countOf(number-1), sub(big.NewInt(width), elapsed))
		part := new(big.Rat).SetFrac(n, big.NewInt(width))
		return part.Add(part, new(big.Rat).SetInt(m.countOf(number)))
	}
	n := new(big.Int)
	for i := range many {
		n.Add(n, m.countOf(number-i))
	}
	return new(big.Rat).SetInt(n)
}

// used returns what counts at a time, rounded up.
func (m *historyModel) used(now *big.Int) *big.Int {
	n := m.exact(now)
	return ceil(n.Num(), n.Denom())
}

// wait returns the time until no more than so many are used.
func (m *historyModel) wait(now, places *big.Int) *big.Int {
	// Not yet at low, but at high.
	low, high := now, m.expires()
	for sub(high, low).Cmp(big.NewInt(1)) > 0 {
		middle := new(big.Int).Add(low, high)
		if middle.Rsh(middle, 1); m.used(middle).Cmp(places) <= 0 {
			high = middle
		} else {
			low = middle
		}
	}
	return sub(high, now)
}

// after returns the model once cost is counted at a time.
func (m *historyModel) after(now *big.Int, cost int64) *historyModel {
	next := m.kept(now)
	if next.line != nil {
		next.line = next.line.with(cost)
		return next
	}
	number, _ := next.window(now)
	next.counts[number] = sumUpTo(next.countOf(number), cost)
	return next
}

// kept returns the model without the windows that no longer count.
func (m *historyModel) kept(now *big.Int) *historyModel {
	next := &historyModel{windows: m.windows, origin: m.origin, counts: map[int64]*big.Int{}}
	if ends := m.expires(); ends == nil || ends.Cmp(now) <= 0 {
		return next
	}
	if next.line = m.line; m.line != nil {
		return next
	}
	_, many := m.width()
	number, _ := m.window(now)
	for k, n := range m.counts {
		if uint64(number)-uint64(k) < uint64(many) { // number is not before k
			next.counts[k] = n
		}
	}
	return next
}

// without returns the model after cost was given back, from the newest window on, and
// whether that changed it.
func (m *historyModel) without(now *big.Int, cost int64) (next *historyModel, changed bool) {
	next = m.kept(now)
	if next.line != nil && cost > 0 {
		if next.line = next.line.with(-cost); next.line.end.Cmp(new(big.Rat).SetInt(now)) <= 0 {
			next.line = nil
		}
		return next, true
	}
	left := big.NewInt(cost)
	for left.Sign() > 0 {
		newest, ok := next.newest()
		if !ok {
			break
		}
		changed = true
		n := next.counts[newest]
		if n.Cmp(left) > 0 {
			next.counts[newest] = sub(n, left)
			break
		}
		delete(next.counts, newest)
		left = sub(left, n)
	}
	return next, changed
}

// moved returns the model with all that is used in other windows; nil if they do not
// fit. Those of a sliding window begin so that as much is used, to a fraction.
func (m *historyModel) moved(now int64, w windows) *historyModel {
	next := &historyModel{windows: w, origin: new(big.Int), counts: map[int64]*big.Int{}}
	if !next.fits() {
		return nil
	}
	number := int64(-1)
	at := big.NewInt(now)
	used := m.used(at)
	switch {
	case w.segments > 0:
		number, _ = next.window(at)
	case used.Sign() > 0:
		part := new(big.Rat).Sub(new(big.Rat).SetInt(used), m.exact(at))
		part.Mul(part, new(big.Rat).SetFrac(big.NewInt(w.period), used))
		next.origin = sub(at, part.Num().Quo(part.Num(), part.Denom()))
	}
	if used.Sign() > 0 {
		next.counts[number] = used
	}
	return next
}

// hastened returns the model after a denial under other windows, nil if that keeps it:
// all that is used comes back at the pace of l, if no unit comes back later and
// one comes sooner; or if all come sooner, for one that comes back all at once.
func (m *historyModel) hastened(l Limit, now int64) *historyModel {
	at := big.NewInt(now)
	if !m.used(at).IsInt64() {
		return nil
	}
	var next *historyModel
	if windowsOf(l).segments == 0 {
		next = m.hastenedLine(l, at)
	} else {
		next = m.hastenedSegments(l, at)
	}
	if next == nil || !next.expires().IsInt64() {
		return nil
	}
	return next
}

func (m *historyModel) hastenedLine(l Limit, now *big.Int) *historyModel {
	use, pace := m.exact(now), big.NewRat(l.Max, l.Period)
	start := new(big.Rat).SetInt(now)
	lasts := func(use *big.Rat) *big.Rat { return new(big.Rat).Quo(use, pace) }
	period := new(big.Rat).SetInt64(l.Period)
	debt := new(big.Rat).Mul(use, period)
	rounded := new(big.Rat).SetInt(ceil(debt.Num(), debt.Denom()))
	end := lasts(rounded.Quo(rounded, period))
	if new(big.Rat).Sub(end, new(big.Rat).SetInt64(math.MaxInt64)).Sign() > 0 {
		return nil
	}
	line := &lineModel{end.Add(end, start), pace}
	// When the use is a line from now on, and when it is one until its end.
	shorter := 0
	if m.line != nil {
		shorter = pace.Cmp(m.line.pace)
	} else {
		number, elapsed := m.window(now)
		width, _ := m.width()
		current := new(big.Rat).SetInt(m.countOf(number))
		turns := new(big.Int).Add(sub(now, elapsed), big.NewInt(width)) // when the current window ends
		if newest := new(big.Int).Mul(big.NewInt(number), big.NewInt(width)); now.Cmp(newest.Add(newest, m.origin)) < 0 {
			turns = newest.Add(newest, big.NewInt(width))
		}
		until := new(big.Rat).SetInt(sub(turns, now))
		shorter = until.Cmp(lasts(new(big.Rat).Sub(use, current)))
		if current.Sign() > 0 && shorter >= 0 {
			switch line.end.Cmp(new(big.Rat).SetInt(m.expires())) {
			case -1:
				shorter = 1
			case 1:
				shorter = -1
			}
		}
	}
	if shorter <= 0 {
		return nil
	}
	return &historyModel{windows: windows{period: l.Period, first: true}, line: line}
}

func (m *historyModel) hastenedSegments(l Limit, now *big.Int) *historyModel {
	used, w := m.used(now), windowsOf(l)
	length := ceil(used, big.NewInt(l.Max))
	if length.Mul(length, big.NewInt(l.Period)); !length.IsInt64() {
		return nil
	}
	w.period = length.Int64()
	next := m.moved(now.Int64(), w)
	if next == nil {
		return nil
	}
	first := m.wait(now, sub(used, big.NewInt(1)))
	if sub(next.expires(), now).Cmp(first) >= 0 {
		return nil
	}
	return next
}

func (m *historyModel) decide(l Limit, now64, cost int64, refund, keep bool) (Decision, error) {
	if err := badCounterFields(l, cost); err != nil {
		return Decision{}, err
	}
	now := big.NewInt(now64)
	next := &historyModel{windows: windowsOf(l), origin: new(big.Int), counts: map[int64]*big.Int{}}
	if !next.fits() {
		return Decision{}, ErrOverflow
	}
	if ends := m.expires(); ends != nil && ends.Cmp(now) > 0 {
		if next = m; !sub(ends, now).IsInt64() {
			return Decision{}, ErrOverflow
		}
	}
	d := Decision{Limit: l.Max, Wait: Never}
	changed := false
	if refund {
		if after, given := next.without(now, cost); given {
			next, changed = after, true
		}
	} else {
		n := next.used(now)
		d.Limited = l.Max == 0 || n.Add(n, big.NewInt(cost)).Cmp(big.NewInt(l.Max)) > 0
		if other := next.windows != windowsOf(l); other && cost > 0 && cost <= l.Max {
			if !d.Limited {
				next = next.moved(now64, windowsOf(l))
			} else if after := next.hastened(l, now64); after != nil {
				next, changed = after, true
			}
		}
		if cost > 0 && (!d.Limited || l.CountDenied && l.Max > 0) {
			changed = true
			next = next.after(now, cost)
			if ends := next.expires(); !ends.IsInt64() || !sub(ends, now).IsInt64() {
				return Decision{}, ErrOverflow
			}
		}
		if d.Limited && cost <= l.Max && l.Max > 0 {
			d.Wait = next.wait(now, big.NewInt(l.Max-cost)).Int64()
		}
	}
	d.Remaining = atLeast0(sub(big.NewInt(l.Max), next.used(now))).Int64()
	if ends := next.expires(); ends != nil && ends.Cmp(now) > 0 {
		d.Reset = sub(ends, now).Int64()
	}
	if keep && changed {
		*m = *next
	}
	return d, nil
}
