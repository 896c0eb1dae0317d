package script

import (
	"errors"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// maxJSONDepth is how deeply JSON may be nested, as in lua-cjson.
const maxJSONDepth = 1000

// maxJSONNumber is more than the longest number has bytes, and what stands around it.
const maxJSONNumber = 40

// cjson returns the functions of lua-cjson that scripts use: encode, decode and null.
func (vm *VM) cjson() *lua.LTable {
	null := vm.state.NewUserData()
	t := vm.functions(vm.state.NewTable(), map[string]lua.LGFunction{
		"encode": func(L *lua.LState) int {
			e := jsonEncoder{tables: &vm.tables, L: L, null: null}
			e.value(L.CheckAny(1), 0)
			return vm.meter.push(L, string(e.out))
		},
		"decode": func(L *lua.LState) int {
			d := jsonDecoder{tables: &vm.tables, L: L, null: null, s: str(L, 1)}
			v, err := d.document()
			if err != nil {
				L.RaiseError("%s", err.Error())
			}
			L.Push(v)
			return 1
		},
	})
	t.RawSetString("null", null)
	return t
}

type jsonEncoder struct {
	*tables
	L    *lua.LState
	null *lua.LUserData
	out  []byte
}

func (e *jsonEncoder) value(v lua.LValue, depth int) {
	e.work(e.L, 1)
	e.out = e.grow(e.L, e.out, maxJSONNumber)
	switch v := v.(type) {
	case lua.LString:
		e.string(string(v))
	case lua.LNumber:
		if math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
			e.L.RaiseError("Cannot serialise number: must not be NaN or Inf")
		}
		e.out = AppendNumber(e.out, float64(v), 14)
	case lua.LBool:
		e.out = strconv.AppendBool(e.out, bool(v))
	case *lua.LTable:
		e.table(v, depth+1)
	default:
		if v != lua.LNil && v != e.null {
			e.L.RaiseError("Cannot serialise %s: type not supported", v.Type())
		}
		e.out = append(e.out, "null"...)
	}
}

// string appends a string, some of it at a time.
func (e *jsonEncoder) string(s string) {
	const most, longest = 4096, 6 // bytes at a time, and of what one byte becomes
	e.out = append(e.out, '"')
	for s != "" {
		n := min(len(s), most)
		e.work(e.L, 1+n/16)
		e.out = e.grow(e.L, e.out, longest*n+2)
		e.out = appendJSONText(e.out, s[:n])
		s = s[n:]
	}
	e.out = append(e.out, '"')
}

func (e *jsonEncoder) table(t *lua.LTable, depth int) {
	if depth > maxJSONDepth {
		e.L.RaiseError("Cannot serialise, excessive depth (%d)", depth)
	}
	if n := e.arrayLength(t); n > 0 {
		e.out = append(e.out, '[')
		for i := range n {
			if i > 0 {
				e.out = append(e.out, ',')
			}
			e.value(t.RawGet(lua.LNumber(i+1)), depth)
		}
		e.out = append(e.out, ']')
		return
	}
	e.out = append(e.out, '{')
	first := true
	t.ForEach(func(k, v lua.LValue) {
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		name, ok := text(k)
		if !ok {
			e.L.RaiseError("Cannot serialise %s: table key must be a number or string", k.Type())
		}
		e.out = e.grow(e.L, e.out, maxJSONNumber)
		e.string(name)
		e.out = append(e.grow(e.L, e.out, maxJSONNumber), ':')
		e.value(v, depth)
	})
	e.out = append(e.out, '}')
}

// arrayLength returns the length of a table whose keys are all positive integers, else 0.
func (e *jsonEncoder) arrayLength(t *lua.LTable) int {
	most, count, array := 0, 0, true
	e.work(e.L, t.MaxN()/16+part(t, e.layout.keys).Len()/8)
	t.ForEach(func(k, _ lua.LValue) {
		n, ok := k.(lua.LNumber)
		if i := int(n); ok && i > 0 && lua.LNumber(i) == n {
			most = max(most, i)
			count++
			return
		}
		array = false
	})
	if !array {
		return 0
	}
	if most > 10 && most > 2*count {
		e.L.RaiseError("Cannot serialise table: excessively sparse array")
	}
	return most
}

// appendJSONText appends a part of a string.
func appendJSONText(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '/':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if c < 32 || c == 127 {
				const digits = "0123456789abcdef"
				b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
				continue
			}
			b = append(b, c)
		}
	}
	return b
}

type jsonDecoder struct {
	*tables
	L    *lua.LState
	null *lua.LUserData
	s    string
	at   int
}

func (d *jsonDecoder) document() (lua.LValue, error) {
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.at < len(d.s) {
		return nil, d.expected("the end")
	}
	return v, nil
}

func (d *jsonDecoder) space() {
	for d.at < len(d.s) {
		switch d.s[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
			continue
		}
		return
	}
}

// expected says in lua-cjson's words what should stand where the decoder is.
func (d *jsonDecoder) expected(what string) error {
	found := "invalid token"
	if d.at >= len(d.s) {
		found = "T_END"
	}
	return replyError("Expected %s but found %s at character %d", what, found, d.at+1)
}

func (d *jsonDecoder) value(depth int) (lua.LValue, error) {
	d.work(d.L, 1)
	if d.space(); d.at >= len(d.s) {
		return nil, d.expected("value")
	}
	for _, word := range [...]struct {
		text string
		v    lua.LValue
	}{{"null", d.null}, {"true", lua.LTrue}, {"false", lua.LFalse}} {
		if len(d.s)-d.at >= len(word.text) && d.s[d.at:d.at+len(word.text)] == word.text {
			d.at += len(word.text)
			return word.v, nil
		}
	}
	c := d.s[d.at]
	if (c == '{' || c == '[') && depth == maxJSONDepth {
		return nil, replyError("Found too many nested data structures (%d) at character %d", depth+1, d.at+1)
	}
	switch c {
	case '"':
		s, err := d.string()
		return lua.LString(s), err
	case '{':
		return d.object(depth)
	case '[':
		return d.array(depth)
	}
	return d.number()
}

func (d *jsonDecoder) number() (lua.LValue, error) {
	end := d.at
	for end < len(d.s) && (isAlpha(d.s[end]) || isDigit(d.s[end]) || d.s[end] == '-' || d.s[end] == '+' || d.s[end] == '.') {
		end++
	}
	if end-d.at > maxNumber {
		return nil, d.expected("value")
	}
	word := d.s[d.at:end]
	n, err := strconv.ParseFloat(word, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	if i, hex := strconv.ParseInt(word, 0, 64); err != nil && hex == nil {
		n, err = float64(i), nil
	}
	if err != nil || word == "" || word[0] == '+' || word[0] == '.' {
		return nil, d.expected("value")
	}
	d.at = end
	return lua.LNumber(n), nil
}

func (d *jsonDecoder) array(depth int) (lua.LValue, error) {
	d.charge(d.L, tableSize)
	t := d.L.CreateTable(0, 0)
	d.at++
	if d.space(); d.at < len(d.s) && d.s[d.at] == ']' {
		d.at++
		return t, nil
	}
	for i := 1; ; i++ {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		d.put(d.L, t, lua.LNumber(i), v)
		switch d.space(); {
		case d.at < len(d.s) && d.s[d.at] == ']':
			d.at++
			return t, nil
		case d.at < len(d.s) && d.s[d.at] == ',':
			d.at++
		default:
			return nil, d.expected("comma or array end")
		}
	}
}

func (d *jsonDecoder) object(depth int) (lua.LValue, error) {
	d.charge(d.L, tableSize)
	t := d.L.CreateTable(0, 1)
	d.at++
	if d.space(); d.at < len(d.s) && d.s[d.at] == '}' {
		d.at++
		return t, nil
	}
	for {
		if d.space(); d.at >= len(d.s) || d.s[d.at] != '"' {
			return nil, d.expected("object key string")
		}
		key, err := d.string()
		if err != nil {
			return nil, err
		}
		if d.space(); d.at >= len(d.s) || d.s[d.at] != ':' {
			return nil, d.expected("colon")
		}
		d.at++
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		d.put(d.L, t, lua.LString(key), v)
		switch d.space(); {
		case d.at < len(d.s) && d.s[d.at] == '}':
			d.at++
			return t, nil
		case d.at < len(d.s) && d.s[d.at] == ',':
			d.at++
		default:
			return nil, d.expected("comma or object end")
		}
	}
}

// string reads a string, whose quote is where the decoder is. Bytes that are no UTF-8 stay as they are.
func (d *jsonDecoder) string() (string, error) {
	d.at++
	start := d.at
	var out []byte
	for d.at < len(d.s) {
		if (d.at-start)%4096 == 4095 {
			d.work(d.L, 256)
		}
		switch c := d.s[d.at]; {
		case c == '"':
			d.charge(d.L, len(out)+stringSize)
			d.at++
			return string(out), nil
		case c == '\\':
			var err error
			if out, err = d.escape(out); err != nil {
				return "", err
			}
		case c == 0:
			return "", d.expected("value")
		default:
			out = append(d.grow(d.L, out, 1), c)
			d.at++
		}
	}
	return "", replyError("Expected value but found unexpected end of string at character %d", d.at+1)
}

func (d *jsonDecoder) escape(out []byte) ([]byte, error) {
	if d.at+1 >= len(d.s) {
		return nil, d.expected("value")
	}
	c := d.s[d.at+1]
	d.at += 2
	switch c {
	case '"', '\\', '/':
		return append(out, c), nil
	case 'b':
		return append(out, '\b'), nil
	case 'f':
		return append(out, '\f'), nil
	case 'n':
		return append(out, '\n'), nil
	case 'r':
		return append(out, '\r'), nil
	case 't':
		return append(out, '\t'), nil
	case 'u':
		r, ok := d.hex()
		if ok && utf16.IsSurrogate(r) {
			ok = false
			if len(d.s)-d.at >= 6 && d.s[d.at] == '\\' && d.s[d.at+1] == 'u' {
				d.at += 2
				low, fits := d.hex()
				r = utf16.DecodeRune(r, low)
				ok = fits && r != utf8.RuneError
			}
		}
		if ok {
			return utf8.AppendRune(out, r), nil
		}
	}
	return nil, replyError("Expected value but found invalid escape code at character %d", d.at-1)
}

// hex reads four hexadecimal digits.
func (d *jsonDecoder) hex() (rune, bool) {
	if len(d.s)-d.at < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(d.s[d.at:d.at+4], 16, 16)
	d.at += 4
	return rune(n), err == nil
}
