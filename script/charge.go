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
func (vm *VM) beforeStore(L *lua.LState, t *lua.LTable, key lua.LValue) {
	vm.refuseShared(L, t)
	if n, ok := key.(lua.LNumber); ok && inArray(n) {
		length := t.MaxN()
		if int(n) <= length {
			return
		}
		size := (int(n) - length) * elementSize // the library fills the array up to the index
		if length == 0 && part(t, vm.layout.array).Cap() == 0 {
			size += firstElement
		}
		vm.charge(L, size)
		return
	}
	if t.RawGet(key) != lua.LNil {
		return
	}
	size := entrySize
	switch _, text := key.(lua.LString); {
	case text && part(t, vm.layout.strings).IsNil():
		size += firstStrings
	case !text && part(t, vm.layout.others).IsNil():
		size += firstEntry + part(t, vm.layout.strings).Len()*entrySize // the library makes room for as many
	case part(t, vm.layout.keys).Len() == 0:
		size += firstEntry
	}
	vm.charge(L, size)
}

// inArray reports whether a number is an index of a table's array.
func inArray(n lua.LNumber) bool {
	return n >= 1 && n < lua.LNumber(lua.MaxArrayIndex) && n == lua.LNumber(math.Floor(float64(n)))
}

// newEmpty is {}. It has room for a few named fields, where the library would make room for 32 with the first.
func (vm *VM) newEmpty(L *lua.LState) int {
	vm.charge(L, tableSize)
	L.Push(L.CreateTable(0, 1))
	return 1
}

// newTable charges the table that a constructor has made, and has given room for a number of fields.
func (vm *VM) newTable(L *lua.LState) int {
	t := L.CheckTable(1)
	size := tableSize + part(t, vm.layout.array).Cap()*elementSize
	if !part(t, vm.layout.strings).IsNil() {
		fields, _ := L.Get(2).(lua.LNumber)
		size += firstEntry + max(part(t, vm.layout.keys).Len()*entrySize, min(int(fields), mostRoom)*roomSize)
	}
	L.SetTop(1)
	vm.charge(L, size)
	return 1
}

// newKey charges a key of a constructor, before the library stores at it.
func (vm *VM) newKey(L *lua.LState) int {
	if n, ok := L.Get(1).(lua.LNumber); ok && inArray(n) {
		vm.charge(L, int(n)*elementSize)
	}
	return 1
}

// newClosure charges a closure.
func (vm *VM) newClosure(L *lua.LState) int {
	size := closureSize
	if f, ok := L.Get(1).(*lua.LFunction); ok {
		size += len(f.Upvalues) * upvalueSize
	}
	vm.charge(L, size)
	return 1
}

// charge counts bytes that a script is about to use, and ends the run if they are too many.
func (vm *VM) charge(L *lua.LState, bytes int) {
	if !vm.spend(bytes) {
		L.RaiseError("%s", vm.meter.end.Error())
	}
}

// chargeText counts a text. One may have a quarter of the memory, because the errors of the library may copy it a few times.
func (vm *VM) chargeText(L *lua.LState, bytes int) {
	if int64(bytes) > vm.meter.text && vm.meter.end == nil {
		vm.meter.end = ErrMemory
	}
	vm.charge(L, bytes+stringSize)
}

// spend is charge where nothing can be raised, for a step. It reports whether the run may go on.
func (vm *VM) spend(bytes int) bool {
	vm.meter.memory -= int64(bytes)
	if vm.meter.memory < 0 && vm.meter.end == nil {
		vm.meter.end = ErrMemory
	}
	return vm.meter.used(1) == nil
}

// work counts the steps of a library function, and ends the run when they are used up.
func (vm *VM) work(L *lua.LState, steps int) {
	if end := vm.meter.used(steps); end != nil {
		L.RaiseError("%s", end.Error())
	}
}

// grow returns b with room for n more bytes, and charges what it takes.
func (vm *VM) grow(L *lua.LState, b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b
	}
	vm.chargeText(L, len(b)+n)
	size := max(2*cap(b), len(b)+n)
	vm.charge(L, size-len(b)-n)
	return append(make([]byte, 0, size), b...)
}

// append appends a text to what a function of the library makes, and charges its bytes.
func (vm *VM) append(L *lua.LState, b []byte, s string) []byte {
	return append(vm.grow(L, b, len(s)), s...)
}

// push pushes a string that has just been made, and charges its bytes.
func (vm *VM) push(L *lua.LState, s string) int {
	vm.chargeText(L, len(s))
	L.Push(lua.LString(s))
	return 1
}
