package known

import (
	"math"

	"limitdb/script"
	"limitdb/value"
)

// @upstash/ratelimit, a Node.js package for Redis behind an HTTP proxy. The scripts of
// version 2.1 and later have a flag that Redis does not know. They run in Lua.
// With version 2.0.8, another key may hold the limit.

var upstash = [...]Script{
	{"472e55443b62f60d0991028456c57815a387066d", "@upstash/ratelimit", "fixedWindow limit", "2.0.8", 2, 3, upstashFixed(true)},
	{"b13943e359636db027ad280f1def143f02158c13", "@upstash/ratelimit", "fixedWindow limit", "1.1.0 – 2.0.7", 1, 2, upstashFixed(false)},
	{"40515c9dd0a08f8584f5f9b593935f6a87c1c1c3", "@upstash/ratelimit", "fixedWindow remaining", "2.0.8", 2, 1, upstashFixedLeft},
	{"8c4c341934502aee132643ffbe58ead3450e5208", "@upstash/ratelimit", "fixedWindow remaining", "1.1.0 – 2.0.7", 1, 0, upstashCount},
	{"977fb636fb5ceb7e98a96d1b3a1272ba018efdae", "@upstash/ratelimit", "slidingWindow limit", "2.0.8", 3, 4, upstashSliding{dynamic: true, refunds: true}.take},
	{"9b7842963bd73721f1a3011650c23c0010848ee3", "@upstash/ratelimit", "slidingWindow limit", "2.0.7", 2, 4, upstashSliding{refunds: true}.take},
	{"e1391e429b699c780eb0480350cd5b7280fd9213", "@upstash/ratelimit", "slidingWindow limit", "1.1.0 – 2.0.6", 2, 4, upstashSliding{}.take},
	{"ee3a3265fad822f83acad23f8a1e2f5c0b156b03", "@upstash/ratelimit", "slidingWindow remaining", "2.0.8", 3, 3, upstashSliding{dynamic: true}.get},
	{"65a73ac5a05bf9712903bc304b77268980c1c417", "@upstash/ratelimit", "slidingWindow remaining", "1.2.1 – 2.0.7", 2, 2, upstashSliding{unlimited: true}.get},
	{"b35c5bc0b7fdae7dd0573d4529911cabaf9d1d89", "@upstash/ratelimit", "tokenBucket limit", "2.0.8", 2, 5, upstashTokens{dynamic: true, refunds: true}.take},
	{"d1f857ebbdaeca90ccd2cd4eada61d7c8e5db1ca", "@upstash/ratelimit", "tokenBucket limit", "2.0.7", 1, 5, upstashTokens{refunds: true}.take},
	{"5bece90aeef8189a8cfd28995b479529e270b3c6", "@upstash/ratelimit", "tokenBucket limit", "1.0.3 – 2.0.6", 1, 5, upstashTokens{}.take},
	{"deb03663e8af5a968deee895dd081be553d2611b", "@upstash/ratelimit", "tokenBucket remaining", "2.0.8", 2, 1, upstashTokens{dynamic: true}.get},
	{"a15be2bb1db2a15f7c82db06146f9d08983900d0", "@upstash/ratelimit", "tokenBucket remaining", "2.0.6 – 2.0.7", 1, 1, upstashTokens{}.get},
	{"c26b12703dd137939b9a69a3a9b18e906a2d940f", "@upstash/ratelimit", "cachedFixedWindow limit", "1.1.0 – 2.0.8", 1, 2, upstashCached},
	{"8e8f222ccae68b595ee6e3f3bf2199629a62b91a", "@upstash/ratelimit", "cachedFixedWindow remaining", "1.1.0 – 2.0.8", 1, 0, upstashCount},
	{"54bd274ddc59fb3be0f42deee2f64322a10e2b50", "@upstash/ratelimit", "reset", "1.1.0 – 2.0.8", 0, 0, nil},
}

// dynamic returns the limit that key i holds, or ARGV[1] if the key's name is empty or it
// holds none.
func (r *Run) dynamic(i int) (limit float64, ok bool) {
	limit, ok = plain(r.Args[0])
	if ok && len(r.Keys[i]) > 0 {
		return r.number(r.Keys[i], limit)
	}
	return limit, ok
}

// limited replies with an integer and, if the limit is dynamic, with the limit.
func (r *Run) limited(dynamic bool, n, limit float64) bool {
	a, ok := truncated(n)
	b, also := truncated(limit)
	if dynamic {
		r.pair(a, b)
	} else {
		r.Int(a)
	}
	return ok && also
}

// upstashFixed counts the last argument in a window of the one before it, in ms. A
// dynamic limit is part of the reply.
func upstashFixed(dynamic bool) func(*Run) bool {
	window := 0
	if dynamic {
		window = 1
	}
	return func(r *Run) bool {
		limit, ok := 0.0, true
		if dynamic {
			limit, ok = r.dynamic(1)
		}
		ttl, ok1 := r.span(window, 1)
		by, ok2 := r.whole(window + 1)
		v, count, ok3 := r.counter(r.Keys[0])
		if !ok || !ok1 || !ok2 || !ok3 || !r.limited(dynamic, float64(count+by), limit) {
			return false
		}
		if count == 0 {
			v.Expires = r.millis() + ttl
		}
		r.setCounter(r.Keys[0], count+by, v.Expires)
		return true
	}
}

// upstashCached counts ARGV[2]. It means to begin a window of ARGV[1] ms, but compares a
// number with a text, so that its keys never expire.
func upstashCached(r *Run) bool {
	by, ok := r.whole(1)
	v, count, also := r.counter(r.Keys[0])
	if !ok || !also {
		return false
	}
	r.setCounter(r.Keys[0], count+by, v.Expires)
	r.Int(count + by)
	return true
}

// upstashCount replies with the text of a counter, 0 if there is none.
func upstashCount(r *Run) bool {
	v, ok := r.str(r.Keys[0])
	if !ok {
		return false
	}
	if !v.exists() {
		r.Int(0)
		return true
	}
	var buf [20]byte
	r.Bulk(value.Text(v.Body, buf[:]))
	return true
}

// upstashFixedLeft replies with the rest of the limit, and the limit.
func upstashFixedLeft(r *Run) bool {
	limit, ok := r.dynamic(1)
	used, also := r.number(r.Keys[0], 0)
	return ok && also && r.limited(true, limit-used, limit)
}

// upstashSliding is what differs between the versions of the sliding window.
type upstashSliding struct {
	dynamic   bool // KEYS[3] may hold the limit
	unlimited bool // it has no limit, and only says what is used
	refunds   bool // only a positive amount is denied
}

// open reads the counters of this window and the one before, and the limit. The one
// before counts in proportion to its part of the last ARGV[3] ms before the time ARGV[2].
// Without a limit, these arguments are the first ones.
func (s upstashSliding) open(r *Run) (v Value, count int64, before, limit float64, ok bool) {
	at := 1
	if s.unlimited {
		at = 0
	}
	switch {
	case s.dynamic:
		limit, ok = r.dynamic(2)
	case s.unlimited:
		ok = true
	default:
		limit, ok = plain(r.Args[0])
	}
	now, ok1 := r.whole(at)
	window, ok2 := r.span(at+1, 1)
	v, count, ok3 := r.counter(r.Keys[0])
	_, last, ok4 := r.counter(r.Keys[1])
	if !ok || !ok1 || !ok2 || !ok3 || !ok4 || now < 0 {
		return v, 0, 0, 0, false
	}
	part := float64(now%window) / float64(window)
	return v, count, math.Floor(float64(1-part) * float64(last)), limit, true
}

// take counts ARGV[4], unless that would be beyond the limit.
func (s upstashSliding) take(r *Run) bool {
	by, ok := r.whole(3)
	v, count, before, limit, also := s.open(r)
	if !ok || !also {
		return false
	}
	if (by > 0 || !s.refunds) && before+float64(count) >= limit {
		return r.limited(s.dynamic, -1, limit)
	}
	if !r.limited(s.dynamic, limit-(float64(count+by)+before), limit) {
		return false
	}
	if count == 0 {
		window, _ := r.span(2, 1)
		v.Expires = r.millis() + 2*window + 1000
	}
	r.setCounter(r.Keys[0], count+by, v.Expires)
	return true
}

// get replies with the remaining requests if the limit is dynamic, else with the number used.
func (s upstashSliding) get(r *Run) bool {
	_, count, before, limit, ok := s.open(r)
	used := before + float64(count)
	if s.dynamic {
		used = limit - used
	}
	return ok && r.limited(s.dynamic, used, limit)
}

// upstashTokens is what differs between the versions of the token bucket.
type upstashTokens struct {
	dynamic bool // KEYS[2] may hold the limit
	refunds bool // only a positive amount is denied, and a full bucket has no end
}

// open reads the hash: the time of the last refill and the tokens then. It also reads the
// limit.
func (u upstashTokens) open(r *Run) (v Value, refilled, tokens, limit float64, ok bool) {
	if u.dynamic {
		limit, ok = r.dynamic(1)
	} else {
		limit, ok = plain(r.Args[0])
	}
	v, there := r.Store.Get(r.Keys[0])
	if !ok || !there || v.exists() && v.Type != value.Hash {
		return v, 0, 0, 0, false
	}
	if !v.exists() {
		return v, 0, limit, limit, true
	}
	h := value.OpenHash(v.Body)
	at, _ := h.Get([]byte("refilledAt"))
	n, _ := h.Get([]byte("tokens"))
	refilled, ok1 := plain(at)
	tokens, ok2 := plain(n)
	return v, refilled, tokens, limit, ok1 && ok2
}

// take takes ARGV[5] tokens at the time ARGV[4]. ARGV[3] come back every ARGV[2] ms.
func (u upstashTokens) take(r *Run) bool {
	v, refilled, tokens, limit, ok := u.open(r)
	if !ok {
		return false
	}
	interval, ok1 := r.span(1, 1)
	refill, ok2 := plain(r.Args[2])
	now, ok3 := plain(r.Args[3])
	by, ok4 := r.whole(4)
	if !ok1 || !ok2 || !ok3 || !ok4 || refill == 0 {
		return false
	}
	every := float64(interval)
	if !v.exists() {
		refilled = now
	}
	if now >= refilled+every {
		refills := math.Floor((now - refilled) / every)
		tokens = math.Min(limit, tokens+float64(refills*refill))
		refilled += float64(refills * every)
	}
	if tokens == 0 && (by > 0 || !u.refunds) {
		return u.reply(r, -1, refilled+every, limit)
	}
	remaining := tokens - float64(by)
	ttl := math.Ceil((limit-remaining)/refill) * every
	if ttl <= 0 && !u.refunds || ttl > maxSeconds || !u.reply(r, remaining, refilled+every, limit) {
		return false
	}
	if ttl > 0 {
		v.Expires = r.millis() + int64(ttl)
	}
	h := value.OpenHash(v.Body)
	var at, left [32]byte
	h.Set([]byte("refilledAt"), script.AppendNumber(at[:0], refilled, 17), []byte("tokens"), script.AppendNumber(left[:0], remaining, 17))
	if h.Err() != nil {
		return false
	}
	r.keep(value.Hash, h, v.Expires)
	return true
}

func (u upstashTokens) reply(r *Run, remaining, refill, limit float64) bool {
	a, ok1 := truncated(remaining)
	b, ok2 := truncated(refill)
	c, ok3 := truncated(limit)
	if !u.dynamic {
		r.pair(a, b)
		return ok1 && ok2
	}
	r.Array(3)
	r.Int(a)
	r.Int(b)
	r.Int(c)
	return ok1 && ok2 && ok3
}

// get replies with the tokens and the time of the last refill, -1 if there was none.
func (u upstashTokens) get(r *Run) bool {
	v, refilled, tokens, limit, ok := u.open(r)
	if !v.exists() {
		refilled = -1
	}
	return ok && u.reply(r, tokens, refilled, limit)
}
