package known

// rate-limiter-flexible, a Node.js package: a counter of points in a window of seconds,
// which begins with the first call.

var flexible = [...]Script{
	{"a1de965f42e177aa339706bd580f049065eca79a", "rate-limiter-flexible", "incrTtl", "2.0.0 – 11.4.0", 1, 2, flexibleIncr},
	{"0aa93fe6a34317527000a66828426c0ae2104618", "rate-limiter-flexible", "incrTtl (Valkey)", "6.0.0 – 11.4.0", 1, 2, flexibleValkey},
	{"c2dd110244ccc4448172c0148049c05a426917b4", "rate-limiter-flexible", "incrTtl (Valkey Glide)", "7.0.0 – 11.4.0", 1, 2, flexibleGlide},
	{"6604c8152bea174562b6b8a690770c3e9b617594", "rate-limiter-flexible", "get (Valkey Glide)", "7.0.0 – 11.4.0", 1, 0, flexibleGet},
}

// flexibleIncr counts ARGV[1] in a window of ARGV[2] seconds. A key without a time to
// live gets one.
func flexibleIncr(r *Run) bool {
	return r.countArgs(1000, func(_, left int64) bool { return left < 0 })
}

// flexibleValkey is flexibleIncr, but a key without a time to live keeps none.
func flexibleValkey(r *Run) bool {
	return r.countArgs(1000, func(_, left int64) bool { return left == absent })
}

// flexibleGlide is flexibleValkey with 0 for no window.
func flexibleGlide(r *Run) bool {
	if !r.is(1, "0") {
		return flexibleValkey(r)
	}
	by, ok := r.whole(0)
	return ok && r.count(by, 0, func(int64, int64) bool { return false })
}

// flexibleGet replies with the count and its time to live, with nothing if there is no
// count.
func flexibleGet(r *Run) bool {
	v, count, plain := r.counter(r.Keys[0])
	if v.exists() {
		r.pair(count, r.ttl(&v))
	} else {
		r.Array(0)
	}
	return plain
}
