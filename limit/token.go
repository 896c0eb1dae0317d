package limit

// The token bucket, as in RFC 2697 and golang.org/x/time/rate.
//
// A bucket holds Burst tokens and is full at first. One token arrives each
// E = ⌈Period/Max⌉; what finds the bucket full is lost. A request takes as many
// tokens as it costs or is denied. The state is one time, when the bucket is
// full. With the tokens in it
//
//	tokens   = min(Burst, Burst − (full − now)/E)
//
// which need not be whole:
//
//	limited  ⇔ tokens < cost
//	wait     = (cost − tokens)·E if cost ≤ Burst, else Never
//	full     = now + (Burst − tokens + cost)·E, if not limited
//	reset    = full − now
//	remaining = max(0, ⌊tokens⌋)
//
// In advance, tokens may become negative, and a request waits until they are
// not: wait = max(0, −tokens·E), then goes whatever its cost. A refund puts
// tokens back, up to Burst.
//
// "Full" is GCRA's TAT and Burst·E its tolerance, so that the two make the same decisions,
// nanosecond for nanosecond. With INTERVAL, the tokens arrive together; see
// token_interval.go.
//
// Promise: in any time t, at most Burst + t/E.
