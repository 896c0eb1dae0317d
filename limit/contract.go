package limit

import (
	"encoding/binary"
	"math"
)

// What every algorithm keeps to, and the contract tests check for each:
//
//   - No state is a key never seen.
//   - Admitted in any time t: what the algorithm promises at its file's head;
//     for most of them no more than Burst + Max/Period·t.
//   - A denial, a peek and an error change nothing; but with COUNTDENIED a denial
//     counts, and its Wait is from then on.
//   - A denial's Wait is exact: the same request succeeds then and not 1 ns
//     before. It never grows while nobody asks.
//   - A clock that runs backwards never gives anything.
//   - A refund never fills above full.
//   - From Expires on, a state behaves as none. So that this can be told
//     without knowing the limit, a state begins with that time: 8 bytes,
//     little-endian int64, Unix nanoseconds.
//   - Any int64 gives the exact answer or an error.

// MaxState is the most bytes of a state of fixed size, of the first state of any
// key, and of a short log: a buffer of that capacity is room enough for next.
const MaxState = 64

// Take asks for cost at time now, in Unix nanoseconds, and writes the answer to
// *d: a pointer, for the copies of a returned Decision would take longer than
// the decision. A cost of 0 is a peek.
//
// state is what the key's last Take or Refund has left; nil or empty is a key
// never seen. next is the state to keep from now on, or nil if nothing changes:
// the request is denied and that does not count, or is a peek. It is written over
// dst, or is a larger buffer if dst has no room, which leaves dst as it was, or
// may be state itself, changed in place. dst and state may begin at the same
// byte, but must not overlap otherwise.
//
// The errors are those of Limit.Validate, and ErrCost, ErrState, ErrOverflow;
// nothing has changed then, *d neither.
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

// Refund gives cost back at time now; never above full. The decision tells what
// there is afterwards: it is not Limited and has nothing to Wait for. State,
// next, dst, d and the errors are as in Take; next is nil if there was nothing
// to give back.
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

// Reserve takes cost at time now in advance: where Take denies what is not there
// yet, Reserve grants it and tells how long to wait before going ahead. So does
// Guava's RateLimiter, and so does Reserve: a request waits only for the debts
// of those before it, then goes whatever its size, and the next one pays for it.
// Admitted in any time t, counted where the waiting ends: what Take promises for
// t, and one request.
//
// Granted is not Limited, with the time to wait in Wait, Never if there is none.
// While there are debts, Remaining is 0 and Take denies. A wait longer than
// maxWait, in nanoseconds, is Limited and changes nothing: ask again after Wait,
// by when the wait has become maxWait if nobody else asks. A negative maxWait is
// no bound. QUEUE keeps to its size as well, as Take does.
//
// A cost of 0 is a peek. State, next, dst, d and the errors are as in Take, and
// ErrReserve for an algorithm that cannot.
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

// Expires is the time, in Unix nanoseconds, from which a state of kind k behaves as
// none. It is the least int64 for bytes that are no state of k.
func Expires(k Kind, state []byte) int64 {
	if !k.Known() || len(state) < 8 {
		return math.MinInt64
	}
	return int64(binary.LittleEndian.Uint64(state))
}

// Prolong has a state expire at a time, which is not before it did.
func Prolong(state []byte, until int64) {
	binary.LittleEndian.PutUint64(state, uint64(until))
}

// Level is the state in one number, as RL.INFO tells it: for the bucket family
// and WARMUP the time in ns until it is full, or cold, again, for the counters what is counted now (a
// fraction of SLIDING's rounded up), for leases what is in flight; 0 for bytes that
// are no state.
func Level(k Kind, state []byte, now int64) int64 {
	if len(state) == 0 {
		return 0
	}
	if k == LEASE {
		return leaseLevel(state, now)
	}
	switch k.Algorithm() {
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

// until is the time from now to then, 0 if that is past, the greatest int64 if
// it does not fit.
func until(then, now int64) int64 {
	switch left := then - now; {
	case then <= now:
		return 0
	case left < 0:
		return math.MaxInt64
	default:
		return left
	}
}
