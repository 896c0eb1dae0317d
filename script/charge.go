package script

import (
	"math"
	"reflect"

	lua "github.com/yuin/gopher-lua"
)

// About how many bytes each takes.
const (
	stringSize   = 32
	tableSize    = 160
	entrySize    = 200 // a key and value of a table, in its maps
	firstEntry   = 500 // beside it, for the first of a table
	roomSize     = 64  // room for an entry that the library makes beforehand, for at most so many
	mostRoom     = 128
	firstStrings = 2600 // the same, where the library makes room for 32 strings
	elementSize  = 40   // of an array, which is grown by copying
	firstElement = 512  // the library makes room for 32
	closureSize  = 160
	upvalueSize  = 64                                 // a variable of an outer function, which a closure keeps
	taggedSize   = tableSize + firstEntry + entrySize // a table with one field
	replySize    = 16                                 // a part of the reply, beside its text
)

// layout says which field of the library's table is which.
type layout struct{ array, strings, others, keys int }

func tableLayout() layout {
	index := func(name string) int {
		f, _ := reflect.TypeFor[lua.LTable]().FieldByName(name)
		return f.Index[0]
	}
	return layout{array: index("array"), strings: index("strdict"), others: index("dict"), keys: index("keys")}
}

// part returns a field of a table of which only the length may be read.
func part(t *lua.LTable, field int) reflect.Value { return reflect.ValueOf(t).Elem().Field(field) }

// beforeStore charges what a table grows by, and refuses tables that scripts cannot change.
func (lib *tables) beforeStore(L *lua.LState, t *lua.LTable, key lua.LValue) {
	lib.refuseShared(L, t)
	if n, ok := key.(lua.LNumber); ok && inArray(n) {
		length := t.MaxN()
		if int(n) <= length {
			return
		}
		size := (int(n) - length) * elementSize // the library fills the array up to the index
		if length == 0 && part(t, lib.layout.array).Cap() == 0 {
			size += firstElement
		}
		lib.charge(L, size)
		return
	}
	if t.RawGet(key) != lua.LNil {
		return
	}
	size := entrySize
	switch _, text := key.(lua.LString); {
	case text && part(t, lib.layout.strings).IsNil():
		size += firstStrings
	case !text && part(t, lib.layout.others).IsNil():
		size += firstEntry + part(t, lib.layout.strings).Len()*entrySize // the library makes room for as many
	case part(t, lib.layout.keys).Len() == 0:
		size += firstEntry
	}
	lib.charge(L, size)
}

// inArray reports whether a number is an index of a table's array.
func inArray(n lua.LNumber) bool {
	return n >= 1 && n < lua.LNumber(lua.MaxArrayIndex) && n == lua.LNumber(math.Floor(float64(n)))
}

// newEmpty is {}. It has room for a few named fields, where the library would make room for 32 with the first.
func (lib *tables) newEmpty(L *lua.LState) int {
	lib.charge(L, tableSize)
	L.Push(L.CreateTable(0, 1))
	return 1
}

// newTable charges the table that a constructor has made, and has given room for a number of fields.
func (lib *tables) newTable(L *lua.LState) int {
	t := L.CheckTable(1)
	size := tableSize + part(t, lib.layout.array).Cap()*elementSize
	if !part(t, lib.layout.strings).IsNil() {
		fields, _ := L.Get(2).(lua.LNumber)
		size += firstEntry + max(part(t, lib.layout.keys).Len()*entrySize, min(int(fields), mostRoom)*roomSize)
	}
	L.SetTop(1)
	lib.charge(L, size)
	return 1
}

// newKey charges a key of a constructor, before the library stores at it.
func (lib *tables) newKey(L *lua.LState) int {
	if n, ok := L.Get(1).(lua.LNumber); ok && inArray(n) {
		lib.charge(L, int(n)*elementSize)
	}
	return 1
}

// newClosure charges a closure.
func (m *meter) newClosure(L *lua.LState) int {
	size := closureSize
	if f, ok := L.Get(1).(*lua.LFunction); ok {
		size += len(f.Upvalues) * upvalueSize
	}
	m.charge(L, size)
	return 1
}
