package script

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
)

// Host is what a script runs in.
type Host interface {
	// Call runs a command and appends its reply to b, in RESP3 if resp3 is set, else in RESP2. The arguments are valid
	// until Call returns.
	Call(args [][]byte, resp3 bool, b []byte) []byte
	// Attend is called once the run's flag is set, before its next step. It returns why the run must end, nil if it may go on.
	Attend() error
	// Log writes a line to the server's log. level is 0 (debug) to 3 (warning).
	Log(level int, message string)
}

// Bounds limit what one run may use.
type Bounds struct {
	// Steps is how many instructions of the virtual machine.
	Steps int64
	// Memory is how many bytes it may allocate, whether it still uses them or not. Its reply may take as many again.
	Memory int64
}

// The ends of a run that the script cannot catch.
const (
	// ErrSteps is a run that has used all its steps.
	ErrSteps = Wording("Script ended: it has run for too many steps")
	// ErrMemory is a run that has used all its memory.
	ErrMemory = Wording("Script ended: it has used too much memory")
	// ErrStopped is a run that another goroutine has stopped.
	ErrStopped = Wording("Script killed by user with SCRIPT KILL.")
)

// The bounds of a virtual machine: the depth of calls, and the registers of all calls together.
const (
	maxCalls     = 2000
	minRegisters = 1024
	maxRegisters = 64 * 1024
)

// The memory for commands and replies that a virtual machine keeps from run to run.
const (
	keptBytes = 64 << 10
	keptArgs  = 1024
	// keptMemory is how much memory a run may have used so that its Lua state is used again.
	keptMemory = 1 << 20
)

// VM runs scripts, one at a time. Nothing that a script does to it lasts until the next run.
type VM struct {
	state    *lua.LState
	globals  *lua.LTable    // what a script sees as its global variables; always empty
	shared   *lua.LTable    // what globals falls back to
	plainly  *lua.LFunction // plain
	strings  *lua.LTable    // the metatable of strings
	meter    meter
	tables   tables
	random   rand48
	seeded   bool   // the run has set the seed
	unseeded rand48 // what random was before
	run      run
}

// NewVM returns a virtual machine. The random numbers of its scripts follow from seed.
func NewVM(seed uint32) *VM {
	vm := &VM{random: seedRand48(seed)}
	vm.tables = tables{meter: &vm.meter, layout: tableLayout()}
	vm.run.meter = &vm.meter
	vm.open()
	return vm
}

// open begins with a new state of the library.
func (vm *VM) open() {
	vm.tables.readOnly = map[*lua.LTable]bool{}
	vm.meter = meter{Context: context.Background(), stop: new(atomic.Bool), closed: make(chan struct{})}
	close(vm.meter.closed)
	vm.state = lua.NewState(lua.Options{
		CallStackSize: maxCalls, MinimizeStackMemory: true,
		RegistrySize: minRegisters, RegistryMaxSize: maxRegisters, RegistryGrowStep: minRegisters,
		SkipOpenLibs: true,
	})
	vm.openLibraries()
}

// Run runs a script and appends its reply to b, in RESP3 if resp3 is set. An error of the script is an error reply.
// Another goroutine may set the flag, so that the run asks the host whether it may go on. Run itself returns one of the errors above; then b has no reply, and
// the caller must drop what the script has written.
func (vm *VM) Run(s *Script, keys, argv [][]byte, host Host, bounds Bounds, flag *atomic.Bool, resp3 bool, b []byte) (reply []byte, err error) {
	vm.meter.steps, vm.meter.memory, vm.meter.stop, vm.meter.end = bounds.Steps, bounds.Memory, flag, nil
	vm.meter.attend = host.Attend
	vm.meter.nested, vm.meter.spent = 0, 0
	vm.meter.text = bounds.Memory / 4
	vm.run = run{meter: &vm.meter, host: host, args: vm.run.args, reply: vm.run.reply}
	L := vm.state
	vm.shared.RawSetString("KEYS", vm.list(keys))
	vm.shared.RawSetString("ARGV", vm.list(argv))
	defer func() {
		if p := recover(); p != nil {
			// The library has run out of registers, or has a defect. The server continues, and does not use this Lua
			// state again.
			if reply, err = b, vm.meter.end; err == nil {
				text, _, _ := strings.Cut(fmt.Sprint(p), "\n")
				reply = appendError(b, "ERR Error running script: "+text)
			}
			vm.open()
		}
		if vm.seeded {
			vm.seeded, vm.random = false, vm.unseeded
		}
		if vm.meter.end != nil || vm.meter.spent > keptMemory {
			vm.open() // the state may still reach what the script has made, in its registers, calls and arguments
		}
		vm.run.raised = ""
		if vm.run.host = nil; cap(vm.run.reply) > keptBytes || cap(vm.run.args) > keptArgs {
			vm.run.args, vm.run.reply = nil, nil
		}
	}()
	fn := L.NewFunctionFromProto(s.proto)
	fn.Env = vm.globals
	L.SetContext(&vm.meter)
	L.Push(fn)
	err = L.PCall(0, 1, L.NewFunction(vm.run.where))
	L.RemoveContext()
	if vm.meter.end != nil {
		L.SetTop(0)
		return b, vm.meter.end
	}
	if err != nil {
		vm.meter.spent = bounds.Memory - vm.meter.memory
		L.SetTop(0)
		return appendFailure(b, s, err), nil
	}
	v := L.Get(-1)
	L.SetTop(0)
	vm.meter.spent, vm.meter.memory = bounds.Memory-vm.meter.memory, bounds.Memory
	if reply = vm.run.appendReply(b, v, resp3, 0); vm.meter.end != nil {
		return b, vm.meter.end
	}
	return reply, nil
}

// list makes a table of arguments.
func (vm *VM) list(args [][]byte) *lua.LTable {
	t := vm.state.CreateTable(len(args), 0)
	for _, a := range args {
		t.Append(lua.LString(a))
	}
	return t
}
