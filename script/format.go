package script

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// strFormat is string.format, with the directives of C that Lua 5.1 has.
func (lib stringLibrary) strFormat(L *lua.LState) int {
	f := str(L, 1)
	var out []byte
	arg := 1
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			out = append(lib.grow(L, out, 1), f[i])
			continue
		}
		if i++; i < len(f) && f[i] == '%' {
			out = append(lib.grow(L, out, 1), '%')
			continue
		}
		start := i
		for i < len(f) && strings.IndexByte("-+ #0", f[i]) >= 0 {
			i++
		}
		digits := i
		for i < len(f) && (isDigit(f[i]) || f[i] == '.') {
			i++
		}
		if i >= len(f) {
			L.RaiseError("invalid option '%%' to 'format'")
		}
		if i-digits > 5 || digits-start > 5 {
			L.RaiseError("invalid format (width or precision too long)")
		}
		arg++
		lib.work(L, 1)
		out = lib.formatOne(L, out, f[start:i], f[i], arg)
	}
	return lib.push(L, string(out))
}

// maxFormatted is more than the bytes that a number takes, with a width and precision of 99, and maxFloat if all of its up
// to 309 digits are wanted.
const (
	maxFormatted = 128
	maxFloat     = 512
)

// formatOne appends one argument. spec is what stands between % and the verb: flags, width and precision.
func (lib stringLibrary) formatOne(L *lua.LState, out []byte, spec string, verb byte, arg int) []byte {
	width, precision, hasPrecision := strings.Cut(strings.TrimLeft(spec, "-+ #0"), ".")
	if len(width) > 2 || len(precision) > 2 {
		L.RaiseError("invalid format (width or precision too long)")
	}
	if verb == 'f' {
		out = lib.grow(L, out, maxFloat)
	}
	out = lib.grow(L, out, maxFormatted)
	switch verb {
	case 'c':
		return fmt.Appendf(out, "%"+spec+"s", string([]byte{byte(L.CheckInt(arg))}))
	case 'd', 'i':
		return fmt.Appendf(out, "%"+spec+"d", int64(L.CheckNumber(arg)))
	case 'u':
		return fmt.Appendf(out, "%"+spec+"d", uint64(int64(L.CheckNumber(arg))))
	case 'o', 'x', 'X':
		return fmt.Appendf(out, "%"+spec+string(verb), uint64(int64(L.CheckNumber(arg))))
	case 'e', 'E', 'f', 'g', 'G':
		n := float64(L.CheckNumber(arg))
		if !hasPrecision && verb|0x20 == 'g' {
			spec += ".6"
		}
		if math.IsInf(n, 0) || math.IsNaN(n) {
			flags := strings.TrimLeft(spec, "+ #0")
			w, _, _ := strings.Cut(flags, ".")
			return fmt.Appendf(out, "%"+w+"s", AppendNumber(nil, n, 6))
		}
		return fmt.Appendf(out, "%"+spec+string(verb), n)
	case 'q':
		s := str(L, arg)
		lib.work(L, len(s)/16)
		return appendQuoted(lib.grow(L, out, 4*len(s)+2), s)
	case 's':
		s := str(L, arg)
		if hasPrecision {
			n, _ := strconv.Atoi(precision)
			s = s[:min(n, len(s))]
		}
		w, _, _ := strings.Cut(strings.TrimLeft(spec, "+ #0"), ".")
		return appendPadded(lib.grow(L, out, max(len(s), 99)), s, w)
	}
	L.RaiseError("invalid option '%%%c' to 'format'", verb)
	return out
}

// appendPadded appends s in a width, which counts bytes; a negative one pads at the end.
func appendPadded(out []byte, s, width string) []byte {
	n, _ := strconv.Atoi(width)
	pad := strings.Repeat(" ", max(max(n, -n)-len(s), 0))
	if n < 0 {
		return append(append(out, s...), pad...)
	}
	return append(append(out, pad...), s...)
}

// appendQuoted appends a string as Lua reads it back.
func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			out = append(out, '\\', c)
		case '\r':
			out = append(out, `\r`...)
		case 0:
			out = append(out, `\000`...)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
