package server

import (
	"maps"
	"slices"
	"strings"

	"limitdb/resp"
)

// Random commands on sorted sets, hashes, lists and sets, for the differential test.

// ofType returns a key that often holds a value of a type.
func (g *twins) ofType(name string) string {
	if g.IntN(12) == 0 {
		return g.key()
	}
	return name + g.pick("1", "2")
}

func (g *twins) member() string {
	return g.pick("m", "n", "o", "p", "q", "", "10", "-7", "Hello World")
}

func (g *twins) score() string {
	return g.pick("0", "1", "2", "-1", "1.5", "0.1", "1e20", "inf", "-inf", "3", "4", "5", "6", g.text())
}

func (g *twins) bound() string {
	return g.pick("-inf", "+inf", "(1", "2", "(2", "0", "5", "(5", "", "(", " 1", "x", "nan", "(inf", "1e999", g.score())
}

func (g *twins) sortedSetWrite() twin {
	k := g.ofType("z")
	switch g.IntN(11) {
	case 10:
		return plain(g.pick("ZPOPMIN", "ZPOPMAX"), k).with(g.maybe(g.pick("0", "1", "2", "9", "-1", "x"))...).with(g.maybe(g.maybe("odd")...)...)
	case 0:
		return plain("ZINCRBY", k, g.score(), g.member())
	case 1:
		return plain("ZREM", k, g.member(), g.member())
	case 2:
		return plain("ZREMRANGEBYSCORE", k, g.bound(), g.bound())
	case 3:
		return plain("ZREMRANGEBYRANK", k, g.index(), g.pick(g.index(), "x"))
	}
	w := plain("ZADD", k)
	for g.IntN(3) == 0 {
		w = w.with(g.pick("NX", "XX", "GT", "LT", "CH", "INCR", "ch"))
	}
	for {
		w = w.with(g.score(), g.member())
		if g.IntN(3) > 0 {
			return w.with(g.maybe(g.maybe(g.maybe("odd")...)...)...)
		}
	}
}

func (g *twins) sortedSetRead() twin {
	k := g.ofType("z")
	var w twin
	switch g.IntN(11) {
	case 10:
		return g.elements("ZSCAN", k)
	case 0:
		return plain("ZCARD", k)
	case 1:
		return plain("ZCOUNT", k, g.bound(), g.bound())
	case 2:
		return plain("ZSCORE", k, g.member())
	case 3:
		return plain(g.pick("ZRANK", "ZREVRANK"), k, g.member())
	case 4:
		return plain("ZMSCORE", k, g.member(), g.member())
	case 5:
		w = plain("ZRANGE", k, g.bound(), g.bound(), "BYSCORE")
	case 6:
		w = plain(g.pick("ZRANGEBYSCORE", "ZREVRANGEBYSCORE"), k, g.bound(), g.bound())
	case 7:
		w = plain("ZREVRANGE", k, g.index(), g.index())
	default:
		w = plain("ZRANGE", k, g.index(), g.index())
	}
	for g.IntN(2) == 0 {
		switch g.IntN(6) {
		case 0:
			w = w.with("REV")
		case 1:
			w = w.with("LIMIT", g.index(), g.pick(g.index(), "x"))
		case 2:
			w = w.with(g.pick("foo", "LIMIT", "BYSCORE"))
		default:
			w = w.with("WITHSCORES")
		}
	}
	return w
}

func (g *twins) hashOp() twin {
	k, f := g.ofType("h"), g.member()
	switch g.IntN(17) {
	case 16:
		return g.elements("HSCAN", k)
	case 0:
		return plain("HGET", k, f)
	case 1:
		return plain("HMGET", k, f, g.member())
	case 2:
		w := plain(g.pick("HGETALL", "HKEYS", "HVALS"), k)
		w.render = anyOrder
		return w
	case 3:
		return plain("HDEL", k, f, g.member())
	case 4:
		return plain("HEXISTS", k, f)
	case 5:
		return plain("HLEN", k)
	case 6:
		return plain("HSTRLEN", k, f)
	case 7:
		return plain("HSETNX", k, f, g.text())
	case 8:
		return plain("HMSET", k, f, g.text(), g.member(), g.text()).with(g.maybe(g.maybe(g.maybe("odd")...)...)...)
	case 9, 10:
		return plain("HINCRBY", k, f, g.text())
	case 11:
		return plain("HINCRBYFLOAT", k, f, g.text())
	}
	return plain("HSET", k, f, g.text()).with(g.maybe(g.member(), g.text())...).with(g.maybe(g.maybe(g.maybe("odd")...)...)...)
}

func (g *twins) listOp() twin {
	k := g.ofType("l")
	switch g.IntN(12) {
	case 0:
		return plain("LLEN", k)
	case 1:
		return plain("LINDEX", k, g.pick(g.index(), g.index(), "x"))
	case 2:
		return plain("LRANGE", k, g.index(), g.pick(g.index(), g.index(), "x"))
	case 3:
		return plain("LTRIM", k, g.index(), g.pick(g.index(), g.index(), "x"))
	case 4, 5:
		return plain(g.pick("LPOP", "RPOP"), k).with(g.maybe(g.pick("0", "1", "2", "-1", "x", "9223372036854775807"))...)
	case 6:
		return plain(g.pick("LPUSHX", "RPUSHX"), k, g.text(), g.text())
	}
	return plain(g.pick("LPUSH", "RPUSH"), k, g.text()).with(g.maybe(g.text(), g.text())...)
}

// anyOrder renders an array in an order of its own.
func anyOrder(v resp.Value, _ int64) string {
	out := []string{}
	for _, e := range v.Elems {
		out = append(out, line(e))
	}
	slices.Sort(out)
	if v.Elems == nil {
		return line(v)
	}
	return strings.Join(out, " ")
}

// elements scans a collection, with a COUNT for which Redis returns all in one call.
func (g *twins) elements(name, k string) twin {
	w := plain(name, k, g.pick("0", "0", "0", "x")).with("COUNT", "100000")
	w = w.with(g.maybe("MATCH", g.pick("*", "?", "m*", "[^m-o]", "*l*", g.member()))...)
	w = w.with(g.maybe(g.maybe(g.maybe(g.pick("odd", "COUNT", "TYPE"), g.pick("0", "x"))...)...)...)
	w.render = func(v resp.Value, _ int64) string {
		if len(v.Elems) != 2 {
			return line(v)
		}
		seen := map[string]bool{} // Redis may return one twice
		for _, e := range v.Elems[1].Elems {
			if e.Text == "-0" {
				e.Text = "0" // Redis keeps the sign where members are long
			}
			seen[line(e)] = true
		}
		return line(v.Elems[0]) + " " + strings.Join(slices.Sorted(maps.Keys(seen)), " ")
	}
	return w
}

func (g *twins) setOp() twin {
	k := g.ofType("s")
	switch g.IntN(9) {
	case 8:
		return g.elements("SSCAN", k)
	case 0:
		return plain("SREM", k, g.member(), g.text())
	case 1:
		return plain("SISMEMBER", k, g.member())
	case 2:
		return plain("SMISMEMBER", k, g.member(), g.member())
	case 3:
		return plain("SCARD", k)
	case 4:
		w := plain("SMEMBERS", k)
		w.render = anyOrder
		return w
	}
	return plain("SADD", k, g.member(), g.pick(g.text(), g.member()))
}
