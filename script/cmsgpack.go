package script

import (
	"encoding/binary"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// maxMsgpackDepth is how deeply lua-cmsgpack packs tables; what lies deeper becomes nil.
const maxMsgpackDepth = 16

// maxMsgpackHead is the length of the longest number, or of the longest head of a string or table.
const maxMsgpackHead = 9

// msgpackPack packs its arguments one behind the other.
func (lib *tables) msgpackPack(L *lua.LState) int {
	if L.GetTop() == 0 {
		L.RaiseError("bad argument #0 to 'pack' (MessagePack pack needs input.)")
	}
	var b []byte
	for i := 1; i <= L.GetTop(); i++ {
		b = lib.appendMsgpack(L, b, L.Get(i), 0)
	}
	return lib.push(L, string(b))
}

func (lib *tables) appendMsgpack(L *lua.LState, b []byte, v lua.LValue, depth int) []byte {
	lib.work(L, 1)
	b = lib.grow(L, b, maxMsgpackHead)
	switch v := v.(type) {
	case lua.LString:
		b = lib.grow(L, b, maxMsgpackHead+len(v))
		return append(appendMsgpackHead(b, len(v), 0xa0, 31, 0xd9, 0xda, 0xdb), v...)
	case lua.LBool:
		if v {
			return append(b, 0xc3)
		}
		return append(b, 0xc2)
	case lua.LNumber:
		return appendMsgpackNumber(b, float64(v))
	case *lua.LTable:
		if depth == maxMsgpackDepth {
			return append(b, 0xc0)
		}
		n, entries := 0, 0
		v.ForEach(func(lua.LValue, lua.LValue) { entries++ })
		for v.RawGet(lua.LNumber(n+1)) != lua.LNil {
			n++
		}
		lib.work(L, entries/4+n/4)
		if n == entries {
			b = appendMsgpackHead(b, n, 0x90, 15, 0, 0xdc, 0xdd)
			for i := range n {
				b = lib.appendMsgpack(L, b, v.RawGet(lua.LNumber(i+1)), depth+1)
			}
			return b
		}
		b = appendMsgpackHead(b, entries, 0x80, 15, 0, 0xde, 0xdf)
		v.ForEach(func(k, e lua.LValue) {
			b = lib.appendMsgpack(L, b, k, depth+1)
			b = lib.appendMsgpack(L, b, e, depth+1)
		})
		return b
	}
	return append(b, 0xc0)
}

// appendMsgpackHead appends a length: in the first byte if it is at most short, else in one (unless that has no code), two
// or four bytes.
func appendMsgpackHead(b []byte, n int, fixed byte, short int, one, two, four byte) []byte {
	switch {
	case n <= short:
		return append(b, fixed|byte(n))
	case n <= math.MaxUint8 && one != 0:
		return append(b, one, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, two), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, four), uint32(n))
}

func appendMsgpackNumber(b []byte, n float64) []byte {
	i := int64(n)
	switch {
	case float64(i) != n || n >= math.MaxInt64:
		if f := float32(n); float64(f) == n {
			return binary.BigEndian.AppendUint32(append(b, 0xca), math.Float32bits(f))
		}
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(n))
	case i >= 0 && i <= 127, i >= -32 && i < 0:
		return append(b, byte(i))
	case i >= 0 && i <= math.MaxUint8:
		return append(b, 0xcc, byte(i))
	case i >= 0 && i <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(i))
	case i >= 0 && i <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(i))
	case i >= 0:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), uint64(i))
	case i >= math.MinInt8:
		return append(b, 0xd0, byte(i))
	case i >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(i))
	case i >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(i))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(i))
}

// msgpackUnpack returns all values that a string has.
func (lib *tables) msgpackUnpack(L *lua.LState) int {
	s := str(L, 1)
	d := msgpackDecoder{tables: lib, L: L, s: s}
	n := 0
	for len(d.s) > 0 {
		if n++; n > 4096 {
			L.RaiseError("too many values to unpack")
		}
		v, err := d.value(0)
		if err != nil {
			L.RaiseError("%s", err.Error())
		}
		L.Push(v)
	}
	return n
}

type msgpackDecoder struct {
	*tables
	L *lua.LState
	s string
}

const (
	errMsgpackShort  = Wording("Missing bytes in input.")
	errMsgpackFormat = Wording("Bad data format in input.")
)

// uint takes an integer of so many bytes.
func (d *msgpackDecoder) uint(bytes int) (n uint64, err error) {
	if len(d.s) < bytes {
		return 0, errMsgpackShort
	}
	for i := range bytes {
		n = n<<8 | uint64(d.s[i])
	}
	d.s = d.s[bytes:]
	return n, nil
}

func (d *msgpackDecoder) value(depth int) (lua.LValue, error) {
	d.work(d.L, 1)
	if depth > maxJSONDepth {
		return nil, errMsgpackFormat
	}
	first, err := d.uint(1)
	if err != nil {
		return nil, err
	}
	switch c := byte(first); {
	case c <= 0x7f, c >= 0xe0:
		return lua.LNumber(int8(c)), nil
	case c <= 0x8f:
		return d.table(uint64(c&15), true, depth)
	case c <= 0x9f:
		return d.table(uint64(c&15), false, depth)
	case c <= 0xbf:
		return d.string(uint64(c & 31))
	case c == 0xc0:
		return lua.LNil, nil
	case c == 0xc2, c == 0xc3:
		return lua.LBool(c == 0xc3), nil
	case c >= 0xc4 && c <= 0xc6: // binary
		return d.sized(1<<(c-0xc4), d.string)
	case c == 0xca:
		n, err := d.uint(4)
		return lua.LNumber(math.Float32frombits(uint32(n))), err
	case c == 0xcb:
		n, err := d.uint(8)
		return lua.LNumber(math.Float64frombits(n)), err
	case c >= 0xcc && c <= 0xcf:
		n, err := d.uint(1 << (c - 0xcc))
		return lua.LNumber(n), err
	case c >= 0xd0 && c <= 0xd3:
		bytes := 1 << (c - 0xd0)
		n, err := d.uint(bytes)
		shift := 64 - 8*bytes
		return lua.LNumber(int64(n<<shift) >> shift), err
	case c >= 0xd9 && c <= 0xdb:
		return d.sized(1<<(c-0xd9), d.string)
	case c == 0xdc, c == 0xdd:
		return d.sized(2<<(c-0xdc), func(n uint64) (lua.LValue, error) { return d.table(n, false, depth) })
	case c == 0xde, c == 0xdf:
		return d.sized(2<<(c-0xde), func(n uint64) (lua.LValue, error) { return d.table(n, true, depth) })
	}
	return nil, errMsgpackFormat
}

// sized reads a length of the given number of bytes, and then as many bytes as it says.
func (d *msgpackDecoder) sized(bytes int, f func(uint64) (lua.LValue, error)) (lua.LValue, error) {
	n, err := d.uint(bytes)
	if err != nil {
		return nil, err
	}
	return f(n)
}

func (d *msgpackDecoder) string(n uint64) (lua.LValue, error) {
	if n > uint64(len(d.s)) {
		return nil, errMsgpackShort
	}
	d.charge(d.L, int(n)+stringSize)
	s := d.s[:n]
	d.s = d.s[n:]
	return lua.LString(s), nil
}

func (d *msgpackDecoder) table(n uint64, pairs bool, depth int) (lua.LValue, error) {
	if n > uint64(len(d.s)) {
		return nil, errMsgpackShort
	}
	d.charge(d.L, tableSize)
	t := d.L.CreateTable(0, 1)
	for i := range int(n) {
		k := lua.LValue(lua.LNumber(i + 1))
		if pairs {
			var err error
			if k, err = d.value(depth + 1); err != nil {
				return nil, err
			}
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if f, ok := k.(lua.LNumber); k == lua.LNil || ok && math.IsNaN(float64(f)) {
			return nil, errMsgpackFormat
		}
		if v != lua.LNil {
			d.put(d.L, t, k, v)
		}
	}
	return t, nil
}
