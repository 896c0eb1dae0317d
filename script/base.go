package script

import (
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// openLibraries fills in what scripts see: the functions of Lua that can do no harm, and those of Redis.
func (vm *VM) openLibraries() {
	L := vm.state
	vm.plainly = L.NewFunction(vm.plain)
	vm.shared = L.NewTable()
	vm.globals = L.NewTable()

	// The base functions of the library, most of which are used unchanged.
	lua.OpenBase(L)
	lua.OpenMath(L)
	lua.OpenTable(L)
	own := L.G.Global
	for _, name := range []string{
		"assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "select", "type",
		"_VERSION",
	} {
		vm.shared.RawSetString(name, own.RawGetString(name))
	}
	library := func(name string) lua.LGFunction { return own.RawGetString(name).(*lua.LFunction).GFunction }
	vm.functions(vm.shared, map[string]lua.LGFunction{
		"pcall": vm.protected, "xpcall": vm.xpcall, "unpack": unpack(library("unpack")),
		fnConcat: vm.concat, fnTable: vm.newTable, fnEmpty: vm.newEmpty, fnKey: vm.newKey, fnClosure: vm.newClosure, fnStore: vm.store, fnNumber: numeric(1, same),
		"rawset": vm.rawSet, "setmetatable": vm.setMetatable, "tostring": vm.toString, "tonumber": vm.toNumber,
		"load": vm.load, "loadstring": vm.load, "collectgarbage": vm.collect, "gcinfo": vm.collect,
	})
	vm.shared.RawSetString("_G", vm.globals)

	maths := own.RawGetString("math").(*lua.LTable)
	maths.ForEach(func(name, f lua.LValue) {
		if f, ok := f.(*lua.LFunction); ok {
			maths.RawSet(name, L.NewFunction(numeric(1, f.GFunction)))
		}
	})
	maths.RawSetString("huge", lua.LNumber(math.Inf(1)))
	vm.functions(maths, map[string]lua.LGFunction{"random": vm.mathRandom, "randomseed": vm.mathRandomSeed})
	vm.module("math", maths)
	vm.module("table", vm.functions(own.RawGetString("table").(*lua.LTable), map[string]lua.LGFunction{
		"concat": vm.tableConcat, "insert": vm.tableInsert, "sort": vm.tableSort,
		"remove": vm.tableRemove(own.RawGetString("table").(*lua.LTable).RawGetString("remove").(*lua.LFunction).GFunction),
	}))
	strs := vm.functions(L.NewTable(), vm.stringFunctions())
	vm.module("string", strs)
	vm.strings = vm.functions(L.NewTable(), vm.arithmetic())
	vm.strings.RawSetString("__index", strs)
	vm.strings.RawSetString("__metatable", lua.LFalse)
	L.SetMetatable(lua.LString(""), vm.strings)
	vm.module("bit", vm.functions(L.NewTable(), bitFunctions()))
	vm.module("struct", vm.functions(L.NewTable(), map[string]lua.LGFunction{
		"pack": vm.structPack, "unpack": vm.structUnpack, "size": vm.structSize,
	}))
	vm.module("cjson", vm.cjson())
	vm.module("cmsgpack", vm.functions(L.NewTable(), map[string]lua.LGFunction{
		"pack": vm.msgpackPack, "unpack": vm.msgpackUnpack,
	}))
	redis := vm.redis()
	vm.module("redis", redis)
	vm.module("server", redis)
	vm.guardGlobals()
}

// guardGlobals lets scripts see an empty table, so that each assignment to a global variable meets __newindex.
func (vm *VM) guardGlobals() {
	L := vm.state
	missing := L.NewTable()
	missing.RawSetString("__index", L.NewFunction(func(L *lua.LState) int {
		// Nothing of the script runs here: the shared table is in a register.
		name, _ := text(L.Get(2))
		L.RaiseError("Script attempted to access nonexistent global variable '%s'", name)
		return 0
	}))
	vm.shared.Metatable = missing
	proxy := L.NewTable()
	proxy.RawSetString("__index", vm.shared)
	proxy.RawSetString("__newindex", L.NewFunction(func(L *lua.LState) int {
		L.RaiseError("Attempt to modify a readonly table")
		return 0
	}))
	proxy.RawSetString("__metatable", lua.LFalse)
	vm.globals.Metatable = proxy
	for _, t := range []*lua.LTable{vm.globals, vm.shared, vm.strings, proxy, missing} {
		vm.readOnly[t] = true
	}
	L.Env = vm.globals
	L.G.Global = vm.globals
}

// functions adds functions to a table.
func (vm *VM) functions(t *lua.LTable, functions map[string]lua.LGFunction) *lua.LTable {
	for name, f := range functions {
		t.RawSetString(name, vm.state.NewFunction(f))
	}
	return t
}

// module makes a table a global variable that scripts cannot change.
func (vm *VM) module(name string, t *lua.LTable) {
	vm.shared.RawSetString(name, t)
	vm.readOnly[t] = true
}

// concat is a .. b .. c.
func (vm *VM) concat(L *lua.LState) int {
	n := L.GetTop()
	total, plain := 0, true
	for i := 1; i <= n; i++ {
		s, ok := text(L.Get(i))
		plain = plain && ok
		total += len(s)
	}
	if !plain {
		return vm.concatMeta(L, n)
	}
	vm.chargeText(L, total)
	var b strings.Builder
	b.Grow(total)
	for i := 1; i <= n; i++ {
		s, _ := text(L.Get(i))
		b.WriteString(s)
	}
	L.Push(lua.LString(b.String()))
	return 1
}

// concatMeta concatenates values of which some are neither strings nor numbers, from the right.
func (vm *VM) concatMeta(L *lua.LState, n int) int {
	right := L.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := L.Get(i)
		l, ok := text(left)
		r, also := text(right)
		if ok && also {
			vm.chargeText(L, len(l)+len(r))
			right = lua.LString(l + r)
			continue
		}
		f := L.GetMetaField(left, "__concat")
		if f.Type() != lua.LTFunction {
			f = L.GetMetaField(right, "__concat")
		}
		if f.Type() != lua.LTFunction {
			bad := left
			if ok {
				bad = right
			}
			L.RaiseError("attempt to concatenate a %s value", bad.Type())
		}
		L.Push(f)
		L.Push(left)
		L.Push(right)
		vm.calls(L, 2, 1)
		right = L.Get(-1)
		L.Pop(1)
	}
	L.Push(right)
	return 1
}

// same returns its argument.
func same(*lua.LState) int { return 1 }

// store is t[k] = v. It goes the way of the metatables itself, since each table on it may be one that scripts share.
func (vm *VM) store(L *lua.LState) int {
	object, key, v := L.Get(1), L.Get(2), L.Get(3)
	for range lua.MaxTableGetLoop {
		t, ok := object.(*lua.LTable)
		if !ok {
			break
		}
		if t.Metatable == lua.LNil {
			vm.put(L, t, key, v)
			return 0
		}
		vm.refuseShared(L, t)
		next := L.GetMetaField(t, "__newindex")
		if next == lua.LNil || t.RawGet(key) != lua.LNil {
			vm.put(L, t, key, v)
			return 0
		}
		if next.Type() == lua.LTFunction {
			L.Push(next)
			L.Push(t)
			L.Push(key)
			L.Push(v)
			vm.calls(L, 3, 0)
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
func (vm *VM) refuseShared(L *lua.LState, t *lua.LTable) {
	if vm.readOnly[t] {
		L.RaiseError("Attempt to modify a readonly table")
	}
}

// put stores in a table without its metatable, and charges what the table grows by.
func (vm *VM) put(L *lua.LState, t *lua.LTable, key, v lua.LValue) {
	vm.beforeStore(L, t, key)
	L.RawSet(t, key, v)
}

func (vm *VM) rawSet(L *lua.LState) int {
	t := L.CheckTable(1)
	vm.put(L, t, L.CheckAny(2), L.CheckAny(3))
	L.SetTop(1)
	return 1
}

func (vm *VM) setMetatable(L *lua.LState) int {
	t := L.CheckTable(1)
	vm.refuseShared(L, t)
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

// pcall is Lua's. As in Redis, an error that is a table with a field err is returned as the text of that field.
func (vm *VM) protected(L *lua.LState) int {
	f := L.CheckAny(1)
	if f.Type() != lua.LTFunction && L.GetMetaField(f, "__call").Type() != lua.LTFunction {
		L.Push(lua.LFalse)
		L.Push(lua.LString("attempt to call a " + f.Type().String() + " value"))
		return 2
	}
	L.Insert(vm.plainly, 1)
	return vm.caught(L, vm.pcalls(L, L.GetTop()-1, lua.MultRet, nil))
}

// maxNested is how deeply functions of the libraries that call the script may be nested, as in Lua. Each adds to the time
// that an error takes which goes through all of them.
const maxNested = 200

// nest counts a call of the script by a library. The caller takes it back, or the pcall that an error meets.
func (vm *VM) nest(L *lua.LState) {
	if vm.nested >= maxNested {
		L.RaiseError("stack overflow")
	}
	vm.nested++
}

// calls calls a function of the script.
func (vm *VM) calls(L *lua.LState, args, results int) {
	vm.nest(L)
	L.Call(args, results)
	vm.nested--
}

// pcalls calls a function of the script, and returns its error.
func (vm *VM) pcalls(L *lua.LState, args, results int, handler *lua.LFunction) error {
	vm.nest(L)
	before := vm.nested - 1
	err := L.PCall(args, results, handler)
	vm.nested = before
	return err
}

// plain calls its first argument with the others, under pcall. An error there has no trace of the stack: to write one takes
// milliseconds where a script has nested its calls, and the end of a run goes through every pcall of it.
func (vm *VM) plain(L *lua.LState) int {
	L.Panic = func(L *lua.LState) {
		panic(&lua.ApiError{Type: lua.ApiErrorRun, Object: L.Get(-1), StackTrace: "none"})
	}
	L.Call(L.GetTop()-1, lua.MultRet)
	return L.GetTop()
}

// caught returns the results of pcall and xpcall. The text of an error may be one that the library has made.
func (vm *VM) caught(L *lua.LState, err error) int {
	if err == nil {
		L.Insert(lua.LTrue, 1)
		return L.GetTop()
	}
	L.Push(lua.LFalse)
	v := errorObject(err)
	if t, ok := v.(*lua.LTable); ok {
		if s, ok := t.RawGetString("err").(lua.LString); ok {
			v = s
		}
	}
	if s, ok := v.(lua.LString); ok {
		return 1 + vm.push(L, string(s))
	}
	L.Push(v)
	return 2
}

// xpcall is Lua's. The handler runs when the call has been taken back, not on top of it: no library shows a script its stack, and
// a call that has filled the registers leaves no room, so each handler of a script that nests them would make them larger. What
// the handler gets may be a text that the library has made.
func (vm *VM) xpcall(L *lua.LState) int {
	f, handler := L.CheckFunction(1), L.CheckFunction(2)
	L.SetTop(0)
	L.Push(vm.plainly)
	L.Push(f)
	err := vm.pcalls(L, 1, lua.MultRet, nil)
	if err == nil {
		return vm.caught(L, nil)
	}
	v := errorObject(err)
	if s, ok := v.(lua.LString); ok && !vm.spend(len(s)+stringSize) || vm.meter.end != nil || vm.nested >= maxNested {
		return vm.caught(L, err)
	}
	L.Push(vm.plainly)
	L.Push(handler)
	L.Push(v)
	if err = vm.pcalls(L, 2, 1, nil); err == nil {
		err = &lua.ApiError{Object: L.Get(-1)}
		L.Pop(1)
	}
	return vm.caught(L, err)
}

// errorObject returns what an error of the library carries.
func errorObject(err error) lua.LValue {
	if e, ok := err.(*lua.ApiError); ok && e.Object != nil { //nolint:errorlint // PCall returns it as it is
		return e.Object
	}
	return lua.LString(err.Error())
}

func (vm *VM) toString(L *lua.LState) int {
	v := L.CheckAny(1)
	if f := L.GetMetaField(v, "__tostring"); f != lua.LNil {
		L.Push(f)
		L.Push(v)
		vm.calls(L, 1, 1)
		return 1
	}
	if s, ok := text(v); ok {
		return vm.push(L, s)
	}
	return vm.push(L, v.String())
}

// load compiles a string, or what a function returns piece by piece.
func (vm *VM) load(L *lua.LState) int {
	var source string
	switch v := L.CheckAny(1).(type) {
	case *lua.LFunction:
		for {
			L.Push(v)
			vm.calls(L, 0, 1)
			piece, _ := text(L.Get(-1))
			L.Pop(1)
			if piece == "" {
				break
			}
			vm.chargeText(L, len(source)+len(piece))
			source += piece
		}
	default:
		source = L.CheckString(1)
	}
	// The compiler takes about as long as ten steps a byte, and about so much memory; and 17 kB for each function.
	if len(source) <= MaxSource {
		vm.work(L, 10*len(source))
		vm.charge(L, 160*len(source)+(1+strings.Count(source, "function"))*17_000)
	}
	name := L.OptString(2, source)
	if len(name) > 60 {
		name = name[:60]
	}
	proto, err := compile(source, "[string \""+strings.TrimPrefix(name, "@")+"\"]")
	if err != nil {
		L.Push(lua.LNil)
		vm.push(L, err.Error())
		return 2
	}
	vm.charge(L, trim(proto))
	fn := L.NewFunctionFromProto(proto)
	fn.Env = vm.globals
	L.Push(fn)
	return 1
}

// collect is collectgarbage: there is nothing to do, and how much memory is used is not for scripts to know.
func (vm *VM) collect(L *lua.LState) int {
	L.Push(lua.LNumber(0))
	return 1
}
