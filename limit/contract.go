package limit

// Every algorithm keeps these rules, and the contract tests check each:
//
//   - No state means that the key has never been seen.
//   - In any time t, an algorithm admits at most what its file promises at the
//     head; for most of them that is Burst + Max/Period·t.
//   - A peek and an error change nothing, and a denial changes nothing but the pace:
//     it moves to the pace of a limit that was raised, so that its Wait is true. With
//     COUNTDENIED a denial counts, and its Wait includes it.
//   - A denial's Wait is exact: the same request succeeds then, and not 1 ns
//     before. It never grows while nobody asks.
//   - A clock that runs backwards never gives anything.
//   - A refund never fills above full.
//   - From Expires on, a state behaves like no state. A state begins with that
//     time, so that it can be read without the limit: 8 bytes, little-endian
//     int64, Unix nanoseconds.
//   - Any int64 gives the exact answer or an error.

// Take asks for cost at time now, in Unix nanoseconds, and writes the answer to
// *d. It takes a pointer because copying a returned Decision would take longer
// than deciding. A cost of 0 is a peek.
//
// state is what the key's last Take or Refund returned; nil or empty means that
// the key has never been seen. next is the state to keep from now on, or nil if
// nothing changes: a peek, or a denial that neither counts nor moves. Take writes next over
// dst; if dst is too small, next is a new buffer and dst stays as it was. next may
// also be state itself, changed in place. dst and state may begin at the same
// byte, but must not overlap otherwise.
//
// The errors are those of Limit.Validate, and ErrCost, ErrState, ErrOverflow.
// After an error nothing has changed, and neither has *d.
func Take(l *Limit, state []byte, now, cost int64, dst []byte, d *Decision) (next []byte, err error) {
	switch l.Algorithm {
	case GCRA, LEAKY:
		return bucketTake(d, l, l.Burst, state, now, cost, dst, true)
	case TOKEN:
		if l.Interval {
			return intervalTake(d, l, state, now, cost, dst, true)
		}
		return bucketTake(d, l, l.Burst, state, now, cost, dst, true)
	case QUEUE:
		return queueTake(d, l, state, now, cost, dst, true)
	case WARMUP:
		return warmTake(d, l, state, now, cost, dst)
	case FIXED:
		return fixedTake(d, l, state, now, cost, dst)
	case SLIDING:
		return slidingTake(d, l, state, now, cost, dst)
	case SEGMENTED:
		return segmentedTake(d, l, state, now, cost, dst)
	case LOG:
		return logTake(d, l, state, now, cost, dst)
	}
	return nil, ErrAlgorithm
}

// Peek answers as Take would, and changes nothing.
func Peek(l *Limit, state []byte, now, cost int64, d *Decision) (err error) {
	switch l.Algorithm {
	case GCRA, LEAKY:
		_, err = bucketTake(d, l, l.Burst, state, now, cost, nil, false)
	case TOKEN:
		if l.Interval {
			_, err = intervalTake(d, l, state, now, cost, nil, false)
		} else {
			_, err = bucketTake(d, l, l.Burst, state, now, cost, nil, false)
		}
	case QUEUE:
		_, err = queueTake(d, l, state, now, cost, nil, false)
	case WARMUP:
		err = warmPeek(d, l, state, now, cost)
	case FIXED:
		err = fixedPeek(d, l, state, now, cost)
	case SLIDING:
		err = slidingPeek(d, l, state, now, cost)
	case SEGMENTED:
		err = segmentedPeek(d, l, state, now, cost)
	case LOG:
		err = logPeek(d, l, state, now, cost)
	default:
		err = ErrAlgorithm
	}
	return err
}

// Refund gives cost back at time now, up to full. The decision says what is left
// afterwards: it is not Limited, and its Wait is Never. state, next, dst, d and the
// errors are as in Take; next is nil if there was nothing to give back.
func Refund(l *Limit, state []byte, now, cost int64, dst []byte, d *Decision) (next []byte, err error) {
	switch l.Algorithm {
	case GCRA, LEAKY:
		return bucketRefund(d, l, l.Burst, state, now, cost, dst)
	case TOKEN:
		if l.Interval {
			return intervalRefund(d, l, state, now, cost, dst)
		}
		return bucketRefund(d, l, l.Burst, state, now, cost, dst)
	case QUEUE:
		return bucketRefund(d, l, l.Burst+1, state, now, cost, dst)
	case WARMUP:
		return warmRefund(d, l, state, now, cost, dst)
	case FIXED:
		return fixedRefund(d, l, state, now, cost, dst)
	case SLIDING:
		return slidingRefund(d, l, state, now, cost, dst)
	case SEGMENTED:
		return segmentedRefund(d, l, state, now, cost, dst)
	case LOG:
		return logRefund(d, l, state, now, cost, dst)
	}
	return nil, ErrAlgorithm
}

// Reserve takes cost at time now in advance. Where Take denies, Reserve grants
// and says how long to wait before going ahead. As in Guava's RateLimiter, a
// request waits only for the debts of those before it; it then goes whatever its
// size, and the next one pays for it. In any time t, counted where the waiting
// ends, Reserve admits what Take promises for t, and one request more.
//
// A granted request is not Limited. Wait is the time to wait, Never if there is
// none. While there are debts, Remaining is 0 and Take denies. If the wait would be
// longer than maxWait, in nanoseconds, the request is Limited and changes nothing;
// after Wait the same request has to wait for maxWait, if nobody else asks. A
// negative maxWait is no bound. QUEUE keeps to its size as well, as Take does.
//
// A cost of 0 is a peek. state, next, dst, d and the errors are as in Take. The
// error is ErrReserve for an algorithm that cannot grant in advance.
func Reserve(l *Limit, state []byte, now, cost, maxWait int64, dst []byte, d *Decision) (next []byte, err error) {
	switch l.Algorithm {
	case GCRA:
		return bucketReserve(d, l, state, now, cost, maxWait, dst)
	case TOKEN:
		if l.Interval {
			return intervalReserve(d, l, state, now, cost, maxWait, dst)
		}
		return bucketReserve(d, l, state, now, cost, maxWait, dst)
	case QUEUE:
		return queueReserve(d, l, state, now, cost, maxWait, dst)
	case WARMUP:
		return warmReserve(d, l, state, now, cost, maxWait, dst)
	default:
		if l.Algorithm.Valid() {
			return nil, ErrReserve
		}
		return nil, ErrAlgorithm
	}
}

// Level returns the state as one number, which RL.INFO shows. For the bucket family
// it is the time in ns until the bucket is full again; for WARMUP, until the key is
// cold again. For counters it is what counts now, with a fraction of SLIDING's
// rounded up. For leases it is the sum of the weights in flight. It is 0 for bytes that are not a
// state.
func Level(k Kind, state []byte, now int64) int64 {
	if len(state) == 0 {
		return 0
	}
	switch k {
	case LEASE:
		return leaseLevel(state, now)
	case BLOCK:
		var b Block
		if k, state, _ = b.Open(state, now); k == 0 {
			return 0
		}
	}
	switch Algorithm(k) {
	case GCRA, TOKEN, LEAKY, QUEUE, WARMUP:
		return until(Expires(k, state), now)
	case FIXED:
		return fixedLevel(state, now)
	case SLIDING:
		return slidingLevel(state, now)
	case SEGMENTED:
		return segmentedLevel(state, now)
	case LOG:
		return logLevel(state, now)
	}
	return 0
}
