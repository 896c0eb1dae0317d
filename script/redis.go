package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// version is the version of Redis that scripts see: scripts run as they do there.
const version = "7.0.15"

// redis returns the table of that name.
func (vm *VM) redis() *lua.LTable {
	t := vm.functions(vm.state.NewTable(), map[string]lua.LGFunction{
		"call": vm.call, "pcall": vm.pcall, "error_reply": vm.errorReply, "status_reply": vm.statusReply,
		"sha1hex": vm.sha1hex, "log": vm.log, "setresp": vm.setResp,
		// In Redis, these functions control how a script is replicated and debugged. Here they have no effect: a
		// script's outcome is replicated.
		"replicate_commands": always(lua.LTrue), "set_repl": always(), "breakpoint": always(lua.LFalse), "debug": always(),
		"acl_check_cmd": always(lua.LTrue),
	})
	for name, n := range map[string]lua.LNumber{
		"LOG_DEBUG": 0, "LOG_VERBOSE": 1, "LOG_NOTICE": 2, "LOG_WARNING": 3,
		"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3, "REDIS_VERSION_NUM": 0x07000F,
	} {
		t.RawSetString(name, n)
	}
	t.RawSetString("REDIS_VERSION", lua.LString(version))
	return t
}

// always returns a function that returns the same values at every call.
func always(values ...lua.LValue) lua.LGFunction {
	return func(L *lua.LState) int {
		for _, v := range values {
			L.Push(v)
		}
		return len(values)
	}
}

// command runs a command of the script and pushes its reply.
func (vm *VM) command(L *lua.LState) {
	n := L.GetTop()
	if n == 0 {
		vm.pushError(L, "ERR Please specify at least one argument for this redis lib call")
		return
	}
	args := vm.run.args[:0]
	before := vm.meter.memory
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			vm.charge(L, len(v))
			args = append(args, []byte(v))
		case lua.LNumber:
			args = append(args, AppendNumber(nil, float64(v), 17))
		default:
			vm.pushError(L, "ERR Lua redis lib command arguments must be strings or integers")
			return
		}
	}
	vm.run.args = args
	vm.work(L, 10)
	vm.run.reply = vm.run.host.Call(args, vm.run.resp3, vm.run.reply[:0])
	clear(args)
	vm.meter.memory = before // the arguments are no longer needed
	reply := vm.run.reply
	if len(reply) > 0 && reply[0] != ':' {
		vm.charge(L, 2*len(reply)+stringSize)
	}
	vm.work(L, len(reply)/64)
	rest := vm.pushValue(L, reply)
	if len(rest) != 0 && rest[0] != '\n' {
		L.RaiseError("limitdb: a command has replied more than once")
	}
}

// call is redis.call: an error of the command ends the script.
func (vm *VM) call(L *lua.LState) int {
	vm.command(L)
	if t, ok := L.Get(-1).(*lua.LTable); ok {
		vm.raise(L, t)
	}
	return 1
}

// raise ends the script if t is an error reply. As in Redis, what Lua's own pcall then catches is the text of the error.
func (vm *VM) raise(L *lua.LState, t *lua.LTable) {
	if message, ok := t.RawGetString("err").(lua.LString); ok {
		vm.run.raised = message
		L.Error(message, 0)
	}
}

// fail ends the script with an error reply of a function of this table.
func (vm *VM) fail(L *lua.LState, message string) {
	vm.run.raised = lua.LString("ERR " + message)
	L.Error(vm.run.raised, 0)
}

// pcall is redis.pcall: an error of the command is what it returns.
func (vm *VM) pcall(L *lua.LState) int {
	vm.command(L)
	return 1
}

// pushError pushes an error reply.
func (vm *VM) pushError(L *lua.LState, message string) {
	vm.charge(L, taggedSize+len(message))
	t := L.CreateTable(0, 1)
	t.RawSetString("err", lua.LString(message))
	L.Push(t)
}

func (vm *VM) errorReply(L *lua.LState) int {
	s, ok := L.Get(1).(lua.LString)
	if !ok || L.GetTop() != 1 {
		vm.pushError(L, "ERR wrong number or type of arguments")
		return 1
	}
	message := strings.TrimRight(string(s), "\r\n")
	if rest, found := strings.CutPrefix(message, "-"); found {
		message = rest
	}
	if !strings.Contains(message, " ") {
		message = "ERR " + message
	}
	vm.pushError(L, message)
	return 1
}

func (vm *VM) statusReply(L *lua.LState) int {
	s, ok := L.Get(1).(lua.LString)
	if !ok || L.GetTop() != 1 {
		vm.pushError(L, "ERR wrong number or type of arguments")
		return 1
	}
	vm.charge(L, taggedSize)
	t := L.CreateTable(0, 1)
	t.RawSetString("ok", s)
	L.Push(t)
	return 1
}

func (vm *VM) sha1hex(L *lua.LState) int {
	if L.GetTop() != 1 {
		vm.fail(L, "wrong number of arguments")
	}
	s := str(L, 1)
	vm.work(L, len(s)/8)
	return vm.push(L, SHA([]byte(s)))
}

func (vm *VM) log(L *lua.LState) int {
	n := L.GetTop()
	if n < 2 {
		vm.fail(L, "redis.log() requires two arguments or more.")
	}
	level, ok := L.Get(1).(lua.LNumber)
	if !ok {
		vm.fail(L, "First argument must be a number (log level).")
	}
	if level < 0 || level > 3 {
		vm.fail(L, "Invalid debug level.")
	}
	words := make([]string, 0, n-1)
	for i := 2; i <= n; i++ {
		if s, ok := text(L.Get(i)); ok {
			vm.charge(L, len(s))
			words = append(words, s)
		}
	}
	vm.run.host.Log(int(level), strings.Join(words, " "))
	return 0
}

func (vm *VM) setResp(L *lua.LState) int {
	if L.GetTop() != 1 {
		vm.fail(L, "redis.setresp() requires one argument.")
	}
	switch L.CheckNumber(1) {
	case 2:
		vm.run.resp3 = false
	case 3:
		vm.run.resp3 = true
	default:
		vm.fail(L, "RESP version must be 2 or 3.")
	}
	return 0
}
