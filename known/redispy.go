package known

// The lock of redis-py, which django-redis and others use: a text at a key.

var redisPy = [...]Script{
	{"c3f8721cbb97f72bc19e972846bd7aaf91901658", "redis-py Lock", "release", "4.3.4", lockRelease},
	{"a4e8783852e6b949f9ef3a97212805108459a890", "redis-py Lock", "extend", "4.3.4", lockExtend},
	{"1cac51482acf5858da00f6d685d68f886cd6b6b2", "redis-py Lock", "reacquire", "4.3.4", lockReacquire},
}

// lockRelease removes the key if it holds ARGV[1].
func lockRelease(r *Run) bool { return r.fits(1, 1) && redlockRelease(r) }

// lockExtend keeps a key that holds ARGV[1] for ARGV[2] ms, or for so long in addition
// if ARGV[3] is 0. A key without a time to live stays so.
func lockExtend(r *Run) bool {
	if !r.fits(1, 3) {
		return false
	}
	ttl, ok := r.span(1, 1)
	v, plain := r.str(r.Keys[0])
	if !ok || !plain {
		return false
	}
	left := r.ttl(&v)
	held := v.holds(r.Args[0]) && left >= 0
	if r.is(2, "0") {
		ttl += left
	}
	if held {
		r.setText(r.Keys[0], r.Args[0], r.until(ttl))
	}
	r.Bit(held)
	return true
}

// lockReacquire keeps a key that holds ARGV[1] for ARGV[2] ms.
func lockReacquire(r *Run) bool {
	if !r.fits(1, 2) {
		return false
	}
	ttl, ok := r.span(1, 1)
	v, plain := r.str(r.Keys[0])
	if !ok || !plain {
		return false
	}
	held := v.holds(r.Args[0])
	if held {
		r.setText(r.Keys[0], r.Args[0], r.until(ttl))
	}
	r.Bit(held)
	return true
}
