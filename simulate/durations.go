package simulate

import "math"

// durations counts times in ns to three decimal digits, rounded up like waits. Its memory is bounded: a row
// of 900 counts for each power of ten.
type durations struct {
	rows  [20]*[900]uint64 // rows[e][m-100] counts m·10^e; m < 100 in rows[0] only
	small [100]uint64      // counts times below 100 ns
	count uint64
	worst int64
}

// add counts ns, which must be 0 or more.
func (d *durations) add(ns int64) {
	d.count++
	d.worst = max(d.worst, ns)
	if ns < 100 {
		d.small[ns]++
		return
	}
	e, m := digits(ns)
	if d.rows[e] == nil {
		d.rows[e] = new([900]uint64)
	}
	d.rows[e][m-100]++
}

// digits rounds ns, which must be at least 100, up to m·10^e with m from 100 to 999.
func digits(ns int64) (e int, m int64) {
	scale := int64(1)
	for m = ns; m > 999; m = ns / scale {
		e++
		scale *= 10
	}
	if m*scale < ns {
		m++
	}
	if m > 999 {
		return e + 1, 100
	}
	return e, m
}

// each calls f for every counted time, in order, until f returns false.
func (d *durations) each(f func(ns int64, n uint64) bool) {
	for ns, n := range d.small {
		if n > 0 && !f(int64(ns), n) {
			return
		}
	}
	scale := int64(1)
	for _, row := range d.rows {
		if row != nil && !d.eachOf(row, scale, f) {
			return
		}
		if scale <= math.MaxInt64/10 {
			scale *= 10
		}
	}
}

// eachOf does what each does, for one row. The time of the last count may not fit into an int64.
func (d *durations) eachOf(row *[900]uint64, scale int64, f func(ns int64, n uint64) bool) bool {
	for i, n := range row {
		ns := d.worst
		if m := int64(i) + 100; m <= d.worst/scale {
			ns = m * scale
		}
		if n > 0 && !f(ns, n) {
			return false
		}
	}
	return true
}

// quantile returns the shortest time that at least q percent of all times do not exceed, or 0 if there are
// none.
func (d *durations) quantile(q uint64) (ns int64) {
	rank := d.count/100*q + (d.count%100*q+99)/100
	seen := uint64(0)
	d.each(func(t int64, n uint64) bool {
		ns = t
		seen += n
		return seen < rank
	})
	return ns
}
