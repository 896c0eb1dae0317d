package script

import (
	"sort"

	lua "github.com/yuin/gopher-lua"
)

// tables is what the functions use that make and change tables: they charge what a table grows by, and refuse one that scripts share.
type tables struct {
	*meter
	layout   layout
	readOnly map[*lua.LTable]bool // what scripts share
}

// store is t[k] = v. It goes the way of the metatables itself, since each table on it may be one that scripts share.
func (lib *tables) store(L *lua.LState) int {
	object, key, v := L.Get(1), L.Get(2), L.Get(3)
	for range lua.MaxTableGetLoop {
		t, ok := object.(*lua.LTable)
		if !ok {
			break
		}
		if t.Metatable == lua.LNil {
			lib.put(L, t, key, v)
			return 0
		}
		lib.refuseShared(L, t)
		next := L.GetMetaField(t, "__newindex")
		if next == lua.LNil || t.RawGet(key) != lua.LNil {
			lib.put(L, t, key, v)
			return 0
		}
		if next.Type() == lua.LTFunction {
			L.Push(next)
			L.Push(t)
			L.Push(key)
			L.Push(v)
			lib.calls(L, 3, 0)
			return 0
		}
		object = next
	}
	if _, ok := object.(*lua.LTable); ok {
		L.RaiseError("loop in settable")
	}
	L.RaiseError("attempt to index a %s value", object.Type())
	return 0
}

// refuseShared ends what would change a table that scripts share.
func (lib *tables) refuseShared(L *lua.LState, t *lua.LTable) {
	if lib.readOnly[t] {
		L.RaiseError("Attempt to modify a readonly table")
	}
}

// put stores in a table without its metatable, and charges what the table grows by.
func (lib *tables) put(L *lua.LState, t *lua.LTable, key, v lua.LValue) {
	lib.beforeStore(L, t, key)
	L.RawSet(t, key, v)
}

func (lib *tables) rawSet(L *lua.LState) int {
	t := L.CheckTable(1)
	lib.put(L, t, L.CheckAny(2), L.CheckAny(3))
	L.SetTop(1)
	return 1
}

func (lib *tables) setMetatable(L *lua.LState) int {
	t := L.CheckTable(1)
	lib.refuseShared(L, t)
	meta := L.Get(2)
	if meta.Type() != lua.LTNil && meta.Type() != lua.LTTable {
		L.ArgError(2, "nil or table expected")
	}
	if L.GetMetaField(t, "__metatable") != lua.LNil {
		L.RaiseError("cannot change a protected metatable")
	}
	t.Metatable = meta
	L.SetTop(1)
	return 1
}

// tableConcat is table.concat, which counts its bytes.
func (lib *tables) tableConcat(L *lua.LState) int {
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
		lib.work(L, 1)
		out = lib.append(L, out, s)
		if i < to {
			out = lib.append(L, out, separator)
		}
	}
	return lib.push(L, string(out))
}

// tableInsert is table.insert.
func (lib *tables) tableInsert(L *lua.LState) int {
	t := L.CheckTable(1)
	lib.refuseShared(L, t)
	n := t.Len()
	switch L.GetTop() {
	case 2:
		lib.put(L, t, lua.LNumber(n+1), L.Get(2))
	case 3:
		at := L.CheckInt(2)
		if at < 1 || at > n+1 {
			lib.put(L, t, lua.LNumber(at), L.Get(3))
			break
		}
		lib.charge(L, elementSize)
		lib.work(L, (n-at)/16)
		t.Insert(at, L.Get(3))
	default:
		L.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

// tableRemove returns a table.remove that counts its steps; remove is the library's.
func (lib *tables) tableRemove(remove lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		t := L.CheckTable(1)
		lib.refuseShared(L, t)
		n := t.MaxN()
		if L.GetTop() > 1 && (L.CheckInt(2) < 1 || L.CheckInt(2) > n) {
			return 0
		}
		lib.work(L, n/16)
		return remove(L)
	}
}

// tableSort is table.sort.
func (lib *tables) tableSort(L *lua.LState) int {
	t := L.CheckTable(1)
	lib.refuseShared(L, t)
	s := sorter{meter: lib.meter, L: L, t: t}
	if L.GetTop() > 1 && L.Get(2) != lua.LNil {
		s.less = L.CheckFunction(2)
	}
	sort.Sort(s)
	return 0
}

// sorter sorts a table, and counts a step for each comparison.
type sorter struct {
	*meter
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
	s.work(s.L, 1)
	a, b := s.t.RawGetInt(i+1), s.t.RawGetInt(j+1)
	if s.less == nil {
		return s.L.LessThan(a, b)
	}
	s.L.Push(s.less)
	s.L.Push(a)
	s.L.Push(b)
	s.calls(s.L, 2, 1)
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
