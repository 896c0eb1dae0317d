package script

import (
	"bytes"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// pushValue pushes the first reply in b as Redis converts it for Lua, and returns what follows it.
func (r *run) pushValue(L *lua.LState, b []byte) (rest []byte) {
	v, rest := r.value(L, b)
	L.Push(v)
	return rest
}

// value converts the first reply in b: an integer to a number, a string to a string, null to false, an array to a table. A
// status is a table with the field ok, an error one with err, and the types that RESP3 adds are tables with a field that
// names the type.
func (r *run) value(L *lua.LState, b []byte) (v lua.LValue, rest []byte) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found || len(line) == 0 {
		L.RaiseError("limitdb: a command has not replied")
	}
	body := string(line[1:])
	switch line[0] {
	case '+':
		return r.tagged(L, "ok", lua.LString(body)), rest
	case '-':
		return r.tagged(L, "err", lua.LString(body)), rest
	case ':':
		n, _ := strconv.ParseInt(body, 10, 64)
		return lua.LNumber(n), rest
	case '$', '=', '!':
		n, _ := strconv.Atoi(body)
		if n < 0 {
			return lua.LFalse, rest
		}
		s := lua.LString(rest[:n])
		rest = rest[n+2:]
		switch line[0] {
		case '=':
			t := r.tagged(L, "format", s[:3])
			t.RawSetString("string", s[4:])
			return r.tagged(L, "verbatim_string", t), rest
		case '!':
			return r.tagged(L, "err", s), rest
		}
		return s, rest
	case '*', '~', '%', '>':
		return r.aggregate(L, line[0], body, rest)
	case '_':
		return lua.LNil, rest
	case '#':
		return lua.LBool(body == "t"), rest
	case ',':
		n, _ := strconv.ParseFloat(body, 64)
		return r.tagged(L, "double", lua.LNumber(n)), rest
	case '(':
		return r.tagged(L, "big_number", lua.LString(body)), rest
	}
	L.RaiseError("limitdb: a reply of an unknown type")
	return nil, nil
}

// aggregate converts the elements of an array, set or map.
func (r *run) aggregate(L *lua.LState, kind byte, count string, rest []byte) (lua.LValue, []byte) {
	n, _ := strconv.Atoi(count)
	if n < 0 {
		return lua.LFalse, rest
	}
	size := tableSize + firstElement + n*elementSize
	if kind == '~' || kind == '%' {
		size = tableSize + firstStrings + n*entrySize
	}
	r.charge(L, size)
	t := L.CreateTable(0, 0)
	for i := range n {
		var k, v lua.LValue
		k, rest = r.value(L, rest)
		switch kind {
		case '%':
			v, rest = r.value(L, rest)
			t.RawSet(k, v)
		case '~':
			t.RawSet(k, lua.LTrue)
		default:
			t.RawSetInt(i+1, k)
		}
	}
	switch kind {
	case '%':
		return r.tagged(L, "map", t), rest
	case '~':
		return r.tagged(L, "set", t), rest
	}
	return t, rest
}

// tagged returns a table with one field.
func (r *run) tagged(L *lua.LState, name string, v lua.LValue) *lua.LTable {
	r.charge(L, taggedSize)
	t := L.CreateTable(0, 1)
	t.RawSetString(name, v)
	return t
}

// maxReplyDepth is how deeply a script's reply may be nested.
const maxReplyDepth = 100

// appendReply appends what a script has returned as Redis does: a number as an integer, true as 1, false and nil as
// null, a table as an array up to its first nil, or as what its field ok, err, double, map, set, big_number or
// verbatim_string says. A table or string may occur in the reply many times. So the run pays for each time, and
// appendReply stops once the run has no memory left.
func (r *run) appendReply(b []byte, v lua.LValue, resp3 bool, depth int) []byte {
	if depth > maxReplyDepth {
		return appendError(b, "ERR reached lua stack limit")
	}
	if !r.spend(replySize) {
		return b
	}
	switch v := v.(type) {
	case lua.LString:
		return r.appendText(b, '$', string(v))
	case lua.LNumber:
		return append(strconv.AppendInt(append(b, ':'), truncate(v), 10), "\r\n"...)
	case lua.LBool:
		switch {
		case r.resp3 && resp3 && bool(v):
			return append(b, "#t\r\n"...)
		case r.resp3 && resp3:
			return append(b, "#f\r\n"...)
		case bool(v):
			return append(b, ":1\r\n"...)
		case r.resp3:
			return append(b, ":0\r\n"...)
		}
		return appendNull(b, resp3)
	case *lua.LTable:
		return r.appendTable(b, v, resp3, depth)
	}
	return appendNull(b, resp3)
}

func (r *run) appendTable(b []byte, t *lua.LTable, resp3 bool, depth int) []byte {
	if s, ok := t.RawGetString("err").(lua.LString); ok {
		return r.appendText(b, '-', strings.TrimPrefix(string(s), "-"))
	}
	if s, ok := t.RawGetString("ok").(lua.LString); ok {
		return r.appendText(b, '+', string(s))
	}
	if n, ok := t.RawGetString("double").(lua.LNumber); ok {
		return r.appendText(b, kindOf(',', resp3), string(AppendNumber(nil, float64(n), 17)))
	}
	if m, ok := t.RawGetString("map").(*lua.LTable); ok {
		n, body := r.appendEntries(m, resp3, depth, true)
		if resp3 {
			return append(appendHead(b, '%', n), body...)
		}
		return append(appendHead(b, '*', 2*n), body...)
	}
	if m, ok := t.RawGetString("set").(*lua.LTable); ok {
		n, body := r.appendEntries(m, resp3, depth, false)
		if resp3 {
			return append(appendHead(b, '~', n), body...)
		}
		return append(appendHead(b, '*', n), body...)
	}
	if s, ok := t.RawGetString("big_number").(lua.LString); ok {
		return r.appendText(b, kindOf('(', resp3), oneLine(string(s)))
	}
	if m, ok := t.RawGetString("verbatim_string").(*lua.LTable); ok {
		format, ok := m.RawGetString("format").(lua.LString)
		s, also := m.RawGetString("string").(lua.LString)
		switch {
		case !ok || !also:
		case resp3 && len(format) == 3:
			return r.appendText(b, '=', string(format+":"+s))
		default:
			return r.appendText(b, '$', string(s))
		}
	}
	n := 0
	for t.RawGet(lua.LNumber(n+1)) != lua.LNil {
		n++
	}
	b = appendHead(b, '*', n)
	for i := range n {
		b = r.appendReply(b, t.RawGet(lua.LNumber(i+1)), resp3, depth+1)
	}
	return b
}

// kindOf returns the kind of a reply that only RESP3 has. In RESP2 it is a string.
func kindOf(kind byte, resp3 bool) byte {
	if resp3 {
		return kind
	}
	return '$'
}

// appendText appends a text that the script has made: with its length, or on one line.
func (r *run) appendText(b []byte, kind byte, s string) []byte {
	switch {
	case !r.spend(len(s)):
		return b
	case kind == '$', kind == '=':
		return append(append(appendHead(b, kind, len(s)), s...), "\r\n"...)
	}
	return append(append(append(b, kind), oneLine(s)...), "\r\n"...)
}

// appendEntries appends the keys of a table, and with values its values.
func (r *run) appendEntries(t *lua.LTable, resp3 bool, depth int, values bool) (n int, body []byte) {
	t.ForEach(func(k, v lua.LValue) {
		n++
		body = r.appendReply(body, k, resp3, depth+1)
		if values {
			body = r.appendReply(body, v, resp3, depth+1)
		}
	})
	r.spend(len(body)) // it is copied to where the head is
	return n, body
}

// maxMessage is how many bytes of a script's error its reply has.
const maxMessage = 64 << 10

// where is the handler of a script's errors. It makes them a table with the text of the error reply and the line at which
// the script has failed.
func (r *run) where(L *lua.LState) int {
	v := L.Get(1)
	var message string
	switch v := v.(type) {
	case lua.LString:
		message = string(v)[:min(len(v), maxMessage)]
		if v != r.raised {
			message = "ERR " + message
		}
	case *lua.LTable:
		if s, ok := v.RawGetString("err").(lua.LString); ok {
			message = string(s)[:min(len(s), maxMessage)]
		} else {
			message = "ERR " + v.String()
		}
	default:
		message = "ERR " + v.String()
	}
	t := L.CreateTable(0, 2)
	t.RawSetString("err", lua.LString(message))
	for level := 1; level < 10; level++ { // the functions of libraries have no line
		if line := L.Where(level); line != "" && !strings.HasPrefix(line, "[G]") {
			t.RawSetString("source", lua.LString(strings.TrimSuffix(strings.TrimSpace(line), ":")))
			break
		}
	}
	L.Push(t)
	return 1
}

// appendFailure appends the error reply of a script that has failed.
func appendFailure(b []byte, s *Script, err error) []byte {
	message, source := "ERR "+err.Error(), ""
	if e, ok := err.(*lua.ApiError); ok { //nolint:errorlint // PCall returns it as it is
		if t, ok := e.Object.(*lua.LTable); ok {
			message = lua.LVAsString(t.RawGetString("err"))
			source = lua.LVAsString(t.RawGetString("source"))
		}
	}
	message = message[:min(len(message), maxMessage+len("ERR "))] + " script: " + s.SHA
	if source != "" {
		message += ", on @" + source + "."
	}
	return appendError(b, message)
}

func appendHead(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), "\r\n"...)
}

func appendNull(b []byte, resp3 bool) []byte {
	if resp3 {
		return append(b, "_\r\n"...)
	}
	return append(b, "$-1\r\n"...)
}

func appendError(b []byte, message string) []byte {
	return append(append(append(b, '-'), oneLine(message)...), "\r\n"...)
}

// oneLine makes a text fit for one line of a reply.
func oneLine(s string) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
}
