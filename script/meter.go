package script

import (
	"context"
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
)

// meter counts what a run uses, and so bounds it. Every function of the libraries has it. It is the context of the virtual machine, which asks for Done before each instruction.
type meter struct {
	context.Context
	steps, memory int64
	spent         int64 // of the memory, before the reply
	text          int64 // the longest text
	nested        int   // calls of the script by functions of the libraries, one in the other
	stop          *atomic.Bool
	attend        func() error
	end           error
	closed        chan struct{}
}

// Done counts a step. The channel that it returns is closed once the run has to end.
func (m *meter) Done() <-chan struct{} {
	if m.used(1) != nil {
		return m.closed
	}
	return nil
}

// used counts steps, and returns why the run has to end, nil if it may go on.
func (m *meter) used(steps int) error {
	m.steps -= int64(steps)
	switch {
	case m.end != nil:
	case m.steps < 0:
		m.end = ErrSteps
	case m.stop.Load():
		m.end = m.attend()
	}
	return m.end
}

// Err returns why the run has to end.
func (m *meter) Err() error { return m.end }

// charge counts bytes that a script is about to use, and ends the run if they are too many.
func (m *meter) charge(L *lua.LState, bytes int) {
	if !m.spend(bytes) {
		L.RaiseError("%s", m.end.Error())
	}
}

// chargeText counts a text. One may have a quarter of the memory, because the errors of the library may copy it a few times.
func (m *meter) chargeText(L *lua.LState, bytes int) {
	if int64(bytes) > m.text && m.end == nil {
		m.end = ErrMemory
	}
	m.charge(L, bytes+stringSize)
}

// spend is charge where nothing can be raised, for a step. It reports whether the run may go on.
func (m *meter) spend(bytes int) bool {
	m.memory -= int64(bytes)
	if m.memory < 0 && m.end == nil {
		m.end = ErrMemory
	}
	return m.used(1) == nil
}

// work counts the steps of a library function, and ends the run when they are used up.
func (m *meter) work(L *lua.LState, steps int) {
	if end := m.used(steps); end != nil {
		L.RaiseError("%s", end.Error())
	}
}

// grow returns b with room for n more bytes, and charges what it takes.
func (m *meter) grow(L *lua.LState, b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b
	}
	m.chargeText(L, len(b)+n)
	size := max(2*cap(b), len(b)+n)
	m.charge(L, size-len(b)-n)
	return append(make([]byte, 0, size), b...)
}

// append appends a text to what a function of the library makes, and charges its bytes.
func (m *meter) append(L *lua.LState, b []byte, s string) []byte {
	return append(m.grow(L, b, len(s)), s...)
}

// push pushes a string that has just been made, and charges its bytes.
func (m *meter) push(L *lua.LState, s string) int {
	m.chargeText(L, len(s))
	L.Push(lua.LString(s))
	return 1
}

// maxNested is how deeply functions of the libraries that call the script may be nested, as in Lua. Each adds to the time
// that an error takes which goes through all of them.
const maxNested = 200

// nest counts a call of the script by a library. The caller takes it back, or the pcall that an error meets.
func (m *meter) nest(L *lua.LState) {
	if m.nested >= maxNested {
		L.RaiseError("stack overflow")
	}
	m.nested++
}

// calls calls a function of the script.
func (m *meter) calls(L *lua.LState, args, results int) {
	m.nest(L)
	L.Call(args, results)
	m.nested--
}

// pcalls calls a function of the script, and returns its error.
func (m *meter) pcalls(L *lua.LState, args, results int, handler *lua.LFunction) error {
	m.nest(L)
	before := m.nested - 1
	err := L.PCall(args, results, handler)
	m.nested = before
	return err
}
