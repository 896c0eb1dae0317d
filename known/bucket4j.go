package known

// bucket4j, a Java library. A bucket's state is a text. A client replaces it only if it
// has not changed since the client read it.

var bucket4j = [...]Script{
	{"9450de540565d89de15092a716555821601f128b", "bucket4j", "COMPARE_AND_SWAP", "7.6.0 – 8.19.0", 1, 2, bucketSwap(false)},
	{"535b2fd00a12a23393fe15cf99599ecc51cd3007", "bucket4j", "COMPARE_AND_SWAP_PX", "7.0.0 – 8.19.0", 1, 3, bucketSwap(true)},
	{"1fed031c105d7c0315b3fc2e4a75e697247264f5", "bucket4j", "SET_NX", "8.2.0 – 8.19.0", 1, 1, bucketSet(false, (*Run).Bit)},
	{"c0569386b0382069581dfaa1a8d241140bc0eeb4", "bucket4j", "SET_NX_PX", "8.2.0 – 8.19.0", 1, 2, bucketSet(true, (*Run).Bit)},
	{"6cad3abd039c32c68cc4638ca3513684cd302a58", "bucket4j", "SET_NX (Lettuce)", "7.6.0 – 8.1.0", 1, 1, bucketSet(false, (*Run).done)},
	{"70b34c1df15244e38adcc5356cabe59b8aca7254", "bucket4j", "SET_NX_PX (Lettuce)", "7.6.0 – 8.1.0", 1, 2, bucketSet(true, (*Run).done)},
}

// bucketSwap puts ARGV[2] in the place of ARGV[1], if timed for ARGV[3] ms.
func bucketSwap(timed bool) func(*Run) bool {
	return func(r *Run) bool {
		ttl, ok := r.timed(timed, 2)
		v, plain := r.str(r.Keys[0])
		return ok && plain && r.swap(&v, r.Args[1], ttl)
	}
}

// bucketSet sets ARGV[1] if the key does not exist, if timed for ARGV[2] ms. It replies
// whether it has.
func bucketSet(timed bool, reply func(r *Run, set bool)) func(*Run) bool {
	return func(r *Run) bool {
		ttl, ok := r.timed(timed, 1)
		return ok && r.add(ttl, reply)
	}
}

// add sets ARGV[1] if the key does not exist, for a time in ms, 0 for ever. It replies
// whether it has.
func (r *Run) add(ttl int64, reply func(r *Run, set bool)) bool {
	v, ok := r.Store.Get(r.Keys[0])
	if !ok {
		return false
	}
	if !v.exists() {
		r.setText(r.Keys[0], r.Args[0], r.until(ttl))
	}
	reply(r, !v.exists())
	return true
}

// timed returns argument i as a time in ms, 0 if there is none.
func (r *Run) timed(timed bool, i int) (ttl int64, ok bool) {
	if !timed {
		return 0, true
	}
	return r.span(i, 1)
}
