package limit

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// tokenModel follows the formulas at the heads of token.go, in fractions of
// tokens, and of token_interval.go. tat is when the bucket is full.
type tokenModel struct {
	bucketModel
	missing *big.Int // nil: the time alone
}

func (m *tokenModel) decide(l Limit, now, cost int64, refund, keep bool) (Decision, error) {
	if l.Interval {
		return m.interval(l, now, cost, 0, keep, map[bool]call{false: asTake, true: asRefund}[refund])
	}
	x, err := m.terms(l, now, cost)
	if err != nil {
		return Decision{}, err
	}
	if x.denied {
		return Decision{Limited: !refund, Wait: Never, Reset: sub(x.tat, x.now).Int64()}, nil
	}
	size := new(big.Rat).SetInt64(l.Burst)
	before := x.tokens(l)
	tokens := new(big.Rat)
	if refund {
		tokens.Add(before, new(big.Rat).SetInt64(cost))
		if tokens.Cmp(size) > 0 {
			tokens = size
		}
	} else {
		if _, err := x.after(); err != nil {
			return Decision{}, err
		}
		tokens.Sub(before, new(big.Rat).SetInt64(cost))
	}
	d := Decision{Limit: l.Burst, Wait: Never}
	if !refund && tokens.Sign() < 0 {
		d.Limited = true
		if cost <= l.Burst {
			d.Wait = times(new(big.Rat).Neg(tokens), x.e).Int64()
		}
		tokens = before
	}
	m.keep(&d, x, size, tokens, keep && !d.Limited && tokens.Cmp(before) != 0)
	return d, nil
}

func (m *tokenModel) reserve(l Limit, now, cost, maxWait int64, keep bool) (Decision, error) {
	if l.Interval {
		return m.interval(l, now, cost, maxWait, keep, asReserve)
	}
	x, err := m.terms(l, now, cost)
	if err != nil {
		return Decision{}, err
	}
	if x.denied {
		return Decision{Limited: true, Wait: Never, Reset: sub(x.tat, x.now).Int64()}, nil
	}
	if _, err := x.after(); err != nil {
		return Decision{}, err
	}
	d := Decision{Limit: l.Burst, Wait: Never}
	tokens := x.tokens(l)
	if tokens.Sign() < 0 {
		d.Wait = times(new(big.Rat).Neg(tokens), x.e).Int64()
	}
	if maxWait >= 0 && d.Wait > maxWait {
		d.Limited = true
		d.Wait -= maxWait
	} else {
		tokens.Sub(tokens, new(big.Rat).SetInt64(cost))
	}
	m.keep(&d, x, new(big.Rat).SetInt64(l.Burst), tokens, keep && !d.Limited && cost > 0)
	return d, nil
}

// tokens are those in the bucket.
func (x bucketTerms) tokens(l Limit) *big.Rat {
	missing := new(big.Rat).SetFrac(sub(x.tat, x.now), x.e)
	return missing.Sub(new(big.Rat).SetInt64(l.Burst), missing)
}

// keep tells what there is with so many tokens in the bucket, and keeps it.
func (m *tokenModel) keep(d *Decision, x bucketTerms, size, tokens *big.Rat, keep bool) {
	if tokens.Sign() > 0 {
		d.Remaining = new(big.Int).Quo(tokens.Num(), tokens.Denom()).Int64()
	}
	reset := times(new(big.Rat).Sub(size, tokens), x.e)
	d.Reset = reset.Int64()
	if keep {
		m.tat, m.missing = new(big.Int).Add(x.now, reset), nil
	}
}

func TestTOKENSteps(t *testing.T) {
	tests := []struct {
		name  string
		limit string
		steps []step
	}{
		{
			"one by one", "TOKEN 30/m BURST 5",
			[]step{
				{0, 2, false, 3, Never, 4000},
				{0, 4, true, 3, 2000, 4000},
				{1999, 4, true, 3, 1, 2001},
				{2000, 4, false, 0, Never, 10000},
				{2000, 6, true, 0, Never, 10000},
				{2000, -1, false, 1, Never, 8000},
				{2000, reserved + 3, false, 0, Never, 14000},
				{2000, reserved + 1, false, 0, 4000, 16000},
				{2000, 1, true, 0, 8000, 16000},
			},
		},
		{
			// Five arrive together each minute after the first was taken.
			"together", "TOKEN 5/m INTERVAL",
			[]step{
				{0, 0, false, 5, Never, 0},
				{0, 6, true, 5, Never, 0},
				{0, 1, false, 4, Never, 60000},
				{30000, 4, false, 0, Never, 30000},
				{30000, 1, true, 0, 30000, 30000},
				{59999, 1, true, 0, 1, 1},
				{60000, 5, false, 0, Never, 60000},
				{200000, 3, false, 2, Never, 60000},
				{200000, 3, true, 2, 60000, 60000},
			},
		},
		{
			// A bucket of 12 that five arrive in: three arrivals fill it.
			"together, a larger bucket", "TOKEN 5/m BURST 12 INTERVAL",
			[]step{
				{0, 12, false, 0, Never, 180000},
				{0, 5, true, 0, 60000, 180000},
				{0, 6, true, 0, 120000, 180000},
				{0, 12, true, 0, 180000, 180000},
				{0, 13, true, 0, Never, 180000},
				{60000, 0, false, 5, Never, 120000},
				{60000, 1, false, 4, Never, 120000},
				{119999, 5, true, 4, 1, 60001},
				{120000, 0, false, 9, Never, 60000},
				{179999, 12, true, 9, 1, 1},
				{180000, 12, false, 0, Never, 180000},
			},
		},
		{
			// A bucket of 3 that five arrive in: two of them are lost.
			"together, a smaller bucket", "TOKEN 5/m BURST 3 INTERVAL",
			[]step{
				{0, 3, false, 0, Never, 60000},
				{0, 4, true, 0, Never, 60000},
				{60000, 3, false, 0, Never, 60000},
			},
		},
		{
			"together, refund", "TOKEN 5/m BURST 10 INTERVAL",
			[]step{
				{0, -3, false, 10, Never, 0},
				{0, 7, false, 3, Never, 120000},
				{10000, -2, false, 5, Never, 50000},
				{10000, 1, false, 4, Never, 110000},
				{10000, -9, false, 10, Never, 0},
				{20000, 1, false, 9, Never, 60000},
			},
		},
		{
			// What is owed is paid by arrivals, whole.
			"together, reserve", "TOKEN 5/m INTERVAL",
			[]step{
				{0, reserved + 12, false, 0, Never, 180000},
				{0, reserved + 0, false, 0, 120000, 180000},
				{0, reserved + 3, false, 0, 120000, 180000},
				{60000, reserved + 1, false, 0, 60000, 180000},
				{60000, 1, true, 0, 120000, 180000},
				{120000, reserved + 1, false, 0, 60000, 120000},
				{180000, 4, true, 3, 60000, 60000},
				{180000, 3, false, 0, Never, 60000},
			},
		},
		{
			"together, the clock goes back", "TOKEN 2/m INTERVAL",
			[]step{
				{500000, 1, false, 1, Never, 60000},
				{0, 2, true, 1, 560000, 560000},
				{0, 1, false, 0, Never, 560000},
				{560000, 2, false, 0, Never, 60000},
			},
		},
		{
			"together, limit 0", "TOKEN 0/s INTERVAL",
			[]step{{0, 1, true, 0, Never, 0}, {0, 0, true, 0, Never, 0}, {0, -1, false, 0, Never, 0}, {0, reserved + 1, true, 0, Never, 0}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { run(t, mustParse(t, tt.limit), tt.steps) })
	}
}

// One by one, a token bucket is GCRA in other words.
func TestTOKENIsGCRA(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { sameAs(t, TOKEN, GCRA) })
}
