package known

// redlock, a Node.js package: a lock is a text at each of its keys.

var redlock = [...]Script{
	{"96da70f7716f27d278a5218544df37fd8b0a5e4c", "redlock", "acquire", "5.0.0-alpha.0 – 5.0.0-beta.2", redlockAcquire},
	{"aed6f382e410db8ba7926d4e5e9aab410bf2a78a", "redlock", "extend", "5.0.0-alpha.0 – 5.0.0-beta.2", redlockExtend},
	{"e4612211c9f8f51c257e26e056b0a654b3187242", "redlock", "release", "5.0.0-alpha.0 – 5.0.0-beta.2", redlockRelease},
	{"e5a322e2634ef59a516e8ea150cb085afafee684", "redlock", "lock", "4.1.0 – 4.2.0", redlockAcquire},
	{"ce46f80993d5dac20dd066eb301a4e37994bdbed", "redlock", "extend", "4.2.0", redlockExtend},
	{"0f0f23b9048b36752b5be114f357ba083449f908", "redlock", "unlock", "4.2.0", redlockRelease},
}

// redlockAcquire sets all keys to ARGV[1] for ARGV[2] ms, unless one of them exists.
func redlockAcquire(r *Run) bool {
	if len(r.Keys) == 0 || len(r.Args) < 2 {
		return false
	}
	ttl, ok := r.span(1, 1)
	if !ok {
		return false
	}
	for _, key := range r.Keys {
		v, ok := r.Store.Get(key)
		if !ok {
			return false
		}
		if v.exists() {
			r.Int(0)
			return true
		}
	}
	return r.lockAll(ttl)
}

// lockAll sets all keys to ARGV[1].
func (r *Run) lockAll(ttl int64) bool {
	for _, key := range r.Keys {
		r.setText(key, r.Args[0], r.until(ttl))
	}
	r.Int(int64(len(r.Keys)))
	return true
}

// redlockExtend sets all keys to ARGV[1] for ARGV[2] ms, if that is what they hold.
func redlockExtend(r *Run) bool {
	if len(r.Keys) == 0 || len(r.Args) < 2 {
		return false
	}
	ttl, ok := r.span(1, 1)
	if !ok {
		return false
	}
	for _, key := range r.Keys {
		v, ok := r.str(key)
		if !ok {
			return false
		}
		if !v.holds(r.Args[0]) {
			r.Int(0)
			return true
		}
	}
	return r.lockAll(ttl)
}

// redlockRelease removes the keys that hold ARGV[1], and replies how many.
func redlockRelease(r *Run) bool {
	if len(r.Keys) == 0 || len(r.Args) < 1 {
		return false
	}
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
