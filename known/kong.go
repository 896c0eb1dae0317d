package known

// The rate-limiting plugin of Kong: a counter in a window of seconds.

var kong = [...]Script{
	{"5d30863604236a151eb61aae06fd7c8ba051d3e0", "Kong rate-limiting", "sync", "3.4.0 on", 1, 2, kongSync},
	{"c0c8112b7b72f6e62996d9728dce30fac38286b6", "Kong rate-limiting", "incr", "3.4.0 on", 1, 1, kongUsage},
	{"4d1cce2e153d24bd33d85877f6eb28065aa92546", "Kong rate-limiting", "incr", "2.1.1 – 2.7.0", 1, 2, kongIncr},
}

// kongSync counts ARGV[1]. A new counter is kept until ARGV[2], in seconds of Unix time.
func kongSync(r *Run) bool {
	by, ok := r.whole(0)
	until, also := r.span(1, 1000)
	v, count, plain := r.counter(r.Keys[0])
	if !ok || !also || !plain || until <= r.millis() {
		return false
	}
	if !v.exists() {
		v.Expires = until
	}
	r.setCounter(r.Keys[0], count+by, v.Expires)
	r.Null()
	return true
}

// kongUsage counts 1 in a window of ARGV[1] seconds and replies with the count before.
func kongUsage(r *Run) bool {
	before, ok := r.countIn(1, 0)
	r.Int(before)
	return ok
}

// kongIncr counts ARGV[1] in a window of ARGV[2] seconds.
func kongIncr(r *Run) bool {
	by, ok := r.whole(0)
	if ok {
		_, ok = r.countIn(by, 1)
	}
	r.Null()
	return ok
}
