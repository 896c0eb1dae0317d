package known

// @fastify/rate-limit, a Node.js package: a counter in a window of ms.

var fastify = [...]Script{
	{"b8a19d47785922bb04e7a9fdb49e90d89be1b8af", "@fastify/rate-limit", "rateLimit", "10.3.0 – 11.2.0", 1, 4, fastifyVersion{backs: true, first: true}.count},
	{"4c7d9ef62b3d4f8efd8d11d5d2fd1a56b1e723bc", "@fastify/rate-limit", "rateLimitRead", "11.1.0 – 11.2.0", 1, 0, fastifyRead},
	{"b72d57bf75a045b8d6f72ca5b553e356583723f0", "@fastify/rate-limit", "rateLimit", "10.2.0 – 10.2.2", 1, 4, fastifyVersion{backs: true}.count},
	{"f80d0c65a05e27559602a2b43fbe989df31fc5f6", "@fastify/rate-limit", "rateLimit", "10.0.0 – 10.1.1", 1, 3, fastifyVersion{}.count},
	{"3f481dd9e75a7c63c2facb091af19e1ab17f2cc7", "@fastify/rate-limit", "rateLimit", "8.1.0 – 9.1.0", 1, 4, fastifyVersion{bans: true}.count},
}

// fastifyVersion is what differs between the versions of the script.
type fastifyVersion struct {
	backs bool // the last argument says whether the window doubles with each call beyond the limit
	first bool // the window begins with the first count, not where there is no time to live
	bans  bool // the third argument is how far beyond the limit a caller is banned; -1: never
}

// maxSafe is the largest window that doubling comes to: the largest integer of
// JavaScript.
const maxSafe = 1<<53 - 1

// count counts 1 in a window of ARGV[1] ms. If the next flag is set, each call beyond
// ARGV[2] restarts the window.
func (f fastifyVersion) count(r *Run) bool {
	anewAt := 2
	if f.bans {
		anewAt = 3
	}
	window, ok := r.span(0, 1)
	most, also := r.whole(1)
	ban := int64(-1)
	if f.bans {
		var third bool
		ban, third = r.whole(2)
		also = also && third
	}
	v, count, plain := r.counter(r.Keys[0])
	if !ok || !also || !plain {
		return false
	}
	count++
	left := r.ttl(&v)
	begins := left < 0
	if f.first {
		begins = count == 1
	}
	switch {
	case begins, r.is(anewAt, "true") && count > most:
		left, v.Expires = window, r.millis()+window
	case f.backs && r.is(3, "true") && count > most:
		left = doubled(window, count-most-1)
		v.Expires = r.millis() + left
	}
	r.setCounter(r.Keys[0], count, v.Expires)
	if !f.bans {
		r.pair(count, left)
		return true
	}
	r.Array(3)
	r.Int(count)
	r.Int(left)
	r.truth(ban != -1 && count-most > ban)
	return true
}

// doubled returns a window that was doubled n times, at most maxSafe.
func doubled(window, n int64) int64 {
	for ; n > 0 && window < maxSafe; n-- {
		window *= 2
	}
	return min(window, maxSafe)
}

// fastifyRead replies with the count and its time to live, 0 for none.
func fastifyRead(r *Run) bool {
	v, count, plain := r.counter(r.Keys[0])
	if plain {
		r.pair(count, max(0, r.ttl(&v)))
	}
	return plain
}
