package limit

import (
	"math"
	"math/big"
)

// The counters once more, in integers without bounds, with windows that are
// looked up on the wall clock.

// badCounterFields is the error of the first argument of a counter that is out
// of range.
func badCounterFields(l Limit, cost int64) error {
	switch {
	case l.Max < 0:
		return ErrMax
	case l.Calendar > Year:
		return ErrCalendar
	case l.Calendar == NoUnit && l.Period < 1:
		return ErrPeriod
	case cost < 0:
		return ErrCost
	}
	return nil
}

// windows are what a counter counts in: a state of other ones is none.
type windows struct {
	period   int64
	first    bool
	calendar Unit
	segments int64
}

func windowsOf(l Limit) windows {
	return windows{l.Period, l.First, l.Calendar, l.Segments}
}

// floorTo is the largest multiple of unit not above x.
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

// atLeast0 is n, or 0 if it is negative.
func atLeast0(n *big.Int) *big.Int {
	if n.Sign() < 0 {
		return new(big.Int)
	}
	return n
}

// fixedModel keeps a window's end and what is counted in it.
type fixedModel struct {
	windows windows
	end     *big.Int // nil: never seen
	count   *big.Int
}

func (m *fixedModel) expires() *big.Int { return m.end }

// endAt is the end of the window that a time lies in, or that begins with it.
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

// inForce tells whether the window kept is one for l at now.
func (m *fixedModel) inForce(l Limit, now int64) bool {
	if m.end == nil || m.end.Cmp(big.NewInt(now)) <= 0 || m.windows != windowsOf(l) {
		return false
	}
	return l.Calendar == NoUnit || m.endAt(l, m.end.Int64()-1).Cmp(m.end) == 0
}

func (m *fixedModel) decide(l Limit, now, cost int64, refund, keep bool) (Decision, error) {
	if err := badCounterFields(l, cost); err != nil {
		return Decision{}, err
	}
	count, end := new(big.Int), (*big.Int)(nil)
	if m.inForce(l, now) {
		count, end = m.count, m.end
		if !sub(end, big.NewInt(now)).IsInt64() {
			return Decision{}, ErrOverflow
		}
	}
	d := Decision{Limit: l.Max, Wait: Never}
	changed := false
	switch {
	case refund:
		if changed = cost > 0 && count.Sign() > 0; changed {
			if count = atLeast0(sub(count, big.NewInt(cost))); count.Sign() == 0 {
				end = nil
			}
		}
	default:
		d.Limited = l.Max == 0 || new(big.Int).Add(count, big.NewInt(cost)).Cmp(big.NewInt(l.Max)) > 0
		if d.Limited && cost <= l.Max && l.Max > 0 {
			d.Wait = sub(end, big.NewInt(now)).Int64()
		}
		if changed = cost > 0 && (!d.Limited || l.CountDenied && l.Max > 0); changed {
			if count = sumUpTo(count, cost); end == nil {
				end = m.endAt(l, now)
			}
			if !end.IsInt64() {
				return Decision{}, ErrOverflow
			}
		}
	}
	d.Remaining = atLeast0(sub(big.NewInt(l.Max), count)).Int64()
	if end != nil {
		d.Reset = sub(end, big.NewInt(now)).Int64()
	}
	if keep && changed {
		m.windows, m.end, m.count = windowsOf(l), end, count
	}
	return d, nil
}
