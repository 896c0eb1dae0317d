package simulate

import "encoding/binary"

// window tracks exactly how much one caller was admitted within the last period: a queue of times, each with
// an amount. The newest is in the struct, so a caller that asks less than once a period needs no more memory.
//
// The older ones are in buf, from head on, oldest first, each as two uvarints:
//
//	[amount][nanoseconds until the next one]
//
// That is 6 bytes for requests a second apart.
type window struct {
	buf    []byte
	head   int
	oldest int64
	newest int64
	amount uint64 // of the newest
	sum    uint64 // of all
}

// add admits n at time t, which must not be before the newest, and returns the sum over (t − period, t]. A
// sum stays below 2⁶⁴, since no algorithm admits more than twice its limit in a period.
func (w *window) add(t int64, n uint64, period int64) uint64 {
	switch {
	case w.sum == 0:
		*w = window{buf: w.buf[:0], oldest: t, newest: t, amount: n, sum: n}
		return n
	case t > w.newest:
		w.push(t)
		w.amount = 0
	}
	w.amount += n
	w.sum += n
	for w.head < len(w.buf) && !within(w.oldest, t, period) {
		w.drop()
	}
	return w.sum
}

// within reports whether old is in (t − period, t], for old ≤ t.
func within(old, t, period int64) bool {
	return uint64(t)-uint64(old) < uint64(period)
}

// push moves the newest to the older ones; the next one is at t.
func (w *window) push(t int64) {
	if w.head > 0 && len(w.buf)+2*binary.MaxVarintLen64 > cap(w.buf) {
		// At least half is free, so moving the rest costs less than what was dropped.
		if w.head >= len(w.buf)/2 {
			w.buf = w.buf[:copy(w.buf, w.buf[w.head:])]
			w.head = 0
		}
	}
	w.buf = binary.AppendUvarint(w.buf, w.amount)
	w.buf = binary.AppendUvarint(w.buf, uint64(t)-uint64(w.newest))
	w.newest = t
}

// drop removes the oldest in buf.
func (w *window) drop() {
	n, size := binary.Uvarint(w.buf[w.head:])
	w.head += size
	gap, size := binary.Uvarint(w.buf[w.head:])
	w.head += size
	w.sum -= n
	w.oldest += int64(gap)
	if w.head == len(w.buf) {
		w.buf, w.head = w.buf[:0], 0
	}
}

// shrink releases memory at time now.
func (w *window) shrink(now, period int64) {
	for w.head < len(w.buf) && w.oldest <= now && !within(w.oldest, now, period) {
		w.drop()
	}
	if rest := w.buf[w.head:]; cap(w.buf) > 2*len(rest)+64 {
		w.buf, w.head = append([]byte(nil), rest...), 0
	}
}
