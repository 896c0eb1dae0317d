package limit

import "math/big"

// warmModel is Guava's SmoothWarmingUp in permits, as its comment has it, with
// fractions in place of doubles. In place of the stored permits it keeps the heat,
// in whole nanoseconds.
type warmModel struct {
	free *big.Int // nil: never seen
	heat *big.Int // also beyond Warm, while it is owed
	warm *big.Int // the Warm of the last change
	pace *big.Int // the interval of what is owed, nil if nothing was
	of   Limit    // whose COLD and Warm what is owed has, while pace is not nil
}

func (m *warmModel) expires() *big.Int {
	if m.free == nil {
		return nil
	}
	return new(big.Int).Add(m.free, least(m.heat, m.warm))
}

func least(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// warmView is a key at a time.
type warmView struct {
	l                                         Limit
	now, free, heat, end, s                   *big.Int
	stable, slope, threshold, maximum, coolby *big.Rat // ns, ns a permit, permits, permits, ns
}

func whole64(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func (m *warmModel) view(l Limit, now, cost int64) (v warmView, err error) {
	switch {
	case badFields(l, cost) != nil:
		return v, badFields(l, cost)
	case l.Warm < 1:
		return v, ErrWarm
	case l.Cold < 1 || l.Cold > MaxCold:
		return v, ErrCold
	case l.Warm > maxWarm:
		return v, ErrOverflow
	}
	v = warmView{l: l, now: big.NewInt(now), free: big.NewInt(now), heat: new(big.Int), end: big.NewInt(now)}
	if end := m.expires(); end != nil && end.Cmp(v.now) > 0 {
		if !sub(end, v.now).IsInt64() {
			return v, ErrOverflow
		}
		v.end = end
		if m.free.Cmp(v.now) > 0 {
			v.free, v.heat = m.free, m.heat
			end := new(big.Int).Add(v.free, least(v.heat, big.NewInt(l.Warm)))
			if !end.IsInt64() || !sub(end, v.now).IsInt64() {
				return v, ErrOverflow
			}
		} else {
			v.heat = least(sub(end, v.now), big.NewInt(l.Warm))
		}
	}
	if l.Max > 0 {
		v.draw(l, big.NewInt((l.Period-1)/l.Max+1))
	}
	return v, nil
}

// draw draws the prices of a limit with the interval s.
func (v *warmView) draw(l Limit, s *big.Int) {
	v.l, v.s = l, s
	v.stable = new(big.Rat).SetInt(v.s)
	cold := new(big.Rat).Mul(v.stable, whole64(l.Cold))
	warm := whole64(l.Warm)
	v.threshold = new(big.Rat).Quo(warm, v.stable)
	v.threshold.Mul(v.threshold, big.NewRat(1, 2))
	v.maximum = new(big.Rat).Quo(new(big.Rat).Mul(whole64(2), warm), new(big.Rat).Add(v.stable, cold))
	climb := new(big.Rat).Set(v.maximum)
	v.maximum.Add(v.maximum, v.threshold)
	v.slope = new(big.Rat).Sub(cold, v.stable)
	v.slope.Quo(v.slope, climb)
	v.coolby = new(big.Rat).Quo(warm, v.maximum)
}

// price returns the time that permits cost, the stored ones first.
func (v *warmView) price(heat *big.Int, cost int64) *big.Int {
	stored := new(big.Rat).Quo(new(big.Rat).SetInt(least(heat, big.NewInt(v.l.Warm))), v.coolby)
	stored.Sub(v.maximum, stored)
	fresh := whole64(cost)
	sum := new(big.Rat)
	if above := new(big.Rat).Sub(stored, v.threshold); above.Sign() > 0 {
		taken := new(big.Rat).Set(above)
		if taken.Cmp(fresh) > 0 {
			taken.Set(fresh)
		}
		// The mean of the prices of the first and of the last.
		mean := new(big.Rat).Add(above, new(big.Rat).Sub(above, taken))
		mean.Mul(mean, v.slope)
		mean.Mul(mean, big.NewRat(1, 2))
		mean.Add(mean, v.stable)
		sum.Mul(mean, taken)
		fresh.Sub(fresh, taken)
	}
	sum.Add(sum, new(big.Rat).Mul(fresh, v.stable))
	return ceil(sum.Num(), sum.Denom())
}

// heats returns by how much permits heat, rounded down.
func (v *warmView) heats(cost int64) *big.Int {
	r := new(big.Rat).Mul(v.coolby, whole64(cost))
	return new(big.Int).Quo(r.Num(), r.Denom())
}

// there sets Remaining and Reset of the state that is kept.
func (v *warmView) there(d *Decision) {
	v.tell(d, v.free, v.heat)
	d.Reset = sub(v.end, v.now).Int64()
}

// owed returns the debt at the pace of the limit.
func (m *warmModel) owed(v *warmView) *big.Int {
	owed := sub(v.free, v.now)
	if owed.Sign() > 0 && m.pace != nil {
		owed = ceil(new(big.Int).Mul(owed, v.s), m.pace)
	}
	return owed
}

// hasten makes the debt come back at the pace of the limit, if that is sooner.
func (m *warmModel) hasten(v *warmView, d *Decision, keep bool) {
	free := new(big.Int).Add(v.now, m.owed(v))
	if free.Cmp(v.free) >= 0 {
		return
	}
	v.end = sub(v.end, sub(v.free, free))
	v.free = free
	v.there(d)
	if keep {
		m.free, m.pace = free, v.s
	}
}

// tell sets Remaining and Reset of a state.
func (v *warmView) tell(d *Decision, free, heat *big.Int) {
	d.Reset = sub(new(big.Int).Add(free, least(heat, big.NewInt(v.l.Warm))), v.now).Int64()
	d.Limit = v.l.Max
	if d.Remaining = 0; free.Cmp(v.now) <= 0 {
		d.Remaining = v.l.Max
	}
}

// take returns the state after a cost has been taken.
func (v *warmView) take(cost int64) (free, heat *big.Int, err error) {
	q := new(big.Rat).Mul(v.stable, whole64(cost))
	price, more := v.price(v.heat, cost), v.heats(cost)
	free = new(big.Int).Add(v.free, price)
	heat = new(big.Int).Add(v.heat, more)
	end := new(big.Int).Add(free, least(heat, big.NewInt(v.l.Warm)))
	for _, n := range []*big.Int{q.Num(), price, more, heat, sub(free, v.now), end, sub(end, v.now)} {
		if !n.IsInt64() {
			return nil, nil, ErrOverflow
		}
	}
	return free, heat, nil
}

// keep keeps what is owed and the heat.
func (m *warmModel) keep(v *warmView, free, heat, pace *big.Int) {
	m.free, m.heat, m.warm, m.pace = free, heat, big.NewInt(v.l.Warm), pace
}

// taken keeps what a limit has taken.
func (m *warmModel) taken(v *warmView, free, heat *big.Int) {
	of := v.l
	if m.free != nil && m.free.Cmp(v.now) > 0 &&
		(m.pace == nil || m.pace.Cmp(v.s) != 0 || m.of.Cold != of.Cold || m.of.Warm != of.Warm) {
		of.Cold = 1
	}
	m.of = of
	m.keep(v, free, heat, v.s)
}

func (m *warmModel) decide(l Limit, now, cost int64, refund, keep bool) (Decision, error) {
	v, err := m.view(l, now, cost)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Wait: Never}
	v.there(&d)
	if refund {
		if l.Max > 0 {
			m.refund(&v, &d, cost, keep)
		}
		return d, nil
	}
	if l.Max == 0 || cost > l.Max {
		d.Limited = true
		return d, nil
	}
	free, heat, err := v.take(cost)
	if err != nil {
		return Decision{}, err
	}
	if v.free.Cmp(v.now) > 0 {
		if cost > 0 {
			m.hasten(&v, &d, keep)
		}
		d.Limited, d.Wait = true, sub(v.free, v.now).Int64()
		return d, nil
	}
	if cost > 0 {
		v.tell(&d, free, heat)
		if keep {
			m.taken(&v, free, heat)
		}
	}
	return d, nil
}

// refund gives back what the permits cost under the limit that has taken them.
func (m *warmModel) refund(v *warmView, d *Decision, cost int64, keep bool) {
	by := *v
	if v.free.Cmp(v.now) > 0 {
		if m.pace != nil {
			by.draw(m.of, m.pace)
		} else {
			of := v.l
			of.Cold = 1
			by.draw(of, v.s)
		}
	}
	by.l.Max = v.l.Max
	free, heat := v.now, sub(v.heat, by.heats(cost))
	if heat.Sign() < 0 {
		heat = new(big.Int)
	}
	if q := new(big.Rat).Mul(by.stable, whole64(cost)); !q.Num().IsInt64() || !by.heats(cost).IsInt64() {
		heat = new(big.Int) // more than was taken
	} else if price := by.price(heat, cost); v.free.Cmp(v.now) > 0 && price.IsInt64() {
		if back := sub(v.free, price); back.Cmp(v.now) > 0 {
			free = back
		}
	}
	if free.Cmp(v.now) == 0 {
		heat = least(heat, big.NewInt(by.l.Warm))
	}
	if free.Cmp(v.free) == 0 && heat.Cmp(v.heat) == 0 {
		return
	}
	by.tell(d, free, heat)
	if keep {
		m.keep(&by, free, heat, m.pace)
		if free.Cmp(v.now) == 0 {
			m.pace = nil
		}
	}
}

func (m *warmModel) reserve(l Limit, now, cost, maxWait int64, keep bool) (Decision, error) {
	v, err := m.view(l, now, cost)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Wait: Never}
	v.there(&d)
	if l.Max == 0 {
		d.Limited = true
		return d, nil
	}
	owed, most := m.owed(&v), big.NewInt(maxWait)
	limited := maxWait >= 0 && owed.Sign() > 0 && owed.Cmp(most) > 0
	was := v.free
	if owed.Sign() > 0 {
		v.free = new(big.Int).Add(v.now, owed)
	}
	free, heat, err := v.take(cost)
	same := m.pace == nil || m.pace.Cmp(v.s) == 0
	if !same && owed.Cmp(big.NewInt(maxInt64)) >= 0 {
		err = ErrOverflow
	}
	if err != nil && (!limited || same) {
		return Decision{}, err
	}
	if limited {
		// It waits until the debt is no more than the longest wait.
		switch v.free = was; {
		case same:
		case m.pace.Cmp(v.s) > 0 && cost > 0:
			m.hasten(&v, &d, keep)
		default:
			most = new(big.Int).Quo(most.Mul(most, m.pace), v.s)
		}
		d.Limited, d.Wait = true, sub(sub(v.free, v.now), most).Int64()
		return d, nil
	}
	if owed.Sign() > 0 {
		d.Wait = owed.Int64()
	}
	if cost > 0 {
		v.tell(&d, free, heat)
		if keep {
			m.taken(&v, free, heat)
		}
	}
	return d, nil
}
