package known

// ulule/limiter, a Go package: a counter in a window of ms.

var ulule = [...]Script{
	{"f74233f556d3f99c50b61169cf8aa8d5deb63fb2", "ulule/limiter", "incr", "3.7.0 – 3.11.2", 1, 2, ululeIncr},
	{"566f5c6a17e5fddb9a10bf389f754edd0d899c61", "ulule/limiter", "peek", "3.7.0 – 3.11.2", 1, 0, ululePeek},
}

// ululeIncr counts ARGV[1] in a window of ARGV[2] ms.
func ululeIncr(r *Run) bool {
	return r.countArgs(1, func(count, _ int64) bool { return count == 0 })
}

// absent is the time to live of a key that does not exist.
const absent = -2

// countArgs counts by ARGV[1] in the counter of the first key, and replies with the count
// and its time to live. A window of ARGV[2], in ms if unit is 1 and in seconds if it is 1000,
// begins if begins says so of the counter.
func (r *Run) countArgs(unit int64, begins func(count, left int64) bool) bool {
	by, ok1 := r.whole(0)
	window, ok2 := r.span(1, unit)
	v, count, ok3 := r.counter(r.Keys[0])
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	left := r.ttl(&v)
	if begins(count, left) {
		left, v.Expires = window, r.millis()+window
	}
	r.setCounter(r.Keys[0], count+by, v.Expires)
	r.pair(count+by, max(left, -1))
	return true
}

// ululePeek replies with the count and its time to live.
func ululePeek(r *Run) bool {
	v, count, plain := r.counter(r.Keys[0])
	if v.exists() {
		r.pair(count, r.ttl(&v))
	} else {
		r.pair(0, 0)
	}
	return plain
}
