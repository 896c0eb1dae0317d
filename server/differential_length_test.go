package server

import (
	"slices"
	"strconv"
	"strings"
)

// Values of the lengths at which this server changes how it keeps or records them, for the differential test.

// longest is the longest text that is drawn. What a few of them are appended to is still shorter than a string may be.
const longest = 9000

// ofNumbers is the kind of value that is a list of numbers, which has a form of its own from a length on.
const ofNumbers = 8

// length returns a length, mostly about a constant of the code.
func (g *twins) length() int { return g.lengths.Draw(g.IntN, longest) }

// long returns a text of such a length.
func (g *twins) long() string { return strings.Repeat(g.pick("x", "y", "7"), g.length()) }

// parts returns some texts that have about n bytes together.
func (g *twins) parts(n int) (all []string) {
	for n >= 0 {
		part := min(n, g.pickInt(1, 5, 60, 300, n, n))
		all = append(all, strings.Repeat(g.pick("x", "y"), part)+strconv.Itoa(len(all)))
		if n -= len(all[len(all)-1]) + 1; len(all) == 100 {
			break
		}
	}
	return all
}

// numbers returns numbers, as scripts pass them to commands, that have about n bytes together.
func (g *twins) numbers(n int) (all []string) {
	for n >= 0 {
		at := float64(g.now)
		switch g.IntN(8) {
		case 0:
			at = float64(g.IntN(3))
		default:
			at += float64(g.IntN(1<<20)) / 1024
		}
		all = append(all, strconv.FormatFloat(at, 'g', 17, 64))
		n -= len(all[len(all)-1]) + 1
	}
	return all[:min(len(all), 1000)]
}

func (g *twins) pickInt(of ...int) int { return of[g.IntN(len(of))] }

// growing makes a value of such a length, often with an expiry, and changes it some times: it grows and shrinks, and
// gets another expiry or none. Sometimes all this is one transaction.
func (g *twins) growing() (all []twin) {
	kind := g.IntN(9)
	k, n := g.key(), g.length()
	switch {
	case kind == ofNumbers:
		k = g.ofType("l")
		n = max(n, g.IntN(longest))
	case kind < 4:
		k = g.ofType(g.pick("z", "h", "l", "s"))
	}
	all = append(all, plain("DEL", k), g.whole(kind, k, n))
	if g.IntN(3) > 0 {
		all = append(all, plain("EXPIRE", k, strconv.FormatInt(g.ttl()+twinPeriod, 10)))
	}
	for range 1 + g.IntN(5) {
		w := g.changed(kind, k, n)
		if g.IntN(8) == 0 {
			w = w.scripted()
		}
		all = append(all, w)
	}
	if g.IntN(8) == 0 {
		all = append(slices.Insert(all, 1+g.IntN(len(all)), plain("MULTI")), plain("EXEC"))
	}
	return all
}

// whole is a command that makes a value of about n bytes.
func (g *twins) whole(kind int, k string, n int) twin {
	var w twin
	switch kind {
	case 0:
		w = plain("ZADD", k)
		for i, part := range g.parts(n) {
			w = w.with(strconv.Itoa(i%7), part)
		}
	case 1:
		w = plain("HSET", k)
		for i, part := range g.parts(n) {
			w = w.with("f"+strconv.Itoa(i), part)
		}
	case 2:
		w = plain(g.pick("RPUSH", "LPUSH"), k).with(g.parts(n)...)
	case 3:
		w = plain("SADD", k).with(g.parts(n)...)
	case ofNumbers:
		w = plain(g.pick("RPUSH", "LPUSH"), k).with(g.numbers(n)...)
	default:
		w = plain("SET", k, strings.Repeat("x", n))
		if g.IntN(2) == 0 {
			w = w.with("EX", strconv.FormatInt(g.ttl()+twinPeriod, 10))
		}
	}
	return w
}

// changed is a command that changes such a value a little, or by much.
func (g *twins) changed(kind int, k string, n int) twin {
	switch g.IntN(10) {
	case 0:
		return plain("PERSIST", k)
	case 1:
		return plain("PEXPIRE", k, strconv.FormatInt((g.ttl()+twinPeriod)*1000, 10))
	case 2:
		return plain("COPY", k, g.key()).with(g.maybe("REPLACE")...)
	}
	more := strings.Repeat("b", g.IntN(g.pickInt(4, 20, 60)))
	if g.IntN(6) == 0 {
		more = g.long()
	}
	first := strconv.Itoa(g.IntN(3))
	switch kind {
	case 0:
		switch g.IntN(3) {
		case 0:
			return plain("ZREMRANGEBYRANK", k, first, first)
		case 1:
			return plain("ZINCRBY", k, "1", more)
		}
		return plain("ZADD", k, first, more)
	case 1:
		switch g.IntN(3) {
		case 0:
			return plain("HDEL", k, "f"+first)
		case 1:
			return plain("HINCRBY", k, g.pick("n", "f1"), "1")
		}
		return plain("HSET", k, "f"+first, more)
	case 2:
		switch g.IntN(4) {
		case 0:
			return plain(g.pick("LPOP", "RPOP"), k)
		case 1:
			return plain("LTRIM", k, first, g.pick("-1", "-2", "5"))
		}
		return plain(g.pick("LPUSH", "RPUSH"), k, more)
	case 3:
		if g.IntN(2) == 0 {
			return plain("SREM", k, more)
		}
		return plain("SADD", k, more)
	case ofNumbers:
		return g.changedNumbers(k, n)
	}
	switch g.IntN(6) {
	case 0:
		return plain("SETRANGE", k, strconv.Itoa(max(0, n+g.IntN(40)-20)), more)
	case 1:
		return plain("SET", k, strings.Repeat("y", g.length()), "KEEPTTL")
	case 2:
		return plain("GETEX", k, "EX", strconv.FormatInt(g.ttl()+twinPeriod, 10))
	case 3:
		return plain("INCR", k)
	}
	return plain("APPEND", k, more)
}

// changedNumbers is a command that changes a list of numbers at its ends. Now and then an element is no number.
func (g *twins) changedNumbers(k string, n int) twin {
	some := strconv.Itoa(g.IntN(g.pickInt(4, 100, 1000)))
	switch g.IntN(8) {
	case 0:
		return plain(g.pick("LPOP", "RPOP"), k, some)
	case 1:
		return plain("LTRIM", k, some, "-1")
	case 2:
		return plain("LTRIM", k, "0", "-"+some)
	case 3:
		return plain("LRANGE", k, some, g.pick("-1", "-100"))
	}
	w := plain(g.pick("LPUSH", "RPUSH"), k).with(g.numbers(g.IntN(g.pickInt(1, 40, 3000)))...)
	if g.IntN(12) == 0 {
		w = w.with(g.pick("x", "1e3", "007", "1.50"))
	}
	return w
}
