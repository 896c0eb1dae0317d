package script

import (
	"math/bits"

	lua "github.com/yuin/gopher-lua"
)

// tableConcat is table.concat, which counts its bytes.
func (vm *VM) tableConcat(L *lua.LState) int {
	t := L.CheckTable(1)
	separator := ""
	if L.GetTop() >= 2 && L.Get(2) != lua.LNil {
		separator = str(L, 2)
	}
	from, to := L.OptInt(3, 1), L.OptInt(4, t.Len())
	var out []byte
	for i := from; i <= to; i++ {
		s, ok := text(t.RawGet(lua.LNumber(i)))
		if !ok {
			L.RaiseError("invalid value (%s) at index %d in table for 'concat'", t.RawGet(lua.LNumber(i)).Type(), i)
		}
		vm.work(L, 1)
		vm.charge(L, len(s)+len(separator))
		out = append(out, s...)
		if i < to {
			out = append(out, separator...)
		}
	}
	return vm.push(L, string(out))
}

// tableInsert is table.insert.
func (vm *VM) tableInsert(L *lua.LState) int {
	t := L.CheckTable(1)
	if vm.readOnly[t] {
		L.RaiseError("Attempt to modify a readonly table")
	}
	n := t.Len()
	switch L.GetTop() {
	case 2:
		vm.beforeStore(L, t, lua.LNumber(n+1), L.Get(2))
		t.RawSetInt(n+1, L.Get(2))
	case 3:
		at := L.CheckInt(2)
		if at < 1 || at > n+1 {
			vm.beforeStore(L, t, lua.LNumber(at), L.Get(3))
			t.RawSet(lua.LNumber(at), L.Get(3))
			break
		}
		vm.charge(L, elementSize)
		vm.work(L, (n-at)/16)
		t.Insert(at, L.Get(3))
	default:
		L.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

// worked returns a function of the library's table module, remove or sort, that counts the steps for a table's length.
func (vm *VM) worked(own *lua.LTable, name string) lua.LGFunction {
	f := own.RawGetString("table").(*lua.LTable).RawGetString(name).(*lua.LFunction).GFunction
	return func(L *lua.LState) int {
		t := L.CheckTable(1)
		if vm.readOnly[t] {
			L.RaiseError("Attempt to modify a readonly table")
		}
		n := t.MaxN()
		if name == "sort" {
			vm.work(L, n*bits.Len(uint(n))/4)
		} else {
			vm.work(L, n/16)
		}
		return f(L)
	}
}
