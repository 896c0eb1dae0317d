package known

// throttled, a Go package, and similar ones. A client replaces a text only if it has not
// changed since the client read it.

var throttled = [...]Script{
	{"ebd682e30de074a6919bde872b507734c7c3ebe5", "throttled", "CAS", "2.1.0 – 2.15.0", 1, 3, throttledCAS(false)},
	{"6bdec824e189de50c67af6376ce88933ad7728a3", "throttled", "CAS (redigostore)", "2.0", 1, 3, throttledCAS(true)},
}

// throttledCAS puts ARGV[2] in the place of ARGV[1], for ARGV[3] seconds. 0 is for ever if
// the version has that.
func throttledCAS(forever bool) func(*Run) bool {
	return func(r *Run) bool {
		ttl, ok := r.span(2, 1000)
		if forever && r.is(2, "0") {
			ttl, ok = 0, true
		}
		v, plain := r.str(r.Keys[0])
		return ok && plain && v.exists() && r.swap(&v, r.Args[1], ttl)
	}
}

// swap replaces a value by a text if it is ARGV[1], for a time in ms; 0 is for ever. It
// replies with 1 or 0.
func (r *Run) swap(v *Value, text []byte, ttl int64) bool {
	same := v.holds(r.Args[0])
	if same {
		r.setText(r.Keys[0], text, r.until(ttl))
	}
	r.Bit(same)
	return true
}

// until returns the end of a time to live in ms; 0 is for ever.
func (r *Run) until(ttl int64) int64 {
	if ttl == 0 {
		return 0
	}
	return r.millis() + ttl
}
