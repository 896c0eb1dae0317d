package limit

import (
	"math/big"

	"pgregory.net/rapid"
)

// bucketModel is what the models of the bucket family share: the one time that
// they keep, and what must fit in int64.
type bucketModel struct {
	tat *big.Int // nil: never seen
}

func (m *bucketModel) expires() *big.Int { return m.tat }

// bucketTerms are the terms of the formulas.
type bucketTerms struct {
	now, tat, e, dvt, increment *big.Int
	denied                      bool // at limit 0
}

func (m *bucketModel) terms(l Limit, now64, cost64 int64) (x bucketTerms, err error) {
	if err := badFields(l, cost64); err != nil {
		return x, err
	}
	x.now = big.NewInt(now64)
	x.tat = x.now
	if m.tat != nil && m.tat.Cmp(x.now) > 0 {
		x.tat = m.tat
	}
	if !sub(x.tat, x.now).IsInt64() {
		return x, ErrOverflow
	}
	if l.Max == 0 {
		x.denied = true
		return x, nil
	}
	e, rest := new(big.Int).DivMod(big.NewInt(l.Period), big.NewInt(l.Max), new(big.Int))
	if rest.Sign() > 0 {
		e.Add(e, big.NewInt(1))
	}
	x.e = e
	x.dvt = new(big.Int).Mul(e, big.NewInt(l.Burst))
	x.increment = new(big.Int).Mul(e, big.NewInt(cost64))
	if !x.dvt.IsInt64() || !x.increment.IsInt64() {
		return x, ErrOverflow
	}
	return x, nil
}

// after is the TAT when the cost is taken.
func (x bucketTerms) after() (*big.Int, error) {
	after := new(big.Int).Add(x.tat, x.increment)
	if !after.IsInt64() || !sub(after, x.now).IsInt64() {
		return nil, ErrOverflow
	}
	return after, nil
}

// tell sets what depends on the TAT alone.
func (x bucketTerms) tell(d *Decision, tat *big.Int) {
	length := sub(tat, x.now)
	d.Reset = length.Int64()
	if x.denied {
		return
	}
	if left := sub(x.dvt, length); left.Sign() > 0 {
		d.Remaining = left.Quo(left, x.e).Int64()
	}
}

// gcraModel follows the formulas at the head of gcra.go, letter by letter.
type gcraModel struct{ bucketModel }

func (m *gcraModel) decide(l Limit, now, cost int64, refund, keep bool) (Decision, error) {
	after, d, err := m.next(l, now, cost, refund)
	if keep && after != nil {
		m.tat = after
	}
	return d, err
}

// next is the state after the call, nil if nothing changes.
func (m *gcraModel) next(l Limit, now, cost int64, refund bool) (*big.Int, Decision, error) {
	x, err := m.terms(l, now, cost)
	if err != nil {
		return nil, Decision{}, err
	}
	d := Decision{Wait: Never}
	if x.denied {
		d.Limited = !refund
		x.tell(&d, x.tat)
		return nil, d, nil
	}
	d.Limit = l.Burst
	if refund {
		after := sub(x.tat, x.increment)
		if after.Cmp(x.now) < 0 {
			after = x.now
		}
		x.tell(&d, after)
		if after.Cmp(x.tat) == 0 {
			return nil, d, nil
		}
		return after, d, nil
	}
	after, err := x.after()
	if err != nil {
		return nil, Decision{}, err
	}
	if allowAt := sub(after, x.dvt); x.now.Cmp(allowAt) < 0 {
		d.Limited = true
		x.tell(&d, x.tat)
		if x.increment.Cmp(x.dvt) <= 0 {
			d.Wait = sub(allowAt, x.now).Int64()
		}
		return nil, d, nil
	}
	x.tell(&d, after)
	if cost == 0 {
		return nil, d, nil
	}
	return after, d, nil
}

func (m *gcraModel) reserve(l Limit, now, cost, maxWait int64, keep bool) (Decision, error) {
	x, err := m.terms(l, now, cost)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{Wait: Never}
	if x.denied {
		d.Limited = true
		x.tell(&d, x.tat)
		return d, nil
	}
	d.Limit = l.Burst
	after, err := x.after()
	if err != nil {
		return Decision{}, err
	}
	wait := sub(sub(x.tat, x.dvt), x.now)
	if tooLong := sub(wait, big.NewInt(maxWait)); maxWait >= 0 && wait.Sign() > 0 && tooLong.Sign() > 0 {
		d.Limited, d.Wait = true, tooLong.Int64()
		x.tell(&d, x.tat)
		return d, nil
	}
	if wait.Sign() > 0 {
		d.Wait = wait.Int64()
	}
	x.tell(&d, after)
	if keep && cost > 0 {
		m.tat = after
	}
	return d, nil
}

// times is r·n, which is whole.
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
