package script

import (
	"sort"

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
		out = vm.append(L, out, s)
		if i < to {
			out = vm.append(L, out, separator)
		}
	}
	return vm.push(L, string(out))
}

// tableInsert is table.insert.
func (vm *VM) tableInsert(L *lua.LState) int {
	t := L.CheckTable(1)
	vm.refuseShared(L, t)
	n := t.Len()
	switch L.GetTop() {
	case 2:
		vm.put(L, t, lua.LNumber(n+1), L.Get(2))
	case 3:
		at := L.CheckInt(2)
		if at < 1 || at > n+1 {
			vm.put(L, t, lua.LNumber(at), L.Get(3))
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

// tableRemove returns a table.remove that counts its steps; remove is the library's.
func (vm *VM) tableRemove(remove lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		t := L.CheckTable(1)
		vm.refuseShared(L, t)
		n := t.MaxN()
		if L.GetTop() > 1 && (L.CheckInt(2) < 1 || L.CheckInt(2) > n) {
			return 0
		}
		vm.work(L, n/16)
		return remove(L)
	}
}

// tableSort is table.sort.
func (vm *VM) tableSort(L *lua.LState) int {
	t := L.CheckTable(1)
	vm.refuseShared(L, t)
	s := sorter{vm: vm, L: L, t: t}
	if L.GetTop() > 1 && L.Get(2) != lua.LNil {
		s.less = L.CheckFunction(2)
	}
	sort.Sort(s)
	return 0
}

// sorter sorts a table, and counts a step for each comparison.
type sorter struct {
	vm   *VM
	L    *lua.LState
	t    *lua.LTable
	less *lua.LFunction // nil: the operator <
}

// Len returns the length of the table.
func (s sorter) Len() int { return s.t.Len() }

// Swap swaps two elements.
func (s sorter) Swap(i, j int) {
	v := s.t.RawGetInt(i + 1)
	s.t.RawSetInt(i+1, s.t.RawGetInt(j+1))
	s.t.RawSetInt(j+1, v)
}

// Less reports whether an element comes before another.
func (s sorter) Less(i, j int) bool {
	s.vm.work(s.L, 1)
	a, b := s.t.RawGetInt(i+1), s.t.RawGetInt(j+1)
	if s.less == nil {
		return s.L.LessThan(a, b)
	}
	s.L.Push(s.less)
	s.L.Push(a)
	s.L.Push(b)
	s.vm.calls(s.L, 2, 1)
	defer s.L.Pop(1)
	return s.L.ToBool(-1)
}

// mostUnpacked is how many values unpack returns at most, as in Lua.
const mostUnpacked = 8000

// unpack returns a bounded unpack; own is the library's.
func unpack(own lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		t := L.CheckTable(1)
		if from := L.OptInt(2, 1); L.OptInt(3, t.Len())-from >= mostUnpacked {
			L.RaiseError("too many results to unpack")
		}
		return own(L)
	}
}
