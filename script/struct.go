package script

import (
	"encoding/binary"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxStructSize is the largest integer, in bytes, and the largest alignment.
const maxStructSize = 32

// structItem is one item of a format of R. Ierusalimschy's struct library.
type structItem struct {
	verb byte
	size int // of an integer or a string
	pad  int // bytes before it, so that it is aligned
}

// structFormat reads a format item by item.
type structFormat struct {
	L     *lua.LState
	rest  string
	order binary.ByteOrder
	align int
	total int
}

func newStructFormat(L *lua.LState, format string) structFormat {
	return structFormat{L: L, rest: format, order: binary.LittleEndian, align: 1}
}

// number reads the digits that may follow a verb.
func (f *structFormat) number(otherwise int) int {
	n, digits := 0, 0
	for digits < len(f.rest) && isDigit(f.rest[digits]) {
		if n = n*10 + int(f.rest[digits]-'0'); n > 1<<30 {
			f.L.RaiseError("integral size overflow")
		}
		digits++
	}
	f.rest = f.rest[digits:]
	if digits == 0 {
		return otherwise
	}
	return n
}

// next returns the next item of the format that reads or writes bytes.
func (f *structFormat) next() (item structItem, ok bool) {
	for f.rest != "" {
		verb := f.rest[0]
		f.rest = f.rest[1:]
		item = structItem{verb: verb}
		switch verb {
		case '>':
			f.order = binary.BigEndian
			continue
		case '<':
			f.order = binary.LittleEndian
			continue
		case ' ':
			continue
		case '!':
			if f.align = f.number(8); f.align <= 0 || f.align > maxStructSize || f.align&(f.align-1) != 0 {
				f.L.RaiseError("alignment is not a power of 2")
			}
			continue
		case 'x', 'b', 'B':
			item.size = 1
		case 'h', 'H':
			item.size = 2
		case 'l', 'L', 'T', 'd':
			item.size = 8
		case 'f':
			item.size = 4
		case 'i', 'I':
			if item.size = f.number(4); item.size < 1 || item.size > maxStructSize {
				f.L.RaiseError("integral size %d is larger than limit of %d", item.size, maxStructSize)
			}
		case 'c':
			item.size = f.number(1)
		case 's':
		default:
			f.L.RaiseError("invalid format option '%c'", verb)
		}
		if strings.IndexByte("xcs", verb) < 0 && f.align > 1 && item.size > 1 {
			to := min(item.size, f.align)
			item.pad = (to - f.total&(to-1)) & (to - 1)
		}
		return item, true
	}
	return structItem{}, false
}

func (lib stringLibrary) structPack(L *lua.LState) int {
	f := newStructFormat(L, str(L, 1))
	var b []byte
	arg := 2
	for {
		item, ok := f.next()
		if !ok {
			return lib.push(L, string(b))
		}
		lib.work(L, 1)
		lib.charge(L, item.pad+item.size)
		b = append(b, make([]byte, item.pad)...)
		switch item.verb {
		case 'x':
			b = append(b, 0)
		case 'f':
			b = appendUint(b, f.order, uint64(math.Float32bits(float32(L.CheckNumber(arg)))), 4, 0)
			arg++
		case 'd':
			b = appendUint(b, f.order, math.Float64bits(float64(L.CheckNumber(arg))), 8, 0)
			arg++
		case 's', 'c':
			s := str(L, arg)
			arg++
			if item.size == 0 {
				item.size = len(s)
			}
			if len(s) < item.size {
				L.ArgError(arg-1, "string too short")
			}
			lib.charge(L, item.size)
			b = append(b, s[:item.size]...)
			if item.verb == 's' {
				b = append(b, 0)
			}
		default:
			n := float64(L.CheckNumber(arg))
			arg++
			u := uint64(int64(n))
			fill := byte(0)
			if n < 0 {
				fill = 0xff
			}
			b = appendUint(b, f.order, u, item.size, fill)
		}
		f.total = len(b)
	}
}

// appendUint appends an integer in so many bytes; those above 8 are fill.
func appendUint(b []byte, order binary.ByteOrder, n uint64, size int, fill byte) []byte {
	at := len(b)
	for i := range size {
		c := fill
		if i < 8 {
			c = byte(n >> (8 * i))
		}
		b = append(b, c)
	}
	if order == binary.BigEndian {
		reverse(b[at:])
	}
	return b
}

func reverse(b []byte) {
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
}

func (lib stringLibrary) structUnpack(L *lua.LState) int {
	f := newStructFormat(L, str(L, 1))
	data := str(L, 2)
	at := L.OptInt(3, 1) - 1
	if at < 0 {
		L.ArgError(3, "offset must be 1 or greater")
	}
	n := 0
	for {
		f.total = at
		item, ok := f.next()
		if !ok {
			L.Push(lua.LNumber(at + 1))
			return n + 1
		}
		lib.work(L, 1)
		at += item.pad
		if at > len(data) || item.size > len(data)-at {
			L.ArgError(2, "data string too short")
		}
		piece := data[at : at+item.size]
		switch item.verb {
		case 'x':
			at++
			continue
		case 's':
			end := strings.IndexByte(data[at:], 0)
			if end < 0 {
				L.ArgError(2, "unfinished string in data")
			}
			lib.push(L, data[at:at+end])
			at += end + 1
		case 'c':
			if item.size == 0 {
				length, isNumber := L.Get(-1).(lua.LNumber)
				if n == 0 || !isNumber {
					L.RaiseError("format 'c0' needs a previous size")
				}
				L.Pop(1)
				n--
				item.size = int(length)
				if item.size < 0 || item.size > len(data)-at {
					L.ArgError(2, "data string too short")
				}
				piece = data[at : at+item.size]
			}
			lib.push(L, piece)
			at += item.size
		default:
			L.Push(readNumber(piece, f.order, item.verb))
			at += item.size
		}
		if n++; n > 4096 {
			L.RaiseError("too many results to unpack")
		}
	}
}

// readNumber reads a number of a struct.
func readNumber(piece string, order binary.ByteOrder, verb byte) lua.LNumber {
	b := []byte(piece)
	if order == binary.BigEndian {
		reverse(b)
	}
	var n uint64
	for i := min(len(b), 8) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	switch verb {
	case 'f':
		return lua.LNumber(math.Float32frombits(uint32(n)))
	case 'd':
		return lua.LNumber(math.Float64frombits(n))
	case 'B', 'H', 'L', 'I', 'T':
		return lua.LNumber(n)
	}
	shift := max(64-8*len(b), 0)
	return lua.LNumber(int64(n<<shift) >> shift)
}

func structSize(L *lua.LState) int {
	f := newStructFormat(L, str(L, 1))
	for {
		item, ok := f.next()
		if !ok {
			L.Push(lua.LNumber(f.total))
			return 1
		}
		if item.verb == 's' || item.verb == 'c' && item.size == 0 {
			L.ArgError(1, "variable-size format in 'size'")
		}
		f.total += item.pad + item.size
	}
}
