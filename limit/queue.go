package limit

// A queue that is served at a steady pace: the leaky bucket as a queue of
// J. Turner, 1986 (see leaky.go), as in nginx's limit_req with a burst and in
// Sentinel's rate limiter. First come, first served.
//
// One request goes each E = ⌈Period/Max⌉, and up to Burst more may wait. A request
// learns how long to wait before it goes ahead. A cost of c takes c places, one
// behind the other. The state is one time, "empty": when the queue will be empty,
// so that the next request would go.
//
//	departure = max(empty, now)
//	limited  ⇔ departure + (cost − 1)·E > now + Burst·E
//	wait     = departure − now if not limited, and Never if that is 0
//	wait     = departure + cost·E − (Burst + 1)·E − now if limited, and Never if
//	           cost > Burst + 1
//	empty    = departure + cost·E, if not limited
//	reset    = empty − now
//	limit    = Burst + 1
//	remaining = max(0, ⌊((Burst + 1)·E − reset)/E⌋)
//
// Reserve does the same, and also denies if departure − now exceeds the longest
// wait allowed. A refund shortens the queue by that many places. It is for the last
// places of the queue: requests behind a place that is given back keep their
// departures.
//
// "Empty" is GCRA's TAT. QUEUE holds back the requests that GCRA lets go at once.
// When the limit changes, the queue stays as long as it is: the next request
// departs when it is empty, and the new pace counts from there. Nobody overtakes. A
// refund gives back the time of its place at the pace of the call, or of the last place
// if that is less.
// If places were converted to the new pace, several requests could depart at once,
// or one could wait for hours after all others have gone.
//
// Promise: departures are never closer than E, so in any time t, at most 1 + t/E.
// If the limit changes, E is the shortest of all.

// If Burst + 1 wraps, bucketTake and bucketRefund return ErrOverflow.

func queueTake(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte, keep bool) (next []byte, err error) {
	ahead, _ := bucketAhead(state, now) // dst may be the state
	next, err = bucketTake(d, l, l.Burst+1, state, now, cost, dst, keep)
	if err == nil && !d.Limited && ahead > 0 {
		d.Wait = ahead
	}
	return next, err
}

func queueReserve(d *Decision, l *Limit, state []byte, now, cost, maxWait int64, dst []byte) (next []byte, err error) {
	ahead, _ := bucketAhead(state, now)
	tooLong, wait := within(ahead, maxWait)
	if !tooLong || l.Max == 0 {
		return queueTake(d, l, state, now, cost, dst, true)
	}
	if _, err = queueTake(d, l, state, now, cost, nil, false); err != nil {
		return nil, err
	}
	switch {
	case !d.Limited:
		// There is room, but the wait is too long, so nothing is taken.
		if _, err := bucketTake(d, l, l.Burst+1, state, now, 0, nil, false); err != nil {
			return nil, err
		}
		d.Limited, d.Wait = true, wait
	case d.Wait != Never:
		d.Wait = max(d.Wait, wait)
	}
	return nil, nil
}
