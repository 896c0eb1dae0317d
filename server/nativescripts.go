package server

import (
	"bytes"
	"math"
	"strconv"

	"limitdb/resp"
	"limitdb/script"
	"limitdb/value"
)

// The scripts of well-known limiters, in Go: what they do most of the time, at a fraction of the cost. A handler has the
// replies of its script, and leaves the same values and expiries, so a library of another version, whose script runs in
// Lua, goes on with the same keys. Where anything is unusual, such as an argument that is no plain number or a key of
// another type, the handler changes nothing and returns false, and the script itself runs.

// native is one run of a script.
type native struct {
	*call
	t          *Txn
	keys, argv [][]byte
}

// nativeScript returns the handler of a script by its SHA-1, nil if there is none.
func nativeScript(sha string) func(n *native) bool {
	switch sha {
	case "f52a5b566060d79fd321d695df55bc918339c4aa": // go-redis/redis_rate
		return (*native).redisRateAllowN
	case "054143318f521948424aa25df61d7f7ba835a9d7":
		return (*native).redisRateAllowAtMost
	case "a1de965f42e177aa339706bd580f049065eca79a": // rate-limiter-flexible
		return (*native).flexibleIncrTTL
	case "81dbecea94d2d10514719b20ed51faf711529d9d": // rate-limit-redis
		return (*native).rateLimitRedisIncrement
	case "b829ec02dca78a148dfc75dd3c86f488ed007c68", "3f424a504987d231baa2e19159bb5def8ad32f87":
		return (*native).rateLimitRedisOlderIncrement
	case "3f481dd9e75a7c63c2facb091af19e1ab17f2cc7": // @fastify/rate-limit
		return func(n *native) bool { return n.fastify(4) }
	case "f80d0c65a05e27559602a2b43fbe989df31fc5f6":
		return func(n *native) bool { return n.fastify(3) }
	case "f74233f556d3f99c50b61169cf8aa8d5deb63fb2": // ulule/limiter
		return (*native).ululeIncr
	case "566f5c6a17e5fddb9a10bf389f754edd0d899c61":
		return (*native).ululePeek
	case "ebd682e30de074a6919bde872b507734c7c3ebe5": // throttled
		return (*native).throttledCAS
	case "628bd136a573a06b346879695681af12ccef300f": // limits
		return (*native).limitsIncrExpire
	case "a08c9c69b7c07ae2485190873b90d128a23e502d": // Laravel
		return (*native).laravelAdd
	case "647c65a442733a1aa440f99908d249d13b4d6c4a":
		return (*native).laravelReleaseLock
	case "e5a322e2634ef59a516e8ea150cb085afafee684": // redlock
		return (*native).redlockLock
	case "ce46f80993d5dac20dd066eb301a4e37994bdbed":
		return (*native).redlockExtend
	case "0f0f23b9048b36752b5be114f357ba083449f908":
		return (*native).redlockUnlock
	}
	return nil
}

// fits reports whether the script has one key and at least so many arguments.
func (n *native) fits(args int) bool { return len(n.keys) == 1 && len(n.argv) >= args }

// maxWhole is above all integers that handlers take: a number of Lua holds those below 2⁵³ exactly.
const maxWhole = 1 << 52

// whole returns argument i as an integer that Redis and Lua read alike.
func (n *native) whole(i int) (int64, bool) {
	v, ok := resp.ParseInt(n.argv[i])
	return v, ok && v > -maxWhole && v < maxWhole
}

// span returns argument i as a time to live, in ms if unit is 1 and in seconds if it is 1000.
func (n *native) span(i int, unit int64) (ms int64, ok bool) {
	v, ok := n.whole(i)
	return v * unit, ok && v > 0 && v < maxWhole/1000
}

// str returns the string that the script's key holds; ok is false if it holds anything else. An absent key is an empty
// item.
func (n *native) str() (it item, ok bool) {
	it = n.item(n.t, n.keys[0])
	return it, n.t.Err == nil && (it.typ == value.String || !it.exists())
}

// counter returns the integer that the script's key holds, 0 if it is absent.
func (n *native) counter() (it item, count int64, ok bool) {
	if it, ok = n.str(); !ok {
		return it, 0, false
	}
	count, err := value.StringInt(it.body)
	return it, count, err == nil && count > -maxWhole && count < maxWhole
}

// setCounter makes the script's key hold a number until expires, in ms of Unix time; 0 is for ever.
func (n *native) setCounter(count, expires int64) {
	n.body = value.AppendCounter(n.body[:0], count)
	n.put(n.t, n.keys[0], &item{typ: value.String, expires: expires, body: n.body})
}

// setText makes the script's key hold a text.
func (n *native) setText(text []byte, expires int64) {
	n.body = value.AppendString(n.body[:0], text)
	n.put(n.t, n.keys[0], &item{typ: value.String, expires: expires, body: n.body})
}

// holds reports whether the script's key holds a text.
func (n *native) holds(it *item, text []byte) bool {
	var buf [20]byte
	return it.exists() && bytes.Equal(value.Text(it.body, buf[:]), text)
}

// pair replies with two integers.
func (n *native) pair(a, b int64) {
	n.Array(2)
	n.Int(a)
	n.Int(b)
}

// flexibleIncrTTL counts ARGV[1] in a window of ARGV[2] seconds, which begins with the first call.
func (n *native) flexibleIncrTTL() bool {
	if !n.fits(2) {
		return false
	}
	by, ok := n.whole(0)
	window, also := n.span(1, 1000)
	it, count, plain := n.counter()
	if !ok || !also || !plain {
		return false
	}
	left := n.ttlOf(&it)
	if left < 0 {
		left, it.expires = window, n.NowMillis()+window
	}
	n.setCounter(count+by, it.expires)
	n.pair(count+by, left)
	return true
}

// rateLimitRedisIncrement counts 1 in a window of ARGV[2] ms; ARGV[1] is 1 if each call begins the window anew.
func (n *native) rateLimitRedisIncrement() bool {
	if !n.fits(2) {
		return false
	}
	window, ok := n.span(1, 1)
	it, count, plain := n.counter()
	if !ok || !plain {
		return false
	}
	left := n.ttlOf(&it)
	if left <= 0 {
		n.setCounter(1, n.NowMillis()+window)
		n.pair(1, window)
		return true
	}
	if string(n.argv[0]) == "1" {
		left, it.expires = window, n.NowMillis()+window
	}
	n.setCounter(count+1, it.expires)
	n.pair(count+1, left)
	return true
}

// rateLimitRedisOlderIncrement is rateLimitRedisIncrement as it was before version 4.2.3.
func (n *native) rateLimitRedisOlderIncrement() bool {
	if !n.fits(2) {
		return false
	}
	window, ok := n.span(1, 1)
	it, count, plain := n.counter()
	if !ok || !plain {
		return false
	}
	left := n.ttlOf(&it)
	if left <= 0 || string(n.argv[0]) == "1" {
		left, it.expires = window, n.NowMillis()+window
	}
	n.setCounter(count+1, it.expires)
	n.pair(count+1, left)
	return true
}

// fastify counts 1 in a window of ARGV[1] ms. Beyond ARGV[2] the last argument decides whether each call begins the window
// anew. With four arguments, the third is how far beyond that a caller is banned.
func (n *native) fastify(args int) bool {
	if !n.fits(args) {
		return false
	}
	window, ok := n.span(0, 1)
	most, also := n.whole(1)
	ban := int64(-1)
	if args == 4 {
		var third bool
		ban, third = n.whole(2)
		also = also && third
	}
	it, count, plain := n.counter()
	if !ok || !also || !plain {
		return false
	}
	count++
	left := n.ttlOf(&it)
	if left < 0 || string(n.argv[args-1]) == "true" && count > most {
		left, it.expires = window, n.NowMillis()+window
	}
	n.setCounter(count, it.expires)
	if args == 3 {
		n.pair(count, left)
		return true
	}
	n.Array(3)
	n.Int(count)
	n.Int(left)
	if ban != -1 && count-most > ban {
		n.Int(1)
	} else {
		n.Null()
	}
	return true
}

// ululeIncr counts ARGV[1] in a window of ARGV[2] ms.
func (n *native) ululeIncr() bool {
	if !n.fits(2) {
		return false
	}
	by, ok := n.whole(0)
	window, also := n.span(1, 1)
	it, count, plain := n.counter()
	if !ok || !also || !plain {
		return false
	}
	left := n.ttlOf(&it)
	if count == 0 {
		left, it.expires = window, n.NowMillis()+window
	}
	n.setCounter(count+by, it.expires)
	n.pair(count+by, left)
	return true
}

// ululePeek returns the count and the time to live.
func (n *native) ululePeek() bool {
	if !n.fits(0) {
		return false
	}
	it, count, plain := n.counter()
	if !plain {
		return false
	}
	if !it.exists() {
		n.pair(0, 0)
		return true
	}
	n.pair(count, n.ttlOf(&it))
	return true
}

// throttledCAS puts ARGV[2] in the place of ARGV[1], for ARGV[3] seconds.
func (n *native) throttledCAS() bool {
	if !n.fits(3) {
		return false
	}
	ttl, ok := n.span(2, 1000)
	it, plain := n.str()
	switch {
	case !ok || !plain || !it.exists():
		return false
	case !n.holds(&it, n.argv[0]):
		n.Int(0)
		return true
	}
	n.setText(n.argv[1], n.NowMillis()+ttl)
	n.Int(1)
	return true
}

// limitsIncrExpire counts ARGV[2] in a window of ARGV[1] seconds.
func (n *native) limitsIncrExpire() bool {
	if !n.fits(2) {
		return false
	}
	window, ok := n.span(0, 1000)
	by, also := n.whole(1)
	it, count, plain := n.counter()
	if !ok || !also || !plain {
		return false
	}
	if count == 0 {
		it.expires = n.NowMillis() + window
	}
	n.setCounter(count+by, it.expires)
	n.Int(count + by)
	return true
}

// laravelAdd sets ARGV[1] for ARGV[2] seconds if the key does not exist.
func (n *native) laravelAdd() bool {
	if !n.fits(2) {
		return false
	}
	ttl, ok := n.span(1, 1000)
	it, plain := n.str()
	switch {
	case !ok || !plain:
		return false
	case it.exists():
		n.Null()
		return true
	}
	n.setText(n.argv[0], n.NowMillis()+ttl)
	n.OK()
	return true
}

// laravelReleaseLock removes the key if it holds ARGV[1].
func (n *native) laravelReleaseLock() bool {
	if !n.fits(1) {
		return false
	}
	it, plain := n.str()
	if !plain {
		return false
	}
	held := n.holds(&it, n.argv[0])
	if held {
		n.t.Remove(n.keys[0])
	}
	n.Bit(held)
	return true
}

// redlockLock sets ARGV[1] for ARGV[2] ms if the key does not exist.
func (n *native) redlockLock() bool {
	if !n.fits(2) {
		return false
	}
	ttl, ok := n.span(1, 1)
	it, plain := n.str()
	if !ok || !plain {
		return false
	}
	if !it.exists() {
		n.setText(n.argv[0], n.NowMillis()+ttl)
	}
	n.Bit(!it.exists())
	return true
}

// redlockExtend sets ARGV[1] for ARGV[2] ms if the key holds it.
func (n *native) redlockExtend() bool {
	if !n.fits(2) {
		return false
	}
	ttl, ok := n.span(1, 1)
	it, plain := n.str()
	if !ok || !plain {
		return false
	}
	held := n.holds(&it, n.argv[0])
	if held {
		n.setText(n.argv[0], n.NowMillis()+ttl)
	}
	n.Bit(held)
	return true
}

// redlockUnlock removes the key if it holds ARGV[1].
func (n *native) redlockUnlock() bool { return n.laravelReleaseLock() }

// The arithmetic of redis_rate is that of its script, in floating point: seconds since 2017, kept with 17 digits.
const redisRateEpoch = 1483228800

// rate are the arguments of redis_rate's scripts and the state of its key.
type rate struct {
	interval, offset, cost float64
	now, tat               float64
}

// plainFloat reads what redis_rate writes: digits with a point.
func plainFloat(b []byte) (float64, bool) {
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(string(b), 64)
	return f, err == nil
}

// redisRate reads the arguments burst, rate, period in seconds and cost, and the key.
func (n *native) redisRate() (r rate, ok bool) {
	if !n.fits(4) {
		return r, false
	}
	var args [4]float64
	for i := range args {
		if args[i], ok = plainFloat(n.argv[i]); !ok {
			return r, false
		}
	}
	it, plain := n.str()
	if !plain || args[1] == 0 {
		return r, false
	}
	micros := n.Now / 1000
	r.now = float64(micros/1e6-redisRateEpoch) + float64(float64(micros%1e6)/1e6)
	r.interval = args[2] / args[1]
	r.offset = float64(r.interval * args[0])
	r.cost = args[3]
	r.tat = r.now
	if it.exists() {
		var buf [20]byte
		tat, plain := plainFloat(value.Text(it.body, buf[:]))
		if !plain {
			return r, false
		}
		r.tat = math.Max(tat, r.now)
	}
	return r, true
}

// keepRate stores a new TAT, and replies what is allowed and remains.
func (n *native) keepRate(r *rate, tat, allowed, remaining float64) bool {
	reset := tat - r.now
	if reset > maxWhole/1000 || allowed > maxWhole || remaining > maxWhole {
		return false
	}
	if reset > 0 {
		var text [32]byte
		n.setText(script.AppendNumber(text[:0], tat, 17), n.NowMillis()+int64(math.Ceil(reset))*1000)
	}
	n.rateReply(allowed, remaining, -1, reset)
	return true
}

func (n *native) rateReply(allowed, remaining, retry, reset float64) {
	n.Array(4)
	n.Int(int64(allowed))
	n.Int(int64(remaining))
	var text [32]byte
	n.Bulk(script.AppendNumber(text[:0], retry, 14))
	n.Bulk(script.AppendNumber(text[:0], reset, 14))
}

// redisRateAllowN takes a cost or nothing.
func (n *native) redisRateAllowN() bool {
	r, ok := n.redisRate()
	if !ok {
		return false
	}
	tat := r.tat + float64(r.interval*r.cost)
	left := r.now - (tat - r.offset)
	remaining := left / r.interval
	if remaining < 0 {
		n.rateReply(0, 0, -left, r.tat-r.now)
		return true
	}
	return n.keepRate(&r, tat, r.cost, remaining)
}

// redisRateAllowAtMost takes as much of a cost as there is, and at least 1.
func (n *native) redisRateAllowAtMost() bool {
	r, ok := n.redisRate()
	if !ok {
		return false
	}
	left := r.now - (r.tat - r.offset)
	remaining := left / r.interval
	if remaining < 1 {
		n.rateReply(0, 0, r.interval-left, r.tat-r.now)
		return true
	}
	cost := r.cost
	if remaining < cost {
		cost, remaining = remaining, 0
	} else {
		remaining -= cost
	}
	return n.keepRate(&r, r.tat+float64(r.interval*cost), cost, remaining)
}
