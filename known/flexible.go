package known

// rate-limiter-flexible, a Node.js package: a counter of points in a window of seconds,
// which begins with the first call.

var flexible = [...]Script{
	{"a1de965f42e177aa339706bd580f049065eca79a", "rate-limiter-flexible", "incrTtl", "2.0.0 – 11.4.0", flexibleIncr},
	{"0aa93fe6a34317527000a66828426c0ae2104618", "rate-limiter-flexible", "incrTtl (Valkey)", "6.0.0 – 11.4.0", flexibleValkey},
	{"c2dd110244ccc4448172c0148049c05a426917b4", "rate-limiter-flexible", "incrTtl (Valkey Glide)", "7.0.0 – 11.4.0", flexibleGlide},
	{"6604c8152bea174562b6b8a690770c3e9b617594", "rate-limiter-flexible", "get (Valkey Glide)", "7.0.0 – 11.4.0", flexibleGet},
}

// flexibleIncr counts ARGV[1] in a window of ARGV[2] seconds. A key without a time to
// live gets one.
func flexibleIncr(r *Run) bool {
	if !r.fits(1, 2) {
		return false
	}
	by, ok := r.whole(0)
	window, also := r.span(1, 1000)
	v, count, plain := r.counter(r.Keys[0])
	if !ok || !also || !plain {
		return false
	}
	left := r.ttl(&v)
	if left < 0 {
		left, v.Expires = window, r.millis()+window
	}
	r.setCounter(r.Keys[0], count+by, v.Expires)
	r.pair(count+by, left)
	return true
}

// flexibleValkey is flexibleIncr for which a key without a time to live stays so.
func flexibleValkey(r *Run) bool {
	if !r.fits(1, 2) {
		return false
	}
	by, ok := r.whole(0)
	window, also := r.span(1, 1000)
	v, count, plain := r.counter(r.Keys[0])
	if !ok || !also || !plain {
		return false
	}
	left := r.ttl(&v)
	if !v.exists() {
		left, v.Expires = window, r.millis()+window
	}
	r.setCounter(r.Keys[0], count+by, v.Expires)
	r.pair(count+by, left)
	return true
}

// flexibleGlide is flexibleValkey with 0 for no window.
func flexibleGlide(r *Run) bool {
	if !r.fits(1, 2) || !r.is(1, "0") {
		return flexibleValkey(r)
	}
	by, ok := r.whole(0)
	v, count, plain := r.counter(r.Keys[0])
	if !ok || !plain {
		return false
	}
	left := r.ttl(&v)
	if !v.exists() {
		left = -1
	}
	r.setCounter(r.Keys[0], count+by, v.Expires)
	r.pair(count+by, left)
	return true
}

// flexibleGet replies with the count and its time to live, with nothing if there is no
// count.
func flexibleGet(r *Run) bool {
	if !r.fits(1, 0) {
		return false
	}
	v, count, plain := r.counter(r.Keys[0])
	switch {
	case !plain:
		return false
	case !v.exists():
		r.Array(0)
	default:
		r.pair(count, r.ttl(&v))
	}
	return true
}
