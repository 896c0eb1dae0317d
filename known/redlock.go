package known

// redlock, a Node.js package: a lock is a text at each of its keys.

var redlock = [...]Script{
	{"96da70f7716f27d278a5218544df37fd8b0a5e4c", "redlock", "acquire", "5.0.0-alpha.0 – 5.0.0-beta.2", 0, 2, redlockSet(isAbsent)},
	{"aed6f382e410db8ba7926d4e5e9aab410bf2a78a", "redlock", "extend", "5.0.0-alpha.0 – 5.0.0-beta.2", 0, 2, redlockSet(isHeld)},
	{"e4612211c9f8f51c257e26e056b0a654b3187242", "redlock", "release", "5.0.0-alpha.0 – 5.0.0-beta.2", 0, 1, redlockRelease},
	{"e5a322e2634ef59a516e8ea150cb085afafee684", "redlock", "lock", "4.1.0 – 4.2.0", 0, 2, redlockSet(isAbsent)},
	{"ce46f80993d5dac20dd066eb301a4e37994bdbed", "redlock", "extend", "4.2.0", 0, 2, redlockSet(isHeld)},
	{"0f0f23b9048b36752b5be114f357ba083449f908", "redlock", "unlock", "4.2.0", 0, 1, redlockRelease},
}

// redlockSet sets all keys to ARGV[1] for ARGV[2] ms, if may allows it for all of them.
func redlockSet(may func(r *Run, v *Value) bool) func(*Run) bool {
	return func(r *Run) bool {
		ttl, ok := r.span(1, 1)
		if !ok {
			return false
		}
		for _, key := range r.Keys {
			v, ok := r.str(key)
			if !ok {
				return false
			}
			if !may(r, &v) {
				r.Int(0)
				return true
			}
		}
		for _, key := range r.Keys {
			r.setText(key, r.Args[0], r.until(ttl))
		}
		r.Int(int64(len(r.Keys)))
		return true
	}
}

// isAbsent reports whether a key does not exist.
func isAbsent(r *Run, v *Value) bool { return !v.exists() }

// isHeld reports whether a key holds ARGV[1].
func isHeld(r *Run, v *Value) bool { return v.holds(r.Args[0]) }

// redlockRelease removes the keys that hold ARGV[1], and replies how many.
func redlockRelease(r *Run) bool {
	for _, key := range r.Keys {
		if _, ok := r.str(key); !ok {
			return false
		}
	}
	n := int64(0)
	for _, key := range r.Keys {
		if v, _ := r.str(key); v.holds(r.Args[0]) {
			r.remove(key)
			n++
		}
	}
	r.Int(n)
	return true
}
