// Package scripttest makes hostile scripts for tests.
package scripttest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Hostile makes scripts that try to take memory and time, and to change what other scripts see.
type Hostile struct {
	r     *rand.Rand
	depth int
	names int
}

// NewHostile returns a generator whose scripts follow from the seed.
func NewHostile(seed uint64) *Hostile { return &Hostile{r: rand.New(rand.NewPCG(seed, 20))} }

// Script returns the next script.
func (h *Hostile) Script() string {
	h.depth, h.names = 0, 0
	var b strings.Builder
	fmt.Fprintf(&b, "local T, U, S, N = {}, {}, ('x'):rep(%d), %s\n", h.size(), h.number())
	fmt.Fprintf(&b, "local M = {redis, string, table, math, cjson, cmsgpack, struct, bit, _G, KEYS, ARGV}\n")
	for range 1 + h.r.IntN(6) {
		b.WriteString(h.statement())
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "return %s", h.expression())
	return b.String()
}

// pick returns one of some words.
func (h *Hostile) pick(words ...string) string { return words[h.r.IntN(len(words))] }

// size returns a length: most are short, some very long.
func (h *Hostile) size() int { return h.r.IntN(1 << (4 + h.r.IntN(21))) }

func (h *Hostile) number() string {
	return h.pick("0", "-1", "1", "2", "7", "0.5", "1e9", "67108863", "67108864", "2^31", "2^53", "-2^63", "1e308", "0/0", "1/0", "N", "#T", "#S",
		strconv.Itoa(h.size()))
}

func (h *Hostile) text() string {
	return h.pick("S", "S .. S", "'x'", "''", "'call'", "'rep'", "'__index'", "'0x10'", "'%d*'", "'.-.-.-b'", "'(x*)*$'", "'[^a-z]'", "'%b()'", "'\\0\\1\\255'",
		"tostring(T)", "('x'):rep("+strconv.Itoa(h.size())+")", "'k' .. #T", "'{\"a\":[1,{\"b\":null}]}'", "('[1,'):rep("+strconv.Itoa(h.r.IntN(3000))+")", "KEYS[1]")
}

func (h *Hostile) module() string { return "M[" + strconv.Itoa(1+h.r.IntN(11)) + "]" }

func (h *Hostile) table() string {
	return h.pick("T", "U", h.module(), "{}", "{"+h.expression()+", "+h.expression()+"}", "{a = "+h.expression()+", ["+h.expression()+"] = 1}",
		"{unpack(T)}", "{map = T}", "{err = "+h.text()+"}", "{ok = "+h.text()+"}",
		"setmetatable("+h.pick("{}", "T", "U")+", {"+h.event()+" = "+h.pick("T", h.module(), h.function())+"})")
}

func (h *Hostile) event() string {
	return h.pick("__index", "__newindex", "__call", "__add", "__concat", "__lt", "__eq", "__len", "__tostring", "__unm", "__metatable", "__gc", "__mode")
}

func (h *Hostile) function() string {
	if h.depth > 2 {
		return h.pick("error", "pcall", "rawset", "tostring", "redis.call", "next", "unpack", "setmetatable", "loadstring", "math.randomseed")
	}
	h.depth++
	defer func() { h.depth-- }()
	return "function(" + h.pick("", "a", "a, b", "...") + ") " + h.statement() + " " + h.pick("", "return "+h.expression(), "return T", "error("+h.expression()+")") + " end"
}

// functions are all functions of the libraries that a script may call.
func (h *Hostile) libraryFunction() string {
	return h.pick("rawset", "rawget", "rawequal", "setmetatable", "getmetatable", "next", "pairs", "ipairs", "select", "unpack", "tostring", "tonumber", "type",
		"error", "assert", "loadstring", "load", "pcall", "xpcall", "collectgarbage",
		"table.insert", "table.remove", "table.concat", "table.sort", "table.maxn", "table.getn",
		"string.rep", "string.gsub", "string.find", "string.match", "string.gmatch", "string.format", "string.byte", "string.char", "string.sub", "string.upper", "string.reverse", "string.len",
		"math.random", "math.randomseed", "math.floor", "math.fmod", "math.max", "math.pow",
		"cjson.encode", "cjson.decode", "cmsgpack.pack", "cmsgpack.unpack", "struct.pack", "struct.unpack", "struct.size", "bit.tohex", "bit.band", "bit.lshift",
		"redis.call", "redis.pcall", "redis.error_reply", "redis.status_reply", "redis.sha1hex", "redis.setresp", "redis.log",
		"setfenv", "getfenv", "module", "require", "newproxy", "coroutine.wrap", "debug.setmetatable", "os.exit", "io.open", "dofile")
}

func (h *Hostile) command() string {
	return h.pick("'PING'", "'SET', 'k', "+h.text(), "'APPEND', 'k', S", "'GET', 'k'", "'MGET', unpack(T)", "'MGET', 'k', 'k', 'k', 'k'", "'HSET', 'h', #T, S", "'HGETALL', 'h'", "'LPUSH', 'l', S", "'LRANGE', 'l', 0, -1",
		"'ZADD', 'z', #T, S", "'KEYS', '*'", "'DEL', 'k', 'l', 'h', 'z'", "'SCAN', 0", h.expression(), h.text()+", "+h.text(), "'RL.TAKE', 'r', 'GCRA', '5/m'", "'ECHO', S", "'PUBLISH', 'c', S", "'SCRIPT', 'KILL'", "'EVAL', 'return 1', 0")
}

func (h *Hostile) expression() string {
	if h.depth > 3 {
		return h.pick(h.number(), h.text(), "T", "nil", "true")
	}
	h.depth++
	defer func() { h.depth-- }()
	switch h.r.IntN(11) {
	case 0:
		return h.number()
	case 1, 2:
		return h.text()
	case 3:
		return h.table()
	case 4:
		return h.function()
	case 5, 6:
		args := make([]string, h.r.IntN(4))
		for i := range args {
			args[i] = h.expression()
		}
		return h.libraryFunction() + "(" + strings.Join(args, ", ") + ")"
	case 7:
		return "(" + h.expression() + ")" + h.pick(" .. ", " + ", " ^ ", " < ", " == ", " % ", " and ", " or ") + "(" + h.expression() + ")"
	case 8:
		return "(" + h.table() + ")[" + h.expression() + "]"
	case 9:
		return h.pick("#", "-", "not ") + "(" + h.expression() + ")"
	}
	return "redis." + h.pick("call", "pcall") + "(" + h.command() + ")"
}

// name returns a new name of a local variable.
func (h *Hostile) name() string {
	h.names++
	return "v" + strconv.Itoa(h.names)
}

func (h *Hostile) statement() string {
	if h.depth > 3 {
		return h.pick("T[#T + 1] = S", "T[#T + 1] = {}", "error(S)", "T = {T}", "U[#S] = T", "redis.call('PING')")
	}
	h.depth++
	defer func() { h.depth-- }()
	e := h.expression
	switch h.r.IntN(18) {
	case 0: // what other scripts see
		return h.pick(h.module()+"."+h.pick("call", "rep", "stash", "floor", "insert")+" = "+e(), h.module()+"["+e()+"] = "+e(),
			"rawset("+h.module()+", "+h.text()+", "+e()+")", "setmetatable("+h.module()+", "+h.table()+")", "x"+h.name()+" = "+e(),
			"function redis.call() return 0 end", "getmetatable('').__index = "+e(), "for k in pairs("+h.module()+") do "+h.module()+"[k] = nil end",
			"table.insert("+h.module()+", "+e()+")", "table.remove("+h.module()+")", "table.sort("+h.module()+", "+h.function()+")")
	case 1:
		chain := h.module()
		for range 1 + h.r.IntN(4) {
			chain = "setmetatable({}, {" + h.pick("__newindex", "__index") + " = " + chain + "})"
		}
		return "do local c = " + chain + " c." + h.pick("call", "stash", "rep") + " = " + e() + " c[" + e() + "] = S end"
	case 2, 3:
		return "T[" + h.pick("#T + 1", e()) + "] = " + e()
	case 4:
		return "pcall(function() " + h.statement() + " " + h.statement() + " end)"
	case 5:
		return "xpcall(" + h.function() + ", " + h.function() + ")"
	case 6:
		f := h.name()
		return "local function " + f + "(...) " + h.statement() + " " + h.pick("return ", "pcall("+f+") ", "xpcall("+f+", "+f+") ", "local x = ") + f + "(" + h.pick("...", "1, ...", "T", "") + ") end pcall(" + f + ", " + e() + ")"
	case 7:
		return "for i = 1, " + h.pick("10", "1000", "1e9", h.number()) + " do " + h.statement() + " end"
	case 8:
		return "while true do " + h.statement() + " end"
	case 9:
		return "for k, v in " + h.pick("pairs", "ipairs") + "(" + h.table() + ") do " + h.statement() + " end"
	case 10:
		return "table.sort(T, " + h.function() + ")"
	case 11:
		return "do local a, b, c = " + e() + " T[#T + 1] = function() return a, b, c, T end end"
	case 12:
		return "S = S .. " + h.text()
	case 13:
		return "do local f = loadstring(" + strconv.Quote(h.statement()) + ") if f then " + h.pick("f()", "pcall(f)", "T[#T + 1] = f") + " end end"
	case 14:
		return "T, U = U, " + h.table()
	case 15:
		return "loadstring(" + h.pick("'return '", "''", "'local a = 1 '") + " .. (" + h.pick("'2^'", "'('", "'{'", "'not '", "'f('", "'a=1 '", "'a=function()end '", "'\"a\"..'", "'x[1]='") + "):rep(" + strconv.Itoa(h.r.IntN(130_000)) + "))"
	case 16:
		return "redis." + h.pick("call", "pcall") + "(" + h.command() + ")"
	}
	return "local _ = (" + e() + ")"
}
