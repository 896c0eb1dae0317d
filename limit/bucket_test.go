package limit

import (
	"math/big"

	"pgregory.net/rapid"
)

// bucketModel is the model of the bucket family, in fractions without bounds. It
// keeps a time and its pace or, of INTERVAL, its terms.
type bucketModel struct {
	tat                   *big.Int // nil: never seen
	e                     *big.Int // nil: the tokens come together
	missing, period, most *big.Int
}

// queueModel is the model of QUEUE. The queue is measured in time, whatever the pace of the requests in it.
type queueModel struct{ *bucketModel }

// leakyModel cannot be reserved.
type leakyModel struct{ model }

// call is a kind of call.
type call int

const (
	asTake call = iota
	asRefund
	asReserve
)

func (m *bucketModel) expires() *big.Int { return m.tat }

func (m *bucketModel) decide(l Limit, now, cost int64, refund, keep bool) (Decision, error) {
	return m.call(l, now, cost, -1, map[bool]call{false: asTake, true: asRefund}[refund], keep)
}

func (m *bucketModel) reserve(l Limit, now, cost, maxWait int64, keep bool) (Decision, error) {
	return m.call(l, now, cost, maxWait, asReserve, keep)
}

// modelUse is the meaning of a state at a time.
type modelUse struct {
	ahead   *big.Int
	tokens  *big.Rat // that are missing
	e       *big.Int // nil: they come together
	missing *big.Int // of those that come together
	next    *big.Int
	period  *big.Int
	most    *big.Int
}

// togetherUse returns the use when most tokens come together each period, the next ones after next.
func togetherUse(missing, next, period, most *big.Int) modelUse {
	x := modelUse{missing: missing, next: next, period: period, most: most, tokens: new(big.Rat).SetInt(missing), ahead: new(big.Int)}
	if missing.Sign() > 0 {
		x.ahead = x.until(new(big.Int))
	}
	return x
}

// oneByOne returns the use when one token comes back each e, and all are back after ahead.
func oneByOne(ahead, e *big.Int) modelUse {
	return modelUse{ahead: ahead, e: e, tokens: new(big.Rat).SetFrac(ahead, e)}
}

// until returns the time until no more than room tokens are missing.
func (x modelUse) until(room *big.Int) *big.Int {
	if x.e != nil {
		return sub(x.ahead, times(new(big.Rat).SetInt(room), x.e))
	}
	n := sub(ceil(sub(x.missing, room), x.most), big.NewInt(1))
	return n.Mul(n, x.period).Add(n, x.next)
}

// whole is how many are missing, a part of one counted as one.
func (x modelUse) whole() *big.Int { return ceil(x.tokens.Num(), x.tokens.Denom()) }

// at returns the use some time later.
func (x modelUse) at(later *big.Int) modelUse {
	if x.e != nil {
		return oneByOne(positive(sub(x.ahead, later)), x.e)
	}
	if later.Cmp(x.next) < 0 {
		return togetherUse(x.missing, sub(x.next, later), x.period, x.most)
	}
	n := new(big.Int).Quo(sub(later, x.next), x.period)
	n.Add(n, big.NewInt(1))
	next := sub(new(big.Int).Add(x.next, new(big.Int).Mul(n, x.period)), later)
	return togetherUse(positive(sub(x.missing, n.Mul(n, x.most))), next, x.period, x.most)
}

func positive(n *big.Int) *big.Int {
	if n.Sign() < 0 {
		return new(big.Int)
	}
	return n
}

// outruns reports whether x brings each token back no later than old does.
func (x modelUse) outruns(old modelUse) bool {
	if old.e != nil {
		return x.e.Cmp(old.e) < 0
	}
	if x.e != nil { // one by one is one each e together
		x = togetherUse(x.missing, x.e, x.e, big.NewInt(1))
	}
	first := old.most
	if old.missing.Cmp(first) < 0 {
		first = old.missing
	}
	arrivals := ceil(old.most, x.most)
	before := sub(ceil(first, x.most), big.NewInt(1))
	return arrivals.Mul(arrivals, x.period).Cmp(old.period) <= 0 && before.Mul(before, x.period).Cmp(sub(old.next, x.next)) <= 0
}

// use reads the state. A state without a pace has pace e, or l's terms.
func (m *bucketModel) use(now *big.Int) modelUse {
	ahead := positive(sub(m.tat, now))
	if m.e != nil {
		return oneByOne(ahead, m.e)
	}
	all := ceil(m.missing, m.most)
	left := ceil(ahead, m.period)
	if left.Cmp(all) > 0 {
		left = all
	}
	missing := positive(sub(m.missing, new(big.Int).Mul(m.most, sub(all, left))))
	next := sub(ahead, new(big.Int).Mul(sub(left, big.NewInt(1)), m.period))
	return togetherUse(missing, next, m.period, m.most)
}

func (m *bucketModel) put(now *big.Int, x modelUse) {
	if x.e == nil && x.missing.Sign() == 0 {
		x.missing = big.NewInt(1) // only if the clock goes back
	}
	*m = bucketModel{new(big.Int).Add(now, x.ahead), x.e, x.missing, x.period, x.most}
}

// under returns the use in l's terms, and whether these are the same.
func (x modelUse) under(l Limit, e *big.Int) (after modelUse, same bool) {
	period, most := big.NewInt(l.Period), big.NewInt(together(&l))
	carried := func() *big.Int {
		c := new(big.Rat).Mul(x.tokens, new(big.Rat).SetInt(e))
		return ceil(c.Num(), c.Denom())
	}
	switch {
	case !l.Interval && l.Algorithm == QUEUE:
		return oneByOne(x.ahead, e), true
	case !l.Interval:
		after = oneByOne(carried(), e)
		after.missing = x.whole()
		return after, x.e != nil && x.e.Cmp(e) == 0
	case x.e != nil && x.ahead.Sign() == 0, x.e == nil && x.missing.Sign() == 0:
		return togetherUse(new(big.Int), period, period, most), true
	case x.e != nil:
		c, missing := carried(), x.whole()
		after = togetherUse(missing, sub(c, new(big.Int).Mul(sub(ceil(missing, most), big.NewInt(1)), period)), period, most)
		return after, x.e.Cmp(e) == 0
	case x.period.Cmp(period) == 0:
		return togetherUse(x.missing, x.next, period, most), x.most.Cmp(most) == 0
	}
	next := x.next
	if next.Cmp(period) > 0 {
		next = period
	}
	return togetherUse(x.missing, next, period, most), false
}

func (m *queueModel) decide(l Limit, now, cost int64, refund, keep bool) (Decision, error) {
	if refund {
		return m.bucketModel.decide(l, now, cost, refund, keep)
	}
	return m.reserve(l, now, cost, -1, keep)
}

// reserve is GCRA's Take with room for one more, and the wait is the queue's.
func (m *queueModel) reserve(l Limit, now, cost, maxWait int64, keep bool) (Decision, error) {
	d, err := m.call(l, now, cost, -1, asTake, false)
	if err != nil || l.Max == 0 {
		return d, err
	}
	wait := new(big.Int)
	if m.tat != nil {
		wait = positive(sub(m.tat, big.NewInt(now)))
	}
	if late := sub(wait, big.NewInt(maxWait)); maxWait >= 0 && late.Sign() > 0 {
		if !d.Limited {
			if d, err = m.call(l, now, 0, -1, asTake, false); err != nil {
				return Decision{}, err
			}
			d.Limited, d.Wait = true, late.Int64()
		} else if d.Wait != Never {
			d.Wait = max(d.Wait, late.Int64())
		}
		return d, nil
	}
	if _, err = m.call(l, now, cost, -1, asTake, keep); !d.Limited && wait.Sign() > 0 {
		d.Wait = wait.Int64()
	}
	return d, err
}

// call makes any call.
func (m *bucketModel) call(l Limit, now64, cost64, maxWait int64, kind call, keep bool) (Decision, error) {
	if err := badFields(l, cost64); err != nil {
		return Decision{}, err
	}
	now, cost, size := big.NewInt(now64), big.NewInt(cost64), big.NewInt(l.Burst)
	if m.tat != nil && !positive(sub(m.tat, now)).IsInt64() {
		return Decision{}, ErrOverflow
	}
	if l.Max == 0 {
		d := Decision{Limited: kind != asRefund, Wait: Never}
		if m.tat != nil {
			d.Reset = positive(sub(m.tat, now)).Int64()
		}
		return d, nil
	}
	e := ceil(big.NewInt(l.Period), big.NewInt(l.Max))
	if l.Interval {
		e = ceil(big.NewInt(l.Period), big.NewInt(together(&l)))
	}
	if l.Algorithm == QUEUE {
		size.Add(size, big.NewInt(1))
	}
	if !l.Interval && (!times(new(big.Rat).SetInt(size), e).IsInt64() || kind == asReserve && !times(new(big.Rat).SetInt(cost), e).IsInt64()) {
		return Decision{}, ErrOverflow
	}
	x := oneByOne(new(big.Int), e)
	if m.tat != nil {
		x = m.use(now)
	}
	after, same := x.under(l, e)
	if l.Algorithm == QUEUE && kind != asRefund {
		x = after
	}
	d := Decision{Limit: size.Int64(), Wait: Never, Reset: x.ahead.Int64()}
	remaining := func(y modelUse) { d.Remaining = positive(sub(size, y.whole())).Int64() }
	if kind == asRefund {
		return m.refund(d, l, now, cost, e, x, keep)
	}
	if kind == asReserve {
		if dvt := times(new(big.Rat).SetInt(size), e); l.Interval && x.e != nil && !same && !dvt.IsInt64() {
			return Decision{}, ErrOverflow
		}
		debt := new(big.Int)
		if c := times(new(big.Rat).SetInt(size), e); after.e != nil || l.Interval && x.e != nil {
			debt = sub(x.carriedTo(e), c)
		} else if after.missing.Cmp(size) > 0 {
			debt = after.until(size)
		}
		if debt.Sign() > 0 && maxWait >= 0 && debt.Cmp(big.NewInt(maxWait)) > 0 {
			d.Limited = true
			remaining(x)
			if moved, ok := x.moved(l, e, after, same); ok && cost64 > 0 {
				d.Wait, d.Reset = sub(debt, big.NewInt(maxWait)).Int64(), moved.ahead.Int64()
				if keep {
					m.put(now, moved)
				}
			} else {
				d.Wait = x.search(debt, maxWait, size, l, e).Int64()
			}
			return d, nil
		}
		if debt.Sign() > 0 {
			saturated := x.e != nil && !same && x.carriedTo(e).Cmp(big.NewInt(maxInt64)) >= 0
			if !debt.IsInt64() || debt.Int64() == maxInt64 && !same || l.Interval && saturated {
				return Decision{}, ErrOverflow
			}
			d.Wait = debt.Int64()
		}
	} else if free := sub(size, cost); x.tokens.Cmp(new(big.Rat).SetInt(free)) > 0 {
		d.Limited = true
		remaining(x)
		if free.Sign() < 0 {
			return d, nil
		}
		if moved, ok := x.moved(l, e, after, same); ok && cost64 > 0 {
			d.Wait, d.Reset = moved.until(free).Int64(), moved.ahead.Int64()
			if keep {
				m.put(now, moved)
			}
			return d, nil
		}
		d.Wait = x.until(free).Int64()
		return d, nil
	}
	if cost64 == 0 {
		if big := x.carriedTo(e); kind == asReserve && !l.Interval && !same && (!big.IsInt64() || big.Int64() == maxInt64) {
			return Decision{}, ErrOverflow
		}
		remaining(x)
		return d, nil
	}
	var taken modelUse
	if l.Interval {
		taken = togetherUse(new(big.Int).Add(after.missing, cost), after.next, after.period, after.most)
		saturated := !same && x.e != nil && x.carriedTo(e).Cmp(big.NewInt(maxInt64)) >= 0
		if saturated && cost64 > 0 || !taken.missing.IsInt64() {
			return Decision{}, ErrOverflow
		}
	} else {
		taken = oneByOne(new(big.Int).Add(after.ahead, times(new(big.Rat).SetInt(cost), e)), e)
	}
	if !taken.ahead.IsInt64() || !new(big.Int).Add(now, taken.ahead).IsInt64() {
		return Decision{}, ErrOverflow
	}
	d.Reset = taken.ahead.Int64()
	remaining(taken)
	if keep && cost64 > 0 {
		m.put(now, taken)
	}
	return d, nil
}

// carriedTo returns how long the missing tokens take at pace e.
func (x modelUse) carriedTo(e *big.Int) *big.Int {
	c := new(big.Rat).Mul(x.tokens, new(big.Rat).SetInt(e))
	return ceil(c.Num(), c.Denom())
}

// moved returns the use after a denial, if the new terms are faster.
func (x modelUse) moved(l Limit, e *big.Int, after modelUse, same bool) (modelUse, bool) {
	switch {
	case same:
		return x, false
	case x.e != nil: // one by one, until one is taken
		after = oneByOne(x.carriedTo(e), e)
		return after, e.Cmp(x.e) < 0
	}
	return after, after.outruns(x)
}

// search finds the time until the debt is at most maxWait, by trying each time at
// which that is possible.
func (x modelUse) search(debt *big.Int, maxWait int64, size *big.Int, l Limit, e *big.Int) *big.Int {
	_, same := x.under(l, e)
	limit := big.NewInt(maxWait)
	if same {
		return sub(debt, limit)
	}
	owes := func(y modelUse) *big.Int {
		if !l.Interval || x.e != nil {
			return sub(y.carriedTo(e), times(new(big.Rat).SetInt(size), e))
		}
		after, _ := y.under(l, e)
		if after.missing.Cmp(size) <= 0 {
			return new(big.Int)
		}
		return after.until(size)
	}
	if !l.Interval && x.e == nil { // one more each e
		room := new(big.Int).Quo(limit, e)
		return x.until(room.Add(room, size))
	}
	if x.e != nil {
		room := new(big.Rat).SetFrac(new(big.Int).Add(times(new(big.Rat).SetInt(size), e), limit), e)
		room.Mul(room, new(big.Rat).SetInt(x.e))
		return sub(x.ahead, new(big.Int).Quo(room.Num(), room.Denom()))
	}
	// Between two arrivals, the debt falls by 1 each ns, if at all, and
	// the least of it falls from arrival to arrival: find the first that will do.
	last := func(n *big.Int) *big.Int { // of the time after n arrivals
		at := new(big.Int).Mul(n, x.period)
		return at.Add(at, x.next).Sub(at, big.NewInt(1))
	}
	low, high := new(big.Int), ceil(x.missing, x.most)
	for low.Cmp(high) < 0 {
		mid := new(big.Int).Rsh(new(big.Int).Add(low, high), 1)
		if owes(x.at(last(mid))).Cmp(limit) <= 0 {
			high = mid
		} else {
			low = mid.Add(mid, big.NewInt(1))
		}
	}
	end := last(low)
	first := new(big.Int)
	if low.Sign() > 0 {
		first = new(big.Int).Add(last(sub(low, big.NewInt(1))), big.NewInt(1))
	}
	if owes(x.at(first)).Cmp(limit) <= 0 {
		return first
	}
	return sub(end, sub(limit, owes(x.at(end))))
}

// refund gives back, in the terms of the state.
func (m *bucketModel) refund(d Decision, l Limit, now, cost, e *big.Int, x modelUse, keep bool) (Decision, error) {
	var less modelUse
	if x.e != nil {
		each := x.e
		if l.Algorithm == QUEUE && e.Cmp(each) < 0 {
			each = e
		}
		back := times(new(big.Rat).SetInt(cost), each)
		less = oneByOne(positive(sub(x.ahead, back)), x.e)
	} else {
		less = togetherUse(positive(sub(x.missing, cost)), x.next, x.period, x.most)
	}
	told := less
	if l.Algorithm == QUEUE {
		told = oneByOne(less.ahead, e)
	}
	d.Remaining = positive(sub(big.NewInt(d.Limit), told.whole())).Int64()
	d.Reset = less.ahead.Int64()
	if keep && cost.Sign() > 0 && x.ahead.Sign() > 0 {
		m.put(now, less)
	}
	return d, nil
}

// times returns r·n, which is whole.
func times(r *big.Rat, n *big.Int) *big.Int {
	product := new(big.Rat).Mul(r, new(big.Rat).SetInt(n))
	if !product.IsInt() {
		panic("a part of a nanosecond")
	}
	return product.Num()
}

// sameAs checks that two algorithms of a family do the same on any key.
func sameAs(t *rapid.T, a, b Algorithm) {
	anything := anyInt64()
	l, now := drawLimit(t, GCRA), int64(1_700_000_000_000_000_000)
	var state []byte
	for range rapid.IntRange(1, 20).Draw(t, "calls") {
		now += rapid.Int64Range(-span(l)/8, span(l)/4).Draw(t, "later")
		cost := rapid.Int64Range(0, l.Burst+1).Draw(t, "cost")
		if rapid.IntRange(0, 9).Draw(t, "extreme") == 0 {
			now, cost = anything.Draw(t, "now"), anything.Draw(t, "cost")
		}
		call := take
		if rapid.IntRange(0, 3).Draw(t, "refund") == 0 {
			call = refund
		}
		one, other := l, l
		one.Algorithm, other.Algorithm = a, b
		next, d, err := call(&one, state, now, cost, nil)
		wantNext, want, wantErr := call(&other, state, now, cost, nil)
		if string(next) != string(wantNext) || d != want || err != wantErr {
			t.Fatalf("%v: %x, %+v, %v\n%v: %x, %+v, %v", one, next, d, err, other, wantNext, want, wantErr)
		}
		if next != nil {
			state = next
		}
	}
}
