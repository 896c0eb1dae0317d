package limit

import "encoding/binary"

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
// (taken in advance, or the limit has shrunk) follows the same formulas. The
// state has E as well, so that what is in use carries over to another limit: see
// carry.go.
//
// Promise: in any time t, at most Burst + t/E.

// FullAt returns the state of a bucket that is full again at a time, in Unix ns, and has no pace: it is read at
// that of the next call.
func FullAt(at int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(at)) }
