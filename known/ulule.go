package known

// ulule/limiter, a Go package: a counter in a window of ms.

var ulule = [...]Script{
	{"f74233f556d3f99c50b61169cf8aa8d5deb63fb2", "ulule/limiter", "incr", "3.7.0 – 3.11.2", ululeIncr},
	{"566f5c6a17e5fddb9a10bf389f754edd0d899c61", "ulule/limiter", "peek", "3.7.0 – 3.11.2", ululePeek},
}

// ululeIncr counts ARGV[1] in a window of ARGV[2] ms.
func ululeIncr(r *Run) bool {
	if !r.fits(1, 2) {
		return false
	}
	by, ok := r.whole(0)
	window, also := r.span(1, 1)
	v, count, plain := r.counter(r.Keys[0])
	if !ok || !also || !plain {
		return false
	}
	left := r.ttl(&v)
	if count == 0 {
		left, v.Expires = window, r.millis()+window
	}
	r.setCounter(r.Keys[0], count+by, v.Expires)
	r.pair(count+by, left)
	return true
}

// ululePeek replies with the count and its time to live.
func ululePeek(r *Run) bool {
	if !r.fits(1, 0) {
		return false
	}
	v, count, plain := r.counter(r.Keys[0])
	switch {
	case !plain:
		return false
	case !v.exists():
		r.pair(0, 0)
	default:
		r.pair(count, r.ttl(&v))
	}
	return true
}
