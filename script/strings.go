package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// stringFunctions returns the functions of Lua's string library, which count their steps and bytes.
func (vm *VM) stringFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"byte": numeric(2, vm.strByte), "char": numeric(1, vm.strChar), "find": numeric(3, vm.strFind), "format": vm.strFormat,
		"gmatch": vm.strGmatch, "gsub": vm.strGsub, "len": vm.strLen, "lower": vm.strMap(strings.ToLower),
		"match": numeric(3, vm.strMatch), "rep": numeric(2, vm.strRep), "reverse": vm.strReverse, "sub": numeric(2, vm.strSub),
		"upper": vm.strMap(strings.ToUpper),
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

func (vm *VM) strLen(L *lua.LState) int {
	L.Push(lua.LNumber(len(str(L, 1))))
	return 1
}

func (vm *VM) strByte(L *lua.LState) int {
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

func (vm *VM) strChar(L *lua.LState) int {
	b := make([]byte, L.GetTop())
	for i := range b {
		c := L.CheckInt(i + 1)
		if c < 0 || c > 255 {
			L.ArgError(i+1, "invalid value")
		}
		b[i] = byte(c)
	}
	return vm.push(L, string(b))
}

func (vm *VM) strSub(L *lua.LState) int {
	s := str(L, 1)
	from := max(position(L.CheckInt(2), len(s)), 1)
	to := min(position(L.OptInt(3, -1), len(s)), len(s))
	if from > to {
		return vm.push(L, "")
	}
	return vm.push(L, s[from-1:to])
}

// strMap is lower or upper. Lua's are of ASCII alone.
func (vm *VM) strMap(f func(string) string) lua.LGFunction {
	upper := f("a") == "A"
	return func(L *lua.LState) int {
		s := str(L, 1)
		vm.charge(L, len(s))
		b := []byte(s)
		for i, c := range b {
			if upper && 'a' <= c && c <= 'z' || !upper && 'A' <= c && c <= 'Z' {
				b[i] = c ^ 0x20
			}
		}
		return vm.push(L, string(b))
	}
}

func (vm *VM) strReverse(L *lua.LState) int {
	s := str(L, 1)
	vm.charge(L, len(s))
	b := make([]byte, len(s))
	for i := range b {
		b[i] = s[len(s)-1-i]
	}
	return vm.push(L, string(b))
}

func (vm *VM) strRep(L *lua.LState) int {
	s, n := str(L, 1), L.CheckInt64(2)
	if n <= 0 || s == "" {
		return vm.push(L, "")
	}
	if n > int64(1<<31)/int64(len(s)) {
		vm.charge(L, 1<<40)
	}
	vm.chargeText(L, len(s)*int(n))
	L.Push(lua.LString(strings.Repeat(s, int(n))))
	return 1
}

// matcher returns a matcher of a pattern. It raises errors itself: one that had to be caught and raised again at each of
// hundreds of levels, where the function of a gsub calls gsub, would take a second.
func (vm *VM) matcher(L *lua.LState, subject, pattern string) *matcher {
	return &matcher{
		subject: subject, pattern: pattern,
		step: func(n int) { vm.work(L, n) }, fail: func(err error) { L.RaiseError("%s", err.Error()) },
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
func (vm *VM) pushCapture(L *lua.LState, m *matcher, i, start, end int) {
	if i >= m.level {
		if i != 0 {
			m.fail(errCaptureIndex)
		}
		vm.push(L, m.subject[start:end])
		return
	}
	switch c := m.captures[i]; c.length {
	case captureOpen:
		m.fail(errCaptureOpen)
	case capturePosition:
		L.Push(lua.LNumber(c.start + 1))
	default:
		vm.push(L, m.subject[c.start:c.start+c.length])
	}
}

// pushCaptures pushes all captures. If there are none and whole is set, it pushes the match.
func (vm *VM) pushCaptures(L *lua.LState, m *matcher, start, end int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		vm.pushCapture(L, m, i, start, end)
	}
	return n
}

func (vm *VM) strFind(L *lua.LState) int  { return vm.find(L, true) }
func (vm *VM) strMatch(L *lua.LState) int { return vm.find(L, false) }

func (vm *VM) find(L *lua.LState, find bool) int {
	s, p := str(L, 1), str(L, 2)
	from := max(position(L.OptInt(3, 1), len(s)), 1) - 1
	from = min(from, len(s))
	if find && (L.ToBool(4) || !strings.ContainsAny(p, "^$*+?.([%-")) {
		vm.work(L, (len(s)-from)/64)
		i := strings.Index(s[from:], p)
		if i < 0 {
			L.Push(lua.LNil)
			return 1
		}
		L.Push(lua.LNumber(from + i + 1))
		L.Push(lua.LNumber(from + i + len(p)))
		return 2
	}
	m := vm.matcher(L, s, p)
	start, end := m.search(from)
	if start < 0 {
		L.Push(lua.LNil)
		return 1
	}
	if !find {
		return vm.pushCaptures(L, m, start, end, true)
	}
	L.Push(lua.LNumber(start + 1))
	L.Push(lua.LNumber(end))
	return 2 + vm.pushCaptures(L, m, start, end, false)
}

func (vm *VM) strGmatch(L *lua.LState) int {
	s, p := str(L, 1), str(L, 2)
	from := 0
	vm.charge(L, closureSize)
	L.Push(L.NewFunction(func(L *lua.LState) int {
		m := vm.matcher(L, s, p)
		for at := from; at <= len(s); at++ {
			m.level, m.depth = 0, 0
			m.step(1)
			if e := m.match(at, 0); e >= 0 {
				if from = e; e == at {
					from++
				}
				return vm.pushCaptures(L, m, at, e, true)
			}
		}
		from = len(s) + 1
		L.Push(lua.LNil)
		return 1
	}))
	return 1
}

func (vm *VM) strGsub(L *lua.LState) int {
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
	m := vm.matcher(L, s, p)
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
			out = vm.replace(L, m, out, replacement, at, e)
		}
		switch {
		case e > at:
			at = e
		case at < len(s):
			out = append(vm.grow(L, out, 1), s[at])
			at++
		default:
			at++
		}
		if at > len(s) || anchored {
			break
		}
	}
	if at < len(s) {
		out = vm.append(L, out, s[at:])
	}
	vm.push(L, string(out))
	L.Push(lua.LNumber(count))
	return 2
}

// replace appends the replacement of a match.
func (vm *VM) replace(L *lua.LState, m *matcher, out []byte, by lua.LValue, start, end int) []byte {
	var v lua.LValue
	switch by := by.(type) {
	case *lua.LTable:
		vm.pushCapture(L, m, 0, start, end)
		v = L.GetTable(by, L.Get(-1))
		L.Pop(1)
	case *lua.LFunction:
		saved := *m
		L.Push(by)
		n := vm.pushCaptures(L, m, start, end, true)
		vm.calls(L, n, 1)
		*m = saved
		v = L.Get(-1)
		L.Pop(1)
	default:
		t, _ := text(by)
		return vm.expand(L, m, out, t, start, end)
	}
	if lua.LVIsFalse(v) {
		return vm.extend(L, out, m.subject[start:end])
	}
	t, ok := text(v)
	if !ok {
		L.RaiseError("invalid replacement value (a %s)", v.Type())
	}
	return vm.extend(L, out, t)
}

// extend appends a text and charges its bytes.
func (vm *VM) extend(L *lua.LState, out []byte, t string) []byte {
	return vm.append(L, out, t)
}

// expand appends a replacement with its %0 to %9.
func (vm *VM) expand(L *lua.LState, m *matcher, out []byte, t string, start, end int) []byte {
	for t != "" {
		i := strings.IndexByte(t, '%')
		if i < 0 {
			return vm.extend(L, out, t)
		}
		out = vm.extend(L, out, t[:i])
		if i+1 == len(t) {
			L.RaiseError("invalid use of '%%' in replacement string")
		}
		switch c := t[i+1]; {
		case !isDigit(c):
			out = vm.extend(L, out, t[i+1:i+2])
		case c == '0':
			out = vm.extend(L, out, m.subject[start:end])
		default:
			vm.pushCapture(L, m, int(c-'1'), start, end)
			s, _ := text(L.Get(-1))
			L.Pop(1)
			out = vm.extend(L, out, s)
		}
		t = t[i+2:]
	}
	return out
}
