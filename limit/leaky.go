package limit

// The leaky bucket as a meter: J. Turner, "New Directions in Communications (or
// Which Way to the Information Age?)", IEEE Communications Magazine, 1986; in the
// form of ITU-T Recommendation I.371's continuous-state leaky bucket.
//
// Each request pours its cost into a bucket that holds Burst and leaks one each
// E = ⌈Period/Max⌉. What would overflow is denied. The state is one time, when
// the bucket has run empty. With the water in it
//
//	water    = max(0, (empty − now)/E)
//
// which need not be whole:
//
//	limited  ⇔ water + cost > Burst
//	wait     = (water + cost − Burst)·E if cost ≤ Burst, else Never
//	empty    = now + (water + cost)·E, if not limited
//	reset    = empty − now
//	remaining = max(0, ⌊Burst − water⌋)
//
// A refund takes water out again, down to none.
//
// "Empty" is GCRA's TAT and Burst·E its tolerance, so that the two make the same decisions,
// nanosecond for nanosecond; I.371 defines them as one algorithm. What leaks out
// is no queue: a request goes at once or not at all. QUEUE is the leaky bucket
// that holds the requests back.
//
// Promise: in any time t, at most Burst + t/E.
