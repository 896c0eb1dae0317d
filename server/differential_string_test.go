package server

import (
	"strconv"
	"strings"

	"limitdb/resp"
)

// Random commands on strings, counters and expiries, for the differential test.

func (g *twins) stringRead() twin {
	switch g.IntN(7) {
	case 0:
		return plain("MGET", g.key(), g.key(), g.key())
	case 1:
		return plain("STRLEN", g.key())
	case 2:
		return plain(g.pick("GETRANGE", "substr"), g.key(), g.index(), g.pick(g.index(), g.index(), "x", "9223372036854775807"))
	case 3:
		return plain("GETDEL", g.key())
	case 4:
		w := plain("GETEX", g.key())
		if g.IntN(3) > 0 {
			w = g.expiry(w)
		}
		return w.with(g.maybe(g.maybe(g.pick("PERSIST", "NX", "foo"))...)...)
	}
	return plain("GET", g.key())
}

func (g *twins) stringWrite() twin {
	k, v := g.key(), g.text()
	switch g.IntN(14) {
	case 0:
		return plain("SETNX", k, v)
	case 1:
		return plain("SETEX", k, g.pick(strconv.FormatInt(g.ttl(), 10), "0", "-5", "x", "9223372036854775807"), v)
	case 2:
		return plain("PSETEX", k, g.pick(strconv.FormatInt(g.ttl()*1000, 10), "0", "x", "9223372036854775807"), v)
	case 3:
		return plain("GETSET", k, v)
	case 4:
		return plain("MSET", k, v, g.key(), g.text()).with(g.maybe(g.maybe("odd")...)...)
	case 5:
		return plain("MSETNX", k, v, g.key(), g.text()).with(g.maybe(g.maybe("odd")...)...)
	case 6, 7:
		return plain("APPEND", k, v)
	case 8:
		w := plain("SETRANGE", k, g.pick("0", "1", "5", "30", "300", "-1", "x", "536870912", "9223372036854775807"), v)
		w.render = func(v resp.Value, _ int64) string { // the limits differ
			text, _, _ := strings.Cut(line(v), " (")
			return text
		}
		return w
	}
	w := plain("SET", k, v).with(g.maybe(g.pick("NX", "XX", "GET", "nx"))...)
	if g.IntN(2) == 0 {
		w = g.expiry(w)
	}
	return w.with(g.maybe(g.maybe(g.pick("NX", "XX", "GET", "KEEPTTL", "PERSIST", "bar", "EX"))...)...)
}

func (g *twins) counterWrite() twin {
	k, v := g.key(), g.text()
	switch g.IntN(6) {
	case 0, 1:
		return plain("INCR", k)
	case 2:
		return plain("DECR", k)
	case 3:
		return plain("INCRBY", k, v)
	case 4:
		return plain("DECRBY", k, v)
	}
	return plain("INCRBYFLOAT", k, v)
}

func (g *twins) expireWrite() twin {
	k, past := g.key(), int64(0)
	if g.IntN(8) == 0 {
		past = 5 * twinPeriod
	}
	var w twin
	switch t := g.ttl() - past; g.IntN(7) {
	case 0, 1:
		w = plain("EXPIRE", k, strconv.FormatInt(t, 10))
	case 2:
		w = plain("PEXPIRE", k, strconv.FormatInt(t*1000, 10))
	case 3:
		w = g.at(plain("EXPIREAT", k), t, 1000)
	case 4:
		w = g.at(plain("PEXPIREAT", k), t, 1)
	case 5:
		return plain(g.pick("EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"), k, g.pick("x", "9223372036854775807", "-9223372036854775808", "", "-1", "0"))
	default:
		return plain("PERSIST", k)
	}
	for range g.IntN(2) + g.IntN(2) {
		w = w.with(g.pick("NX", "XX", "GT", "LT", "gt", "lt", "AB"))
	}
	return w
}

func (g *twins) expireRead() twin {
	w := plain("TTL", g.key())
	switch g.IntN(4) {
	case 0:
		w.render = times(1000, false)
	case 1:
		w = plain("PTTL", g.key())
		w.render = times(1, false)
	case 2:
		w = plain("EXPIRETIME", g.key())
		w.render = times(1000, true)
	default:
		w = plain("PEXPIRETIME", g.key())
		w.render = times(1, true)
	}
	if w.render == nil {
		w.render = times(1000, false)
	}
	return w
}
