package known

import "math"

// Spring Cloud Gateway: a bucket of tokens, kept as two texts, the tokens and the time
// of the last call.

var springGateway = [...]Script{
	{"86c69f51986a343841432495d8b97ac7ebdd7cfc", "Spring Cloud Gateway", "request_rate_limiter", "not yet released", 2, 4, springVersion{serverTime: true, micros: true}.take},
	{"0ad5736ed1c04aae6ec194376c784b89b8c08a7a", "Spring Cloud Gateway", "request_rate_limiter", "4.3.0-M3 on", 2, 4, springVersion{serverTime: true}.take},
	{"775635cca91092477cbcee85fd800accb6adc4b2", "Spring Cloud Gateway", "request_rate_limiter", "4.0.1 – 4.2.7", 2, 4, springVersion{serverTime: true}.take},
	{"76a566c51f92d8f643d16e0ef0101663d5380dba", "Spring Cloud Gateway", "request_rate_limiter", "3.0.6 – 4.0.0", 2, 4, springVersion{serverTime: true, only: true}.take},
	{"9d491aea731237273f4274f9ed9660b432b23791", "Spring Cloud Gateway", "request_rate_limiter", "2.2.3 – 3.0.5", 2, 4, springVersion{}.take},
	{"eec77786d43c65f7fd568900b5d2b63b692318dc", "Spring Cloud Gateway", "request_rate_limiter", "2.0.0.M3 – 2.2.2", 2, 4, springVersion{stores: true}.take},
}

// springVersion is what differs between the versions of the script.
type springVersion struct {
	serverTime bool // without a time in ARGV[3], it takes the server's
	only       bool // it takes no other
	micros     bool // it takes that to the microsecond
	stores     bool // it stores also for 0 seconds, which is an error
}

// time returns the time in seconds.
func (s springVersion) time(r *Run) (now float64, ok bool) {
	if s.only || s.serverTime && len(r.Args[2]) == 0 {
		if s.micros {
			return r.seconds(0), true
		}
		return float64(r.Now / 1e9), true
	}
	return plain(r.Args[2])
}

// take takes ARGV[4] tokens of a bucket that holds ARGV[2] and is filled with ARGV[1] a
// second. It replies whether it could, and with the tokens that are left.
func (s springVersion) take(r *Run) bool {
	rate, ok1 := plain(r.Args[0])
	capacity, ok2 := plain(r.Args[1])
	now, ok3 := s.time(r)
	requested, ok4 := plain(r.Args[3])
	ttl := math.Floor(float64(capacity/rate) * 2)
	if !ok1 || !ok2 || !ok3 || !ok4 || !(ttl < maxSeconds) || s.stores && ttl < 1 {
		return false
	}
	tokens, ok5 := r.number(r.Keys[0], capacity)
	last, ok6 := r.number(r.Keys[1], 0)
	if !ok5 || !ok6 {
		return false
	}
	filled := math.Min(capacity, tokens+float64(math.Max(0, now-last)*rate))
	allowed := filled >= requested
	if allowed {
		filled -= requested
	}
	left, ok := truncated(filled)
	if !ok {
		return false
	}
	if ttl > 0 {
		until := r.millis() + int64(ttl)*1000
		r.setNumber(r.Keys[0], filled, until)
		r.setNumber(r.Keys[1], now, until)
	}
	r.Array(2)
	r.Bit(allowed)
	r.Int(left)
	return true
}
