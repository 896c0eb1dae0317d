package known

// The lock of redis-py, which django-redis and others use: a text at a key.

var redisPy = [...]Script{
	{"c3f8721cbb97f72bc19e972846bd7aaf91901658", "redis-py Lock", "release", "4.3.4", 1, 1, redlockRelease},
	{"a4e8783852e6b949f9ef3a97212805108459a890", "redis-py Lock", "extend", "4.3.4", 1, 3, lockExtend},
	{"1cac51482acf5858da00f6d685d68f886cd6b6b2", "redis-py Lock", "reacquire", "4.3.4", 1, 2, lockReacquire},
}

// lockExtend keeps a key that holds ARGV[1] for ARGV[2] ms, or for so long in addition
// if ARGV[3] is 0. A key without a time to live stays so.
func lockExtend(r *Run) bool {
	ttl, ok := r.span(1, 1)
	v, plain := r.str(r.Keys[0])
	left := r.ttl(&v)
	if r.is(2, "0") {
		ttl += left
	}
	if left < 0 {
		r.Int(0)
		return ok && plain
	}
	return ok && plain && r.swap(&v, r.Args[0], ttl)
}

// lockReacquire keeps a key that holds ARGV[1] for ARGV[2] ms.
func lockReacquire(r *Run) bool {
	ttl, ok := r.span(1, 1)
	v, plain := r.str(r.Keys[0])
	return ok && plain && r.swap(&v, r.Args[0], ttl)
}
