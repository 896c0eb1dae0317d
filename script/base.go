package script

import (
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// openLibraries fills in what scripts see: the functions of Lua that can do no harm, and those of Redis.
func (vm *VM) openLibraries() {
	L, texts := vm.state, stringLibrary{&vm.meter}
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
		fnConcat: texts.concat, fnTable: vm.tables.newTable, fnEmpty: vm.tables.newEmpty, fnKey: vm.tables.newKey, fnClosure: vm.meter.newClosure, fnStore: vm.tables.store, fnNumber: numeric(1, same),
		"rawset": vm.tables.rawSet, "setmetatable": vm.tables.setMetatable, "tostring": vm.toString, "tonumber": toNumberIn,
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
		"concat": vm.tables.tableConcat, "insert": vm.tables.tableInsert, "sort": vm.tables.tableSort,
		"remove": vm.tables.tableRemove(own.RawGetString("table").(*lua.LTable).RawGetString("remove").(*lua.LFunction).GFunction),
	}))
	strs := vm.functions(L.NewTable(), texts.stringFunctions())
	vm.module("string", strs)
	vm.strings = vm.functions(L.NewTable(), arithmetic())
	vm.strings.RawSetString("__index", strs)
	vm.strings.RawSetString("__metatable", lua.LFalse)
	L.SetMetatable(lua.LString(""), vm.strings)
	vm.module("bit", vm.functions(L.NewTable(), bitFunctions()))
	vm.module("struct", vm.functions(L.NewTable(), map[string]lua.LGFunction{
		"pack": texts.structPack, "unpack": texts.structUnpack, "size": structSize,
	}))
	vm.module("cjson", vm.cjson())
	vm.module("cmsgpack", vm.functions(L.NewTable(), map[string]lua.LGFunction{
		"pack": vm.tables.msgpackPack, "unpack": vm.tables.msgpackUnpack,
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
		vm.tables.readOnly[t] = true
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
	vm.tables.readOnly[t] = true
}

// same returns its argument.
func same(*lua.LState) int { return 1 }

// pcall is Lua's. As in Redis, an error that is a table with a field err is returned as the text of that field.
func (vm *VM) protected(L *lua.LState) int {
	f := L.CheckAny(1)
	if f.Type() != lua.LTFunction && L.GetMetaField(f, "__call").Type() != lua.LTFunction {
		L.Push(lua.LFalse)
		L.Push(lua.LString("attempt to call a " + f.Type().String() + " value"))
		return 2
	}
	L.Insert(vm.plainly, 1)
	return vm.caught(L, vm.meter.pcalls(L, L.GetTop()-1, lua.MultRet, nil))
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
		return 1 + vm.meter.push(L, string(s))
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
	err := vm.meter.pcalls(L, 1, lua.MultRet, nil)
	if err == nil {
		return vm.caught(L, nil)
	}
	v := errorObject(err)
	if s, ok := v.(lua.LString); ok && !vm.meter.spend(len(s)+stringSize) || vm.meter.end != nil || vm.meter.nested >= maxNested {
		return vm.caught(L, err)
	}
	L.Push(vm.plainly)
	L.Push(handler)
	L.Push(v)
	if err = vm.meter.pcalls(L, 2, 1, nil); err == nil {
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
		vm.meter.calls(L, 1, 1)
		return 1
	}
	if s, ok := text(v); ok {
		return vm.meter.push(L, s)
	}
	return vm.meter.push(L, v.String())
}

// load compiles a string, or what a function returns piece by piece.
func (vm *VM) load(L *lua.LState) int {
	var source string
	switch v := L.CheckAny(1).(type) {
	case *lua.LFunction:
		for {
			L.Push(v)
			vm.meter.calls(L, 0, 1)
			piece, _ := text(L.Get(-1))
			L.Pop(1)
			if piece == "" {
				break
			}
			vm.meter.chargeText(L, len(source)+len(piece))
			source += piece
		}
	default:
		source = L.CheckString(1)
	}
	// The compiler takes about as long as ten steps a byte, and about so much memory; and 17 kB for each function.
	if len(source) <= MaxSource {
		vm.meter.work(L, 10*len(source))
		vm.meter.charge(L, 160*len(source)+(1+strings.Count(source, "function"))*17_000)
	}
	name := L.OptString(2, source)
	if len(name) > 60 {
		name = name[:60]
	}
	proto, err := compile(source, "[string \""+strings.TrimPrefix(name, "@")+"\"]")
	if err != nil {
		L.Push(lua.LNil)
		vm.meter.push(L, err.Error())
		return 2
	}
	vm.meter.charge(L, trim(proto))
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
