package script

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// version is the version of Redis that scripts see: scripts run as they do there.
const version = "7.0.15"

// run is what one run has to do with its host: the commands that it calls, and the replies. Its methods are the functions of
// the table redis.
type run struct {
	*meter
	host   Host
	resp3  bool        // as redis.setresp has set it
	raised lua.LString // the text of the last error reply that has ended redis.call
	args   [][]byte
	reply  []byte
}

// redis returns the table of that name.
func (vm *VM) redis() *lua.LTable {
	t := vm.functions(vm.state.NewTable(), map[string]lua.LGFunction{
		"call": vm.run.call, "pcall": vm.run.pcall, "error_reply": vm.run.errorReply, "status_reply": vm.run.statusReply,
		"sha1hex": vm.run.sha1hex, "log": vm.run.log, "setresp": vm.run.setResp,
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
func (r *run) command(L *lua.LState) {
	n := L.GetTop()
	if n == 0 {
		r.pushError(L, "ERR Please specify at least one argument for this redis lib call")
		return
	}
	args := r.args[:0]
	before := r.memory
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			r.charge(L, len(v))
			args = append(args, []byte(v))
		case lua.LNumber:
			args = append(args, AppendNumber(nil, float64(v), 17))
		default:
			r.pushError(L, "ERR Lua redis lib command arguments must be strings or integers")
			return
		}
	}
	r.args = args
	r.work(L, 10)
	r.reply = r.host.Call(args, r.resp3, r.reply[:0])
	clear(args)
	r.memory = before // the arguments are no longer needed
	reply := r.reply
	if len(reply) > 0 && reply[0] != ':' {
		r.charge(L, 2*len(reply)+stringSize)
	}
	r.work(L, len(reply)/64)
	rest := r.pushValue(L, reply)
	if len(rest) != 0 && rest[0] != '\n' {
		L.RaiseError("limitdb: a command has replied more than once")
	}
}

// call is redis.call: an error of the command ends the script.
func (r *run) call(L *lua.LState) int {
	r.command(L)
	if t, ok := L.Get(-1).(*lua.LTable); ok {
		r.raise(L, t)
	}
	return 1
}

// raise ends the script if t is an error reply. As in Redis, what Lua's own pcall then catches is the text of the error.
func (r *run) raise(L *lua.LState, t *lua.LTable) {
	if message, ok := t.RawGetString("err").(lua.LString); ok {
		r.raised = message
		L.Error(message, 0)
	}
}

// fail ends the script with an error reply of a function of this table.
func (r *run) fail(L *lua.LState, message string) {
	r.raised = lua.LString("ERR " + message)
	L.Error(r.raised, 0)
}

// pcall is redis.pcall: an error of the command is what it returns.
func (r *run) pcall(L *lua.LState) int {
	r.command(L)
	return 1
}

// pushError pushes an error reply.
func (r *run) pushError(L *lua.LState, message string) {
	r.charge(L, taggedSize+len(message))
	t := L.CreateTable(0, 1)
	t.RawSetString("err", lua.LString(message))
	L.Push(t)
}

func (r *run) errorReply(L *lua.LState) int {
	s, ok := L.Get(1).(lua.LString)
	if !ok || L.GetTop() != 1 {
		r.pushError(L, "ERR wrong number or type of arguments")
		return 1
	}
	message := strings.TrimRight(string(s), "\r\n")
	if rest, found := strings.CutPrefix(message, "-"); found {
		message = rest
	}
	if !strings.Contains(message, " ") {
		message = "ERR " + message
	}
	r.pushError(L, message)
	return 1
}

func (r *run) statusReply(L *lua.LState) int {
	s, ok := L.Get(1).(lua.LString)
	if !ok || L.GetTop() != 1 {
		r.pushError(L, "ERR wrong number or type of arguments")
		return 1
	}
	r.charge(L, taggedSize)
	t := L.CreateTable(0, 1)
	t.RawSetString("ok", s)
	L.Push(t)
	return 1
}

func (r *run) sha1hex(L *lua.LState) int {
	if L.GetTop() != 1 {
		r.fail(L, "wrong number of arguments")
	}
	s := str(L, 1)
	r.work(L, len(s)/8)
	return r.push(L, SHA([]byte(s)))
}

func (r *run) log(L *lua.LState) int {
	n := L.GetTop()
	if n < 2 {
		r.fail(L, "redis.log() requires two arguments or more.")
	}
	level, ok := L.Get(1).(lua.LNumber)
	if !ok {
		r.fail(L, "First argument must be a number (log level).")
	}
	if level < 0 || level > 3 {
		r.fail(L, "Invalid debug level.")
	}
	words := make([]string, 0, n-1)
	for i := 2; i <= n; i++ {
		if s, ok := text(L.Get(i)); ok {
			r.charge(L, len(s))
			words = append(words, s)
		}
	}
	r.host.Log(int(level), strings.Join(words, " "))
	return 0
}

func (r *run) setResp(L *lua.LState) int {
	if L.GetTop() != 1 {
		r.fail(L, "redis.setresp() requires one argument.")
	}
	switch L.CheckNumber(1) {
	case 2:
		r.resp3 = false
	case 3:
		r.resp3 = true
	default:
		r.fail(L, "RESP version must be 2 or 3.")
	}
	return 0
}
