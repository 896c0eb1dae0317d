package known

import "limitdb/value"

// rate-limit-redis, the store of express-rate-limit: a counter in a window of ms.

var rateLimitRedis = [...]Script{
	{"895b92e1712734e1b464999be23953485475357b", "rate-limit-redis", "increment", "6.0.0 – 6.0.1", 1, 1, hitsVersion{}.count},
	{"81dbecea94d2d10514719b20ed51faf711529d9d", "rate-limit-redis", "increment", "4.2.3 – 5.0.0", 1, 2, hitsVersion{anew: true}.count},
	{"b829ec02dca78a148dfc75dd3c86f488ed007c68", "rate-limit-redis", "increment", "4.2.1 – 4.2.2", 1, 2, hitsVersion{anew: true, keeps: true}.count},
	{"3f424a504987d231baa2e19159bb5def8ad32f87", "rate-limit-redis", "increment", "3.0.0 – 4.2.0", 1, 2, hitsVersion{anew: true, keeps: true}.count},
	{"6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a", "rate-limit-redis", "get", "4.1.0 – 6.0.1", 1, 0, hitsGet},
}

// hitsVersion is what differs between the versions of the script.
type hitsVersion struct {
	anew  bool // the first argument is 1 if each call restarts the window
	keeps bool // a key without a time to live keeps its count
}

// count counts 1 in a window. Its length is the last argument.
func (h hitsVersion) count(r *Run) bool {
	last := 0
	if h.anew {
		last = 1
	}
	window, ok := r.span(last, 1)
	v, count, plain := r.counter(r.Keys[0])
	if !ok || !plain {
		return false
	}
	left := r.ttl(&v)
	if left <= 0 && !h.keeps {
		count = 0
	}
	if left <= 0 || h.anew && r.is(0, "1") {
		left, v.Expires = window, r.millis()+window
	}
	r.setCounter(r.Keys[0], count+1, v.Expires)
	r.pair(count+1, left)
	return true
}

// hitsGet replies with the text of the count and its time to live.
func hitsGet(r *Run) bool {
	v, ok := r.str(r.Keys[0])
	if !ok {
		return false
	}
	r.Array(2)
	if v.exists() {
		var buf [20]byte
		r.Bulk(value.Text(v.Body, buf[:]))
	} else {
		r.Null()
	}
	r.Int(r.ttl(&v))
	return true
}
