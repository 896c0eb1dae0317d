package limit

import (
	"encoding/binary"
	"math/bits"
)

// When the limit of a bucket changes, what is in use stays in use: the tokens
// that are missing carry over in full, and the new pace brings them back.
//
//	used     = a/E if the state's time is a ahead at pace E; the missing tokens of INTERVAL
//	limited  ⇔ used + cost > Burst′
//	c        = ⌈used·E′⌉, a itself where E = E′
//	granted  TAT = now + c + cost·E′, at pace E′
//	limited  wait until used ≤ Burst′ − cost at the old pace, and nothing changes;
//	         but if the new pace brings every token back no later, the denial
//	         moves to it: TAT = now + c, wait = c + cost·E′ − Burst′·E′
//	refund   used − cost, at the old pace; of QUEUE, the time of cost at the faster pace
//
// Without the last rule, a raise would help only after the old pace has let a
// request through. Nothing is capped at the new burst. Otherwise a denial under a
// small limit would give back what was used under a large one.
//
// Promise, for any sequence of limits: in any time t, at most the largest Burst +
// t/E of the fastest pace; with INTERVAL, at most the largest Burst + the largest
// Max·⌈t/Period⌉ of the shortest Period. Each change rounds c up, by less than 1 ns
// of the new pace.
//
// QUEUE carries the time, not the tokens: see queue.go.

// use is what is in use according to a state, in the terms of the limit that wrote
// it: either one token comes back each e, or most tokens come back together each
// period.
type use struct {
	ahead   int64 // how long until all is back
	missing int64 // tokens; a part of a token counts as one
	e       int64 // 0 if they come back together
	// For tokens that come together:
	next, period, most int64 // next: how long until the next arrive
}

// useAt reads a state whose time is ahead of now by more than 0. A state without a
// pace has pace e. useAt returns false if the state is damaged.
func useAt(u *use, state []byte, ahead, e int64) bool {
	*u = use{ahead: ahead, e: e}
	switch n := len(state); {
	case n == timeLen:
	case n == bucketLen && !codeIn(state).isNone():
		u.e = codeIn(state).pace()
	case n == rawLen && rawPace(state) > 0:
		u.e = rawPace(state)
	case n >= minTerms:
		return u.readTerms(state)
	default:
		return false
	}
	if u.e < 1 {
		return false
	}
	u.missing = groups(ahead, u.e)
	return true
}

// readTerms reads a state of INTERVAL.
func (u *use) readTerms(state []byte) bool {
	period := int64(binary.LittleEndian.Uint64(state[timeLen:]))
	missing, n := readCount(state[timeLen+8:])
	most, m := readCount(state[timeLen+8+n:])
	if period < 1 || missing < 1 || most < 1 || n == 0 || m == 0 || timeLen+8+n+m != len(state) {
		return false
	}
	u.together(missing, period, most)
	return true
}

// together sets the terms of tokens that come together, most of them each period,
// and takes those that have arrived off the missing ones.
func (u *use) together(missing, period, most int64) {
	if missing < 1 {
		return
	}
	all := groups(missing, most)
	left := min(all, groups(u.ahead, period))
	u.e, u.period, u.most = 0, period, most
	u.missing = missing - (all-left)*most
	u.next = u.ahead - (left-1)*period
}

// until returns the time until no more than room tokens are missing. More than
// room are missing now.
func (u *use) until(room int64) int64 {
	if u.e != 0 {
		return u.ahead - room*u.e
	}
	return u.next + (groups(u.missing-room, u.most)-1)*u.period
}

// untilFull returns the time until no token is missing. It returns false if the
// time does not fit.
func (u *use) untilFull() (ahead int64, ok bool) {
	if u.missing == 0 {
		return 0, true
	}
	over, more := mul(groups(u.missing, u.most)-1, u.period)
	ahead = u.next + more
	return ahead, over == 0 && more|ahead >= 0
}

// carried returns the time that the missing tokens take at pace e, rounded up; the
// largest int64 if it does not fit.
func (u *use) carried(e int64) int64 {
	switch u.e {
	case e:
		return u.ahead
	case 0:
		return scaleUp(u.missing, e, 1)
	}
	return scaleUp(u.ahead, e, u.e)
}

// outrun reports whether pace e brings back no missing token later than u does.
func (u *use) outrun(e int64) bool {
	if u.e != 0 {
		return e < u.e
	}
	over, each := mul(u.most, e)
	return over == 0 && each >= 0 && each <= u.period && min(u.most, u.missing)*e <= u.next
}

// refund gives cost back, each as much as one token at the pace of the state takes but
// at most as long as most, and returns the next state.
func (u *use) refund(now, cost, most int64, dst []byte) (next []byte) {
	if u.e != 0 {
		u.ahead = max(0, u.ahead-scaleUp(min(u.e, most), cost, 1))
		if u.missing = 0; u.ahead > 0 {
			u.missing = groups(u.ahead, u.e)
		}
		return putBucket(dst, now+u.ahead, u.e, noCode)
	}
	u.missing = max(0, u.missing-cost)
	u.ahead, _ = u.untilFull()
	return u.put(dst, now)
}

// put writes the state of tokens that come together over dst.
func (u *use) put(dst []byte, now int64) []byte {
	// dst may be the state, so it must not be written in part.
	var buf [timeLen + 8 + 2*binary.MaxVarintLen64]byte
	b := binary.LittleEndian.AppendUint64(buf[:0], uint64(now+u.ahead))
	b = binary.LittleEndian.AppendUint64(b, uint64(u.period))
	b = binary.AppendUvarint(b, uint64(max(1, u.missing))) // the time says if none is
	b = binary.AppendUvarint(b, uint64(u.most))
	return append(dst[:0], b...)
}

// reserveWait returns the time until the debt is at most maxWait; 0 or less if it is
// already. The debt is the time that the missing tokens take at pace e, less dvt.
func (u *use) reserveWait(e, dvt, maxWait int64) int64 {
	sum := uint64(dvt) + uint64(maxWait)
	if u.e == 0 {
		if room := sum / uint64(e); room < uint64(u.missing) {
			return u.until(int64(room))
		}
		return 0
	}
	hi, lo := bits.Mul64(sum, uint64(u.e))
	if hi >= uint64(e) {
		return 0
	}
	room, _ := bits.Div64(hi, lo, uint64(e))
	return u.ahead - int64(min(room, maxInt64))
}

// together returns how many tokens arrive at once.
func together(l *Limit) int64 {
	if l.Burst < l.Max && l.Burst > 0 {
		return l.Burst
	}
	return l.Max
}
