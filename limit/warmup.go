package limit

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Guava's SmoothWarmingUp, as the comment of its SmoothRateLimiter describes it:
// a rate that is slow at first and after a rest, for services that must warm up
// (caches to fill, connections to open).
//
// Unused permits are stored, and a stored permit may cost more. Up to a threshold
// it costs S, the stable interval ⌈Period/Max⌉; above it, up to COLD times as much:
//
//	cost of one  ▲
//	    COLD·S   │              ╱│      threshold = Warm / 2S
//	             │            ╱  │      most      = threshold + 2·Warm / (S + COLD·S)
//	             │          ╱    │      cooling   = Warm/most, the time that stores one more
//	         S   ├────────╱ Warm │
//	             │        │      │      the area is time: Warm from the most to the
//	             │ Warm/2 │      │      threshold, and Warm/2 from there to none
//	             └────────┴──────┴───►
//	             0   threshold  most    permits stored
//
// A fresh key is cold: it has stored the most. A request takes stored permits
// first, from the right, and further permits for S each. The area under what it
// takes is the time that it costs. The request goes at once, whatever it costs, and
// the next one waits until that time is over:
//
//	limited   ⇔ now < free
//	wait      = free − now if cost ≤ Max, else Never
//	free      = max(now, free) + ⌈area⌉
//	reset     = free − now + the time until the most is stored
//	remaining = Max, or 0 while now < free
//
// In advance, a request of any cost waits until free, and then goes.
//
// The state keeps the stored permits as heat, the time until the most is stored,
// which is Warm at most: heat/cooling permits are missing from the most. With S in
// whole nanoseconds, all arithmetic is in integers. With q = S·cost and f = COLD:
//
//	heat' = heat + ⌊2(f+1)q / (f+5)⌋              2(f+1)S/(f+5) is cooling
//	a     = max(0, 4·Warm − (f+5)·heat)           (f+5) times the heat to the threshold
//	b     = max(0, a − 2(f+1)q)                   the same, after
//	area  = q + (f−1)(a² − b²) / (16(f+1)·Warm)
//
// Rounding the heat down keeps the key colder, and slower, by less than 1 ns of
// cooling for each request. A nanosecond of heat is worth up to COLD/2 of price: with
// COLD 1000, some 500 ns.
//
// Promise: at most Max + t/S in any time t; fewer while it warms up.
//
// A refund stores the permits again, and takes the time that they cost off free. It
// must know how many were taken while none was stored. That is the spent heat,
// which is beyond Warm and kept until free. After free, a refund stores permits and
// gives no time back. The permits cost what they cost under the limit that took
// them, whatever limit the refund names. So a state with a debt has the S, COLD and
// Warm of that. If several limits have taken in advance, it has COLD 1, because then
// each permit has cost S at least.
//
//	0         8         … + 1…9   … + 1…9   … + 2      … + 1…10   … + 2 or 8
//	┌─────────┬─────────┬─────────┬──────────┬──────────┬──────────┐
//	│ expires │ heat    │ spent   │ 128+COLD │ Warm     │ S        │
//	└─────────┴─────────┴─────────┴──────────┴──────────┴──────────┘
//
// All are uvarints of ns, but for expires, a little-endian int64 in Unix ns; Warm, a tag
// as in tag.go; and S, as in pace.go. 128+COLD has two bytes.
//
// There, free = expires − heat. Zeros at the end are left out, and so is all from COLD on
// if there is no debt. If the clock has run backwards since, such a state has a debt all the
// same, with the S and Warm of the call's limit and COLD 1.
//
// When the limit changes, a debt becomes S'/S times as much, rounded up. A denial
// under a shorter interval writes that, and keeps the heat; under a longer interval
// the debt runs on as it is. The heat stays, but it counts only up to the Warm of the
// call. So in any time t at most Max + t/S are admitted, with the largest Max and the
// shortest S, and what is given back once more.

const (
	// maxWarm is the longest Warm for which the formulas fit, 73 years.
	maxWarm = math.MaxInt64 / 4

	coldBase = 128
	coldSize = 2 // bytes of coldBase + COLD
)

// warmth is the state of a key at a time.
type warmth struct {
	owed int64    // the time until free
	heat int64    // Warm at most
	more int64    // the spent heat beyond Warm
	pace int64    // the S of the debt, 0 if it is not known
	code paceCode // of pace, or of the limit's S while pace is 0; or noCode
	cold int64    // the COLD of the debt, if there is one
	warm int64    // the Warm of the debt, likewise
}

// kept is what the state says until it is written again.
type kept struct {
	ends int64 // the time until it expires
	heat int64 // its heat, of the Warm under which it was written
	s    int64 // the S of the limit, 0 if that allows nothing
}

// warmTake is Take for WARMUP.
func warmTake(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var w warmth
	changed, err := w.decide(d, l, state, now, cost)
	if err != nil || !changed {
		return nil, err
	}
	return w.put(dst, now), nil
}

// warmPeek is Peek for WARMUP.
func warmPeek(d *Decision, l *Limit, state []byte, now, cost int64) error {
	var w warmth
	_, err := w.decide(d, l, state, now, cost)
	return err
}

// decide fills in the decision and the state after it, and reports whether the
// state has changed.
func (w *warmth) decide(d *Decision, l *Limit, state []byte, now, cost int64) (changed bool, err error) {
	var k kept
	if err := w.open(&k, l, state, now, cost); err != nil {
		return false, err
	}
	if cost > l.Max || l.Max == 0 {
		*d = Decision{Limited: true, Limit: l.Max, Wait: Never, Reset: k.ends}
		if w.owed == 0 {
			d.Remaining = l.Max
		}
		return false, nil
	}
	// A denial must fit as well: its request will be granted later.
	after := *w
	if !after.take(l, k.s, cost) || !after.fits(now) {
		return false, ErrOverflow
	}
	switch {
	case w.owed > 0:
		sooner := int64(0)
		if cost > 0 {
			sooner = w.hasten(&k)
		}
		*d = Decision{Limited: true, Limit: l.Max, Wait: w.owed, Reset: k.ends - sooner}
		return sooner > 0, nil
	case cost > 0:
		*d = Decision{Limit: l.Max, Wait: Never, Reset: after.reset()}
		*w = after
		return true, nil
	}
	*d = Decision{Limit: l.Max, Remaining: l.Max, Wait: Never, Reset: k.ends}
	return false, nil
}

// hasten changes the debt to the pace of the limit, if that is sooner, and returns
// by how much. The heat is then that of k.
func (w *warmth) hasten(k *kept) (sooner int64) {
	if w.pace <= k.s {
		return 0
	}
	owed := share(w.owed, k.s, w.pace)
	if sooner = w.owed - owed; sooner > 0 {
		w.owed, w.heat, w.more = owed, k.heat, w.heat+w.more-k.heat
		w.pace, w.code = k.s, noCode
	}
	return sooner
}

// warmReserve is Reserve for WARMUP.
func warmReserve(d *Decision, l *Limit, state []byte, now, cost, maxWait int64, dst []byte) (next []byte, err error) {
	var w warmth
	var k kept
	if err := w.open(&k, l, state, now, cost); err != nil {
		return nil, err
	}
	if l.Max == 0 {
		*d = Decision{Limited: true, Wait: Never, Reset: k.ends}
		return nil, nil
	}
	if w.pace != 0 && w.pace != k.s {
		if most, _ := scale(maxWait, w.pace, k.s); maxWait >= 0 && w.owed > most {
			return w.tooLate(d, l, &k, now, cost, maxWait, most, dst)
		}
		if w.owed = scaleUp(w.owed, k.s, w.pace); w.owed == maxInt64 {
			return nil, ErrOverflow // it may be more
		}
	}
	after := w
	if !after.take(l, k.s, cost) || !after.fits(now) {
		return nil, ErrOverflow
	}
	limited, wait := within(w.owed, maxWait)
	reset := after.reset()
	if limited || cost == 0 {
		after, reset = w, k.ends
	}
	*d = Decision{Limited: limited, Limit: l.Max, Wait: wait, Reset: reset}
	if after.owed == 0 {
		d.Remaining = l.Max
	}
	if limited || cost == 0 {
		return nil, nil
	}
	return after.put(dst, now), nil
}

// tooLate denies a reservation that would have to wait for longer than maxWait, where
// the limit's pace is not that of the debt. most is the debt that is worth maxWait.
// Unless the debt moves to a faster pace, it runs on until no more than most is left.
func (w *warmth) tooLate(d *Decision, l *Limit, k *kept, now, cost, maxWait, most int64, dst []byte) (next []byte, err error) {
	sooner := int64(0)
	if cost > 0 {
		sooner = w.hasten(k)
	}
	if sooner > 0 {
		most, next = maxWait, w.put(dst, now)
	}
	*d = Decision{Limited: true, Limit: l.Max, Wait: w.owed - most, Reset: k.ends - sooner}
	return next, nil
}

// warmRefund is Refund for WARMUP.
func warmRefund(d *Decision, l *Limit, state []byte, now, cost int64, dst []byte) (next []byte, err error) {
	var w warmth
	var k kept
	if err := w.open(&k, l, state, now, cost); err != nil {
		return nil, err
	}
	before := w
	if l.Max > 0 {
		w.giveBack(l, k.s, cost)
	}
	*d = Decision{Limit: l.Max, Remaining: l.Max, Wait: Never, Reset: w.reset()}
	if w.owed > 0 {
		d.Remaining = 0
	}
	if w == before {
		d.Reset = k.ends
		return nil, nil
	}
	return w.put(dst, now), nil
}

// open checks the arguments and reads the state as it is at now: first the debt has
// been paid off, and in the rest of the time the key has cooled.
func (w *warmth) open(k *kept, l *Limit, state []byte, now, cost int64) error {
	switch {
	case l.Max|cost < 0 || l.Period < 1:
		return badArgument(l)
	case l.Warm < 1:
		return ErrWarm
	case l.Cold < 1 || l.Cold > MaxCold:
		return ErrCold
	case l.Warm > maxWarm:
		return ErrOverflow
	}
	if l.Max > 0 {
		k.s = interval(l)
	}
	if len(state) < 8 {
		if len(state) == 0 {
			return nil
		}
		return ErrState
	}
	expires := int64(binary.LittleEndian.Uint64(state))
	if expires <= now {
		return nil
	}
	if len(state) > 8 && !w.read(state[8:], k.s) || w.heat > 0 && expires < math.MinInt64+w.heat {
		return ErrState
	}
	k.ends, k.heat = expires-now, w.heat
	if k.ends < 0 {
		return ErrOverflow
	}
	if w.owed = k.ends - w.heat; w.owed <= 0 {
		// It has been free for a while, so ends is the rest of the heat.
		w.owed, w.more = 0, 0
		w.heat = min(k.ends, l.Warm)
		if w.pace != k.s {
			w.code = noCode
		}
		w.pace = 0
		return nil
	}
	if w.heat += w.more; w.heat < 0 {
		return ErrState
	}
	if w.warm == 0 { // the clock has run backwards
		w.cold, w.warm = 1, l.Warm
	}
	if w.heated(l, w.heat); !w.fits(now) {
		return ErrOverflow // the Warm is longer than it was
	}
	return nil
}

// read reads the rest of a state, after the time at which it expires, and reports
// whether that is well formed. It needs no division if S is that of the limit.
func (w *warmth) read(b []byte, s int64) bool {
	heat, n := readCount(b)
	w.heat = heat
	if b = b[n:]; len(b) == 0 || n == 0 {
		return n > 0
	}
	w.more, n = readCount(b)
	if b = b[n:]; len(b) == 0 || n == 0 {
		return n > 0
	}
	if len(b) <= coldSize || b[0] < coldBase || b[1] >= coldBase {
		return false
	}
	tag, n := readTag(b[coldSize:])
	w.cold, w.warm = int64(b[0]&0x7f)|int64(b[1])<<7-coldBase, tag.period
	if n == 0 || w.warm == 0 || tag.first || w.cold < 1 || w.cold > MaxCold || w.warm > maxWarm {
		return false
	}
	switch b = b[coldSize+n:]; len(b) {
	case bucketLen - timeLen:
		w.code = paceCode(binary.LittleEndian.Uint16(b))
		if w.pace = s; !w.code.is(s) {
			w.pace = w.code.pace()
		}
		return w.pace > 0 && !w.code.isNone()
	case rawLen - timeLen:
		w.code, w.pace = rawCode, int64(binary.BigEndian.Uint64(b))
	}
	return w.pace > 0
}

// heated sets the heat, and the spent heat beyond Warm, of all together.
func (w *warmth) heated(l *Limit, all int64) {
	w.heat = min(all, l.Warm)
	w.more = all - w.heat
}

// put writes the state as of now.
func (w *warmth) put(dst []byte, now int64) []byte {
	var room [8 + 2*binary.MaxVarintLen64 + coldSize + maxTag + 8]byte
	b := binary.LittleEndian.AppendUint64(room[:0], uint64(now+w.owed+w.heat))
	paced := w.owed > 0 && w.pace > 0
	if w.heat|w.more > 0 || paced {
		b = binary.AppendUvarint(b, uint64(w.heat))
	}
	if w.more > 0 || paced {
		b = binary.AppendUvarint(b, uint64(w.more))
	}
	if paced {
		b = binary.AppendUvarint(b, uint64(coldBase+w.cold))
		b = appendTag(b, windowTag{period: w.warm})
		b = appendPace(b, w.pace, w.code)
	}
	return append(dst[:0], b...) // in one piece: a dst that is too small stays as it is
}

// reset returns the time until the key is cold and owes nothing.
func (w *warmth) reset() int64 { return w.owed + w.heat }

// fits reports whether the time at which the state expires fits in int64.
func (w *warmth) fits(now int64) bool {
	return w.reset() >= 0 && w.reset() <= math.MaxInt64-max(0, now)
}

// take takes a cost; s is l's S. It reports whether the result fits.
func (w *warmth) take(l *Limit, s, cost int64) (ok bool) {
	if w.pace != 0 && w.pace != s {
		w.code = noCode
	}
	if w.owed == 0 || w.pace == s && w.cold == l.Cold && w.warm == l.Warm {
		w.cold = l.Cold
	} else {
		w.cold = 1 // more than one limit has taken
	}
	w.pace, w.warm = s, l.Warm
	over, q := mul(s, cost)
	if over != 0 || q < 0 {
		return false
	}
	area, fits := l.area(w.heat, q)
	more, ok := l.heats(q)
	all := w.heat + w.more + more
	w.owed += area
	w.heated(l, all)
	return ok && fits && w.owed >= 0 && all >= 0
}

// giveBack takes a cost back, as the limit took it that has made the debt; s is l's S,
// for a key without one.
func (w *warmth) giveBack(l *Limit, s, cost int64) {
	by := Limit{Cold: l.Cold, Warm: l.Warm}
	if w.owed > 0 {
		by = Limit{Cold: w.cold, Warm: w.warm}
		if w.pace > 0 {
			s = w.pace
		}
	}
	over, q := mul(s, cost)
	if over != 0 || q < 0 {
		*w = warmth{} // so much cannot have been taken
		return
	}
	less, fits := by.heats(q)
	if !fits {
		*w = warmth{}
		return
	}
	w.heated(&by, max(0, w.heat+w.more-less))
	if area, ok := by.area(w.heat, q); ok && area < w.owed {
		w.owed -= area
		return
	}
	w.owed, w.more = 0, 0
}

// heats returns the heat of permits that take q ns at the stable rate, and whether it
// fits.
func (l *Limit) heats(q int64) (heat int64, ok bool) {
	if l.Cold == defaultCold {
		return q, true
	}
	hi, lo := bits.Mul64(uint64(q), uint64(2*(l.Cold+1)))
	// It is less than twice q, so it fits in 64 bits.
	n, _ := bits.Div64(hi, lo, uint64(l.Cold+5))
	return int64(n), n <= math.MaxInt64
}

// area returns what permits that take q ns at the stable rate cost, from a heat on,
// and whether it fits.
func (l *Limit) area(heat, q int64) (ns int64, ok bool) {
	f, warm := uint64(l.Cold), uint64(l.Warm)
	hi, x := bits.Mul64(f+5, uint64(heat))
	if f == 1 || hi != 0 || x >= 4*warm {
		return q, true
	}
	a := 4*warm - x
	extra := uint64(0)
	if hi, x := bits.Mul64(2*(f+1), uint64(q)); hi == 0 && x < a {
		// a² − b² = (a−b)·(a+b), where a − b = x and a + b = 2·(a − (f+1)q). All of
		// (f−1)q is less than a, and the sum at most 2a.
		hi, lo := bits.Mul64((f-1)*uint64(q), a-x/2)
		extra = divideUp(hi, lo, 4*warm)
	} else {
		extra = overThreshold(f, a, warm)
	}
	ns = q + int64(extra)
	return ns, ns >= 0
}

// overThreshold returns ⌈(f−1)·a² / (16(f+1)·warm)⌉, the area above S that is left;
// a is at most 4·warm. ⌈x/(yz)⌉ is ⌈⌈x/y⌉/z⌉.
func overThreshold(f, a, warm uint64) uint64 {
	hi, lo := bits.Mul64(a, a)
	carry, lo := bits.Mul64(lo, f-1)
	top, hi := bits.Mul64(hi, f-1)
	hi, c := bits.Add64(hi, carry, 0)
	top += c
	// (f−1)·a² is at most 16(f−1)·warm², so top is less than warm.
	high, rest := bits.Div64(top, hi, warm)
	low, rest := bits.Div64(rest, lo, warm)
	if rest > 0 {
		low, c = bits.Add64(low, 1, 0)
		high += c
	}
	return divideUp(high, low, 16*(f+1))
}

// divideUp returns ⌈(hi, lo)/by⌉, which must fit.
func divideUp(hi, lo, by uint64) uint64 {
	n, rest := bits.Div64(hi, lo, by)
	if rest > 0 {
		n++
	}
	return n
}
