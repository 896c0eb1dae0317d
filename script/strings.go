package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// stringLibrary is the functions that make strings. They need the meter alone.
type stringLibrary struct{ *meter }

// stringFunctions returns the functions of Lua's string library, which count their steps and bytes.
func (lib stringLibrary) stringFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"byte": numeric(2, strByte), "char": numeric(1, lib.strChar), "find": numeric(3, lib.strFind), "format": lib.strFormat,
		"gmatch": lib.strGmatch, "gsub": lib.strGsub, "len": strLen, "lower": lib.strMap(strings.ToLower),
		"match": numeric(3, lib.strMatch), "rep": numeric(2, lib.strRep), "reverse": lib.strReverse, "sub": numeric(2, lib.strSub),
		"upper": lib.strMap(strings.ToUpper),
	}
}

// str returns an argument that must be a string or a number.
func str(L *lua.LState, i int) string {
	s, ok := text(L.Get(i))
	if !ok {
		return L.CheckString(i) // raises Lua's own error
	}
	return s
}

// position turns a position that may be negative, counted from the end, into one from the start.
func position(i, length int) int {
	if i < 0 {
		return max(length+i+1, 0)
	}
	return i
}

func strLen(L *lua.LState) int {
	L.Push(lua.LNumber(len(str(L, 1))))
	return 1
}

func strByte(L *lua.LState) int {
	s := str(L, 1)
	from := position(L.OptInt(2, 1), len(s))
	to := min(position(L.OptInt(3, from), len(s)), len(s))
	from = max(from, 1)
	if to-from >= 8000 {
		L.RaiseError("string slice too long")
	}
	n := 0
	for i := from; i <= to; i++ {
		L.Push(lua.LNumber(s[i-1]))
		n++
	}
	return n
}

// concat is a .. b .. c.
func (lib stringLibrary) concat(L *lua.LState) int {
	n := L.GetTop()
	total, plain := 0, true
	for i := 1; i <= n; i++ {
		s, ok := text(L.Get(i))
		plain = plain && ok
		total += len(s)
	}
	if !plain {
		return lib.concatMeta(L, n)
	}
	lib.chargeText(L, total)
	var b strings.Builder
	b.Grow(total)
	for i := 1; i <= n; i++ {
		s, _ := text(L.Get(i))
		b.WriteString(s)
	}
	L.Push(lua.LString(b.String()))
	return 1
}

// concatMeta concatenates values of which some are neither strings nor numbers, from the right.
func (lib stringLibrary) concatMeta(L *lua.LState, n int) int {
	right := L.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := L.Get(i)
		l, ok := text(left)
		r, also := text(right)
		if ok && also {
			lib.chargeText(L, len(l)+len(r))
			right = lua.LString(l + r)
			continue
		}
		f := L.GetMetaField(left, "__concat")
		if f.Type() != lua.LTFunction {
			f = L.GetMetaField(right, "__concat")
		}
		if f.Type() != lua.LTFunction {
			bad := left
			if ok {
				bad = right
			}
			L.RaiseError("attempt to concatenate a %s value", bad.Type())
		}
		L.Push(f)
		L.Push(left)
		L.Push(right)
		lib.calls(L, 2, 1)
		right = L.Get(-1)
		L.Pop(1)
	}
	L.Push(right)
	return 1
}

func (lib stringLibrary) strChar(L *lua.LState) int {
	b := make([]byte, L.GetTop())
	for i := range b {
		c := L.CheckInt(i + 1)
		if c < 0 || c > 255 {
			L.ArgError(i+1, "invalid value")
		}
		b[i] = byte(c)
	}
	return lib.push(L, string(b))
}

func (lib stringLibrary) strSub(L *lua.LState) int {
	s := str(L, 1)
	from := max(position(L.CheckInt(2), len(s)), 1)
	to := min(position(L.OptInt(3, -1), len(s)), len(s))
	if from > to {
		return lib.push(L, "")
	}
	return lib.push(L, s[from-1:to])
}

// strMap is lower or upper. Lua's are of ASCII alone.
func (lib stringLibrary) strMap(f func(string) string) lua.LGFunction {
	upper := f("a") == "A"
	return func(L *lua.LState) int {
		s := str(L, 1)
		lib.charge(L, len(s))
		b := []byte(s)
		for i, c := range b {
			if upper && 'a' <= c && c <= 'z' || !upper && 'A' <= c && c <= 'Z' {
				b[i] = c ^ 0x20
			}
		}
		return lib.push(L, string(b))
	}
}

func (lib stringLibrary) strReverse(L *lua.LState) int {
	s := str(L, 1)
	lib.charge(L, len(s))
	b := make([]byte, len(s))
	for i := range b {
		b[i] = s[len(s)-1-i]
	}
	return lib.push(L, string(b))
}

func (lib stringLibrary) strRep(L *lua.LState) int {
	s, n := str(L, 1), L.CheckInt64(2)
	if n <= 0 || s == "" {
		return lib.push(L, "")
	}
	if n > int64(1<<31)/int64(len(s)) {
		lib.charge(L, 1<<40)
	}
	lib.chargeText(L, len(s)*int(n))
	L.Push(lua.LString(strings.Repeat(s, int(n))))
	return 1
}

// matcher returns a matcher of a pattern. It raises errors itself: one that had to be caught and raised again at each of
// hundreds of levels, where the function of a gsub calls gsub, would take a second.
func (lib stringLibrary) matcher(L *lua.LState, subject, pattern string) *matcher {
	return &matcher{
		subject: subject, pattern: pattern,
		step: func(n int) { lib.work(L, n) }, fail: func(err error) { L.RaiseError("%s", err.Error()) },
	}
}

// search finds the first match from a place on.
func (m *matcher) search(from int) (start, end int) {
	p := 0
	anchored := strings.HasPrefix(m.pattern, "^")
	if anchored {
		p = 1
	}
	for s := from; s <= len(m.subject); s++ {
		m.level, m.depth = 0, 0
		m.step(1)
		if e := m.match(s, p); e >= 0 {
			return s, e
		}
		if anchored {
			break
		}
	}
	return -1, -1
}

// pushCapture pushes a capture, or the whole match as number 0 of a pattern without captures.
func (lib stringLibrary) pushCapture(L *lua.LState, m *matcher, i, start, end int) {
	if i >= m.level {
		if i != 0 {
			m.fail(errCaptureIndex)
		}
		lib.push(L, m.subject[start:end])
		return
	}
	switch c := m.captures[i]; c.length {
	case captureOpen:
		m.fail(errCaptureOpen)
	case capturePosition:
		L.Push(lua.LNumber(c.start + 1))
	default:
		lib.push(L, m.subject[c.start:c.start+c.length])
	}
}

// pushCaptures pushes all captures. If there are none and whole is set, it pushes the match.
func (lib stringLibrary) pushCaptures(L *lua.LState, m *matcher, start, end int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		lib.pushCapture(L, m, i, start, end)
	}
	return n
}

func (lib stringLibrary) strFind(L *lua.LState) int  { return lib.find(L, true) }
func (lib stringLibrary) strMatch(L *lua.LState) int { return lib.find(L, false) }

func (lib stringLibrary) find(L *lua.LState, find bool) int {
	s, p := str(L, 1), str(L, 2)
	from := max(position(L.OptInt(3, 1), len(s)), 1) - 1
	from = min(from, len(s))
	if find && (L.ToBool(4) || !strings.ContainsAny(p, "^$*+?.([%-")) {
		lib.work(L, (len(s)-from)/64)
		i := strings.Index(s[from:], p)
		if i < 0 {
			L.Push(lua.LNil)
			return 1
		}
		L.Push(lua.LNumber(from + i + 1))
		L.Push(lua.LNumber(from + i + len(p)))
		return 2
	}
	m := lib.matcher(L, s, p)
	start, end := m.search(from)
	if start < 0 {
		L.Push(lua.LNil)
		return 1
	}
	if !find {
		return lib.pushCaptures(L, m, start, end, true)
	}
	L.Push(lua.LNumber(start + 1))
	L.Push(lua.LNumber(end))
	return 2 + lib.pushCaptures(L, m, start, end, false)
}

func (lib stringLibrary) strGmatch(L *lua.LState) int {
	s, p := str(L, 1), str(L, 2)
	from := 0
	lib.charge(L, closureSize)
	L.Push(L.NewFunction(func(L *lua.LState) int {
		m := lib.matcher(L, s, p)
		for at := from; at <= len(s); at++ {
			m.level, m.depth = 0, 0
			m.step(1)
			if e := m.match(at, 0); e >= 0 {
				if from = e; e == at {
					from++
				}
				return lib.pushCaptures(L, m, at, e, true)
			}
		}
		from = len(s) + 1
		L.Push(lua.LNil)
		return 1
	}))
	return 1
}

func (lib stringLibrary) strGsub(L *lua.LState) int {
	s, p := str(L, 1), str(L, 2)
	replacement := L.CheckAny(3)
	switch replacement.Type() {
	case lua.LTString, lua.LTNumber, lua.LTTable, lua.LTFunction:
	default:
		L.ArgError(3, "string/function/table expected")
	}
	most := L.OptInt(4, len(s)+1)
	var out []byte
	count := 0
	m := lib.matcher(L, s, p)
	at, begin := 0, 0
	anchored := strings.HasPrefix(p, "^")
	if anchored {
		begin = 1
	}
	for count < most {
		m.level, m.depth = 0, 0
		m.step(1)
		e := m.match(at, begin)
		if e >= 0 {
			count++
			out = lib.replace(L, m, out, replacement, at, e)
		}
		switch {
		case e > at:
			at = e
		case at < len(s):
			out = append(lib.grow(L, out, 1), s[at])
			at++
		default:
			at++
		}
		if at > len(s) || anchored {
			break
		}
	}
	if at < len(s) {
		out = lib.append(L, out, s[at:])
	}
	lib.push(L, string(out))
	L.Push(lua.LNumber(count))
	return 2
}

// replace appends the replacement of a match.
func (lib stringLibrary) replace(L *lua.LState, m *matcher, out []byte, by lua.LValue, start, end int) []byte {
	var v lua.LValue
	switch by := by.(type) {
	case *lua.LTable:
		lib.pushCapture(L, m, 0, start, end)
		v = L.GetTable(by, L.Get(-1))
		L.Pop(1)
	case *lua.LFunction:
		saved := *m
		L.Push(by)
		n := lib.pushCaptures(L, m, start, end, true)
		lib.calls(L, n, 1)
		*m = saved
		v = L.Get(-1)
		L.Pop(1)
	default:
		t, _ := text(by)
		return lib.expand(L, m, out, t, start, end)
	}
	if lua.LVIsFalse(v) {
		return lib.extend(L, out, m.subject[start:end])
	}
	t, ok := text(v)
	if !ok {
		L.RaiseError("invalid replacement value (a %s)", v.Type())
	}
	return lib.extend(L, out, t)
}

// extend appends a text and charges its bytes.
func (lib stringLibrary) extend(L *lua.LState, out []byte, t string) []byte {
	return lib.append(L, out, t)
}

// expand appends a replacement with its %0 to %9.
func (lib stringLibrary) expand(L *lua.LState, m *matcher, out []byte, t string, start, end int) []byte {
	for t != "" {
		i := strings.IndexByte(t, '%')
		if i < 0 {
			return lib.extend(L, out, t)
		}
		out = lib.extend(L, out, t[:i])
		if i+1 == len(t) {
			L.RaiseError("invalid use of '%%' in replacement string")
		}
		switch c := t[i+1]; {
		case !isDigit(c):
			out = lib.extend(L, out, t[i+1:i+2])
		case c == '0':
			out = lib.extend(L, out, m.subject[start:end])
		default:
			lib.pushCapture(L, m, int(c-'1'), start, end)
			s, _ := text(L.Get(-1))
			L.Pop(1)
			out = lib.extend(L, out, s)
		}
		t = t[i+2:]
	}
	return out
}
