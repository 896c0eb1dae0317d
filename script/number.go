package script

import (
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// AppendNumber appends a number as C does with %.<precision>g. Lua prints 14 digits, and Redis 17 in the arguments of a
// command.
func AppendNumber(b []byte, n float64, precision int) []byte {
	switch {
	case math.IsInf(n, 1):
		return append(b, "inf"...)
	case math.IsInf(n, -1):
		return append(b, "-inf"...)
	case math.IsNaN(n):
		return append(b, "nan"...)
	}
	if i := int64(n); float64(i) == n && i > -1e14 && i < 1e14 && (i != 0 || !math.Signbit(n)) {
		return strconv.AppendInt(b, i, 10)
	}
	return strconv.AppendFloat(b, n, 'g', precision, 64)
}

// text returns a value that has a text, a string or a number, as Lua prints it.
func text(v lua.LValue) (string, bool) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), true
	case lua.LNumber:
		return string(AppendNumber(nil, float64(v), 14)), true
	}
	return "", false
}

// truncate returns a number as the integer that Redis replies.
func truncate(n lua.LNumber) int64 {
	switch f := float64(n); {
	case math.IsNaN(f), f >= math.MaxInt64, f <= math.MinInt64:
		return math.MinInt64 // as a conversion on amd64 does
	default:
		return int64(f)
	}
}

// maxNumber is the most bytes of a text that is read as a number: the reader cannot be interrupted.
const maxNumber = 64 << 10

// parseNumber reads a number as Lua 5.1 does: decimal or hexadecimal, with white space around it. The library's own reader
// takes 010 for 8.
func parseNumber(s string) (lua.LNumber, bool) {
	if len(s) > maxNumber {
		return 0, false
	}
	s = strings.Trim(s, " \t\n\v\f\r")
	digits, negative := strings.TrimPrefix(s, "+"), false
	if strings.HasPrefix(s, "-") {
		digits, negative = s[1:], true
	}
	var n float64
	switch {
	case digits == "" || digits[0] == '+' || digits[0] == '-' || strings.Contains(digits, "_"):
		return 0, false
	case len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x' && !strings.ContainsAny(digits, ".pP"):
		for _, c := range []byte(digits[2:]) {
			d, err := strconv.ParseUint(string(c), 16, 8)
			if err != nil {
				return 0, false
			}
			n = n*16 + float64(d)
		}
	default:
		f, err := strconv.ParseFloat(digits, 64)
		if err != nil && !math.IsInf(f, 0) {
			return 0, false
		}
		n = f
	}
	if negative {
		n = -n
	}
	return lua.LNumber(n), true
}

// toNumber returns a value as a number, if it is one or a string that reads as one.
func toNumber(v lua.LValue) (lua.LNumber, bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return v, true
	case lua.LString:
		return parseNumber(string(v))
	}
	return 0, false
}

// toNumberIn is tonumber, which reads a text in a base.
func toNumberIn(L *lua.LState) int {
	v := L.CheckAny(1)
	base := L.OptInt(2, 10)
	if base == 10 {
		if n, ok := toNumber(v); ok {
			L.Push(n)
		} else {
			L.Push(lua.LNil)
		}
		return 1
	}
	if base < 2 || base > 36 {
		L.ArgError(2, "base out of range")
	}
	s := str(L, 1)
	if len(s) > maxNumber {
		L.Push(lua.LNil)
		return 1
	}
	s = strings.ToLower(strings.Trim(s, " \t\n\v\f\r"))
	negative := strings.HasPrefix(s, "-")
	s = strings.TrimLeft(s, "+-")
	if base == 16 {
		s = strings.TrimPrefix(s, "0x")
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil && n != math.MaxUint64 {
		L.Push(lua.LNil)
		return 1
	}
	f := lua.LNumber(n)
	if negative {
		f = -f
	}
	L.Push(f)
	return 1
}

// arithmetic returns the functions of a string's metatable, which read the string as Lua does.
func arithmetic() map[string]lua.LGFunction {
	functions := map[string]lua.LGFunction{}
	for name, f := range map[string]func(a, b float64) float64{
		"__add": func(a, b float64) float64 { return a + b },
		"__sub": func(a, b float64) float64 { return a - b },
		"__mul": func(a, b float64) float64 { return a * b },
		"__div": func(a, b float64) float64 { return a / b },
		"__mod": func(a, b float64) float64 { return a - math.Floor(a/b)*b },
		"__pow": math.Pow,
		"__unm": func(a, _ float64) float64 { return -a },
	} {
		functions[name] = func(L *lua.LState) int {
			a, ok := toNumber(L.Get(1))
			b, also := toNumber(L.Get(2))
			if !ok || !also && name != "__unm" {
				bad := L.Get(1)
				if _, number := bad.(lua.LNumber); number || ok {
					bad = L.Get(2)
				}
				L.RaiseError("attempt to perform arithmetic on a %s value", bad.Type())
			}
			L.Push(lua.LNumber(f(float64(a), float64(b))))
			return 1
		}
	}
	return functions
}

// numeric makes a function whose arguments are numbers, from one on, read strings as Lua does.
func numeric(from int, f lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		for i := from; i <= L.GetTop(); i++ {
			if s, ok := L.Get(i).(lua.LString); ok {
				if n, ok := parseNumber(string(s)); ok {
					L.Replace(i, n)
				}
			}
		}
		return f(L)
	}
}
