package known

// rate-limiter-flexible, a Node.js package: a counter of points in a window of seconds,
// which begins with the first call.

var flexible = [...]Script{
	{"a1de965f42e177aa339706bd580f049065eca79a", "rate-limiter-flexible", "incrTtl", "2.0.0 – 11.4.0", 1, 2, flexibleIncr},
	{"0aa93fe6a34317527000a66828426c0ae2104618", "rate-limiter-flexible", "incrTtl (Valkey)", "6.0.0 – 11.4.0", 1, 2, flexibleValkey},
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
