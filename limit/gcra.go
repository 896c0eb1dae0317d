package limit

// The generic cell rate algorithm, in its virtual scheduling form: ITU-T
// Recommendation I.371 and ATM Forum Traffic Management Specification 4.0,
// with a cost for each request as in redis-cell.
//
// The state is one time, the theoretical arrival time (TAT): when the bucket is
// full again. With the emission interval E = ⌈Period/Max⌉, the tolerance
// DVT = E·Burst and the increment E·cost:
//
//	TAT      = max(TAT, now)
//	new TAT  = TAT + increment
//	limited  ⇔ now < new TAT − DVT
//	wait     = new TAT − DVT − now if increment ≤ DVT, else Never
//	reset    = (limited ? TAT : new TAT) − now
//	remaining = max(0, ⌊(DVT − reset)/E⌋)
//
// In advance, whatever the cost:
//
//	wait     = max(0, TAT − DVT − now)
//	limited  ⇔ wait > the longest wait allowed
//
// A refund sets TAT = max(now, TAT − increment). A TAT further ahead than DVT
// (taken in advance, the limit has shrunk, or the clock was wrong) follows the
// same formulas.
//
// It promises: in any time t, at most Burst + t/E.

func gcraTake(d *Decision, l *Limit, state []byte, now, cost int64) (tat int64, err error) {
	return bucketTake(d, l, l.Burst, state, now, cost)
}

func gcraReserve(d *Decision, l *Limit, state []byte, now, cost, maxWait int64) (tat int64, err error) {
	return bucketReserve(d, l, state, now, cost, maxWait)
}

func gcraRefund(d *Decision, l *Limit, state []byte, now, cost int64) (tat int64, changed bool, err error) {
	return bucketRefund(d, l, l.Burst, state, now, cost)
}
