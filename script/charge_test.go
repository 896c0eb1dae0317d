package script

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// weigher is a host that measures the heap when the script calls a command.
type weigher struct {
	fakeHost
	vm      *VM
	before  uint64
	taken   int
	charged int64
}

// heap returns the bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (w *weigher) Call(args [][]byte, resp3 bool, b []byte) []byte {
	if string(args[0]) != "WEIGH" {
		return w.fakeHost.Call(args, resp3, b)
	}
	w.taken, w.charged = int(heap())-int(w.before), roomy.Memory-w.vm.meter.memory
	return append(b, "+OK\r\n"...)
}

// What a script keeps, it has paid for, whatever it is made of and however it came there.
//
//test:norace
func TestMemoryIsPaidFor(t *testing.T) {
	const long = "local long = ('x'):rep(200000) "
	for name, source := range map[string]string{
		"array":                      `for i = 1, 50000 do t[i] = i end`,
		"array by __newindex":        `local m = setmetatable({}, {__newindex = t}) for i = 1, 50000 do m[i] = i end`,
		"far by __newindex":          `setmetatable({}, {__newindex = t})[100000] = 1`,
		"far key":                    `t[1] = {[100000] = 1}`,
		"computed key":               `local k = 100000 t[1] = {[k] = 1}`,
		"strings":                    `for i = 1, 20000 do t['k' .. i] = i end`,
		"strings by __newindex":      `local m = setmetatable({}, {__newindex = t}) for i = 1, 20000 do m['k' .. i] = i end`,
		"rawset":                     `for i = 1, 20000 do rawset(t, 'k' .. i, i) end`,
		"fractions":                  `for i = 1, 20000 do t[i + 0.5] = true end`,
		"many strings, one fraction": `for i = 1, 500 do local u = {} for j = 1, 20 do u['k' .. j] = j end u[0.5] = 1 t[i] = u end`,
		"empty tables":               `for i = 1, 20000 do t[i] = {} end`,
		"one field":                  `for i = 1, 5000 do local u = {} u.x = i t[i] = u end`,
		"a field beside an array":    `for i = 1, 2000 do local u = {i} u.x = i t[i] = u end`,
		"an array beside fields":     `for i = 1, 2000 do local u = {x = i} u[1] = i t[i] = u end`,
		"constructors":               `for i = 1, 5000 do t[i] = {a = i, b = i, c = i} end`,
		"constructors of nil":        `for i = 1, 1000 do t[i] = {` + strings.Repeat("a = nil, ", 200) + `} end`,
		"arrays of nil":              `for i = 1, 1000 do t[i] = {` + strings.Repeat("nil, ", 200) + `} end`,
		"results":                    `local function f() return 1, 2 end for i = 1, 3000 do t[i] = {f()} end`,
		"arguments":                  `local function f(...) return {...} end for i = 1, 3000 do t[i] = f(i) end`,
		"arg":                        `local function f(...) return arg end for i = 1, 3000 do t[i] = f(i) end`,
		"arg of an outer function":   `local function f(...) return function() return arg end end for i = 1, 3000 do t[i] = f(i) end`,
		"closures":                   `for i = 1, 5000 do t[i] = function() return t end end`,
		"variables of closures":      `for i = 1, 2000 do local a, b, c, d, e, f, g, h = i t[i] = function() return a, b, c, d, e, f, g, h end end`,
		"methods":                    `for i = 1, 3000 do local u = {} function u:f() return i end t[i] = u end`,
		"gmatch":                     `for i = 1, 5000 do t[i] = ('x'):gmatch('x') end`,
		"functions loaded":           `for i = 1, 200 do t[i] = loadstring('return ' .. i) end`,
		"errors":                     long + `for i = 1, 20 do t[i] = select(2, pcall(error, long .. i)) end`,
		"errors with a line":         long + `for i = 1, 20 do t[i] = select(2, pcall(function() error(long) end)) end`,
		"errors of an index":         long + `for i = 1, 20 do t[i] = select(2, pcall(function() local x return x[long] end)) end`,
		"errors with a handler":      long + `for i = 1, 20 do xpcall(function() error(long) end, function(e) t[i] = e end) end`,
		"errors of handlers":         long + `for i = 1, 20 do t[i] = select(2, xpcall(error, function(e) error(long) end)) end`,
		"errors of commands":         `for i = 1, 3000 do t[i] = redis.pcall('NOSUCH') end`,
		"error replies":              `for i = 1, 3000 do t[i] = redis.error_reply('x') end`,
		"status replies":             `for i = 1, 3000 do t[i] = redis.status_reply('x') end`,
		"statuses":                   `for i = 1, 3000 do t[i] = redis.call('PING') end`,
		"replies":                    `for i = 1, 10000 do t[i] = redis.call('ECHO', 'x') end`,
		"arrays of replies":          `for i = 1, 1000 do t[i] = redis.call('MGET', 'a', 'b', 'c', 'd') end`,
		"packed numbers":             `local n = {} for i = 1, 10000 do n[i] = 2 ^ 60 + i end for i = 1, 10 do t[i] = cmsgpack.pack(n) end`,
		"packed fractions":           `for i = 1, 10000 do t[i] = cmsgpack.pack(i + 0.1) end`,
		"unpacked":                   `local s = cmsgpack.pack({1, {a = 1}, 'x'}) for i = 1, 2000 do t[i] = cmsgpack.unpack(s) end`,
		"JSON":                       `for i = 1, 1000 do t[i] = cjson.encode({a = i, [('k'):rep(i)] = '\1\2\3'}) end`,
		"JSON's keys":                long + `local u = {} for i = 1, 10 do u[i] = {[long] = 1} end t[1] = cjson.encode(u)`,
		"JSON decoded":               `for i = 1, 1000 do t[i] = cjson.decode('{"a":[1,"x"],"b":{}}') end`,
		"JSON's array":               `t[1] = cjson.decode('[' .. ('1,'):rep(50000) .. '1]')`,
		"JSON's objects":             `t[1] = cjson.decode('[' .. ('{"a":1},'):rep(3000) .. '1]')`,
		"formats":                    `for i = 1, 5000 do t[i] = string.format('%5d %s %q', i, 'x', 'y') end`,
		"quotes":                     `for i = 1, 10 do t[i] = ('%q'):format(('\0'):rep(10000)) end`,
		"gsub":                       `for i = 1, 100 do t[i] = ('x'):rep(1000):gsub('x', 'yyyy') end`,
		"numbers as text":            `for i = 1, 10000 do t[i] = tostring(i + 0.1) end`,
		"concatenations":             `for i = 1, 10000 do t[i] = 'a' .. i end`,
		"bytes":                      `for i = 1, 10000 do t[i] = string.char(i % 256) end`,
		"hexadecimal":                `for i = 1, 10000 do t[i] = bit.tohex(i) end`,
		"structs":                    `for i = 1, 10000 do t[i] = struct.pack('bi', 1, 2) end`,
		"insert":                     `for i = 1, 20000 do table.insert(t, i) end`,
		"insert in front":            `for i = 1, 2000 do table.insert(t, 1, i) end`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte("local t = {} " + source + " redis.call('WEIGH') return #t"))
			if err != nil {
				t.Fatal(err)
			}
			vm := NewVM(1)
			w := &weigher{fakeHost: fakeHost{strings: map[string]string{}}, vm: vm, before: heap()}
			if b, err := vm.Run(s, nil, nil, w, roomy, new(atomic.Bool), false, nil); err != nil || b[0] != ':' {
				t.Fatalf("%.100q, %v", b, err)
			}
			if int64(w.taken) > w.charged+w.charged/4+100_000 {
				t.Errorf("it keeps %d bytes and has paid for %d", w.taken, w.charged)
			}
			if w.charged > 30*int64(w.taken)+1_000_000 {
				t.Errorf("it keeps %d bytes and has paid for %d, which is too many", w.taken, w.charged)
			}
		})
	}
}

// A virtual machine keeps nothing of what its last script has made.
//
//test:norace
func TestMemoryIsGivenBack(t *testing.T) {
	for name, source := range map[string]string{
		"argument":   `KEYS[1] = ('x'):rep(10000000)`,
		"call":       `local s = ('x'):rep(10000000) local function f() return #s end return f()`,
		"registers":  `local t = {} for i = 1, 5000 do t[i] = ('x'):rep(2000) end return select('#', unpack(t))`,
		"error":      `error(('x'):rep(10000000))`,
		"raised":     `return redis.call(('x'):rep(10000000))`,
		"end":        `local t = {} while true do t[#t + 1] = ('x'):rep(100000) end`,
		"deep":       `local function f(n) local s = ('x'):rep(10000) .. n if n > 0 then f(n - 1) end return #s end f(900)`,
		"closures":   leaks + `local s = ('x'):rep(10000000) for i = 1, 10 do set[i](s) end error()`,
		"coroutines": `local s = ('x'):rep(10000000) pcall(function() s:gsub('x', function() error(s) end) end)`,
	} {
		s, err := Compile([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		vm := NewVM(1)
		before := heap()
		_, _ = vm.Run(s, list([]string{"k"}), nil, &fakeHost{strings: map[string]string{}}, roomy, new(atomic.Bool), false, nil)
		if after := heap(); int64(after)-int64(before) > 500_000 {
			t.Errorf("%s: it keeps %d bytes", name, after-before)
		}
		runtime.KeepAlive(vm)
	}
}

// A run ends soon, however its calls and its errors are nested when it is stopped.
//
//test:norace
func TestNestedCallsEndSoon(t *testing.T) {
	for name, source := range map[string]string{
		"pcall":       `local function f() pcall(f) f() end`,
		"xpcall":      `local function f() xpcall(f, function() f() end) f() end`,
		"handlers":    `local function f() xpcall(error, f) f() end`,
		"gsub":        `local function f() ('x'):gsub('x', f) end`,
		"gsub, pcall": `local function f() pcall(string.gsub, 'x', 'x', f) error('x') end`,
		"gsub, index": `local function f() return ('x'):gsub('x', setmetatable({}, {__index = f})) end`,
		"sort":        `local function f() table.sort({3, 2, 1}, f) end`,
		"index":       `local t = setmetatable({}, {__index = function(t, k) return pcall(function() return t[k] end) end}) local function f() return t.x end`,
		"store":       `local t = setmetatable({}, {__newindex = function(t, k) pcall(function() t[k] = 1 end) end}) local function f() t.x = 1 end`,
		"sums":        `local t = setmetatable({}, {__add = function(t, k) return pcall(function() return t + 1 end) end}) local function f() return t + 1 end`,
		"texts":       `local t = setmetatable({}, {__tostring = function(t) return select(2, pcall(tostring, t)) end}) local function f() return tostring(t) end`,
		"concat":      `local t = setmetatable({}, {__concat = function(t) return select(2, pcall(function() return t .. 'x' end)) end}) local function f() return t .. 'x' end`,
		"load":        `local function f() load(f) error('x') end`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte(source + " for i = 1, 1e9 do pcall(f) end"))
			if err != nil {
				t.Fatal(err)
			}
			// The end of a run, in the middle of what nests most, raises an error at each level. A recursion of handlers
			// once took 200 s for that. What may raise errors is bounded, so count these.
			vm := NewVM(1)
			errors := 0
			counted := vm.state.NewFunction(vm.plain)
			counted.GFunction = func(L *lua.LState) int { errors++; return vm.plain(L) }
			vm.plainly = counted
			if b, err := vm.Run(s, nil, nil, &fakeHost{}, Bounds{Steps: 300_000, Memory: 64 << 20}, new(atomic.Bool), false, nil); err != ErrSteps {
				t.Fatalf("%.100q, %v; want ErrSteps", b, err)
			}
			if vm.meter.nested > maxNested || errors > 300_000 {
				t.Errorf("%d calls are nested, %d were protected", vm.meter.nested, errors)
			}
		})
	}
}

// The end of a run that has filled its registers, at each level of nested handlers, does not make them anew there.
//
//test:norace
func TestHandlersNeedNoRegisters(t *testing.T) {
	s, err := Compile([]byte(`local function f(...) xpcall(f, f) f(1, ...) end while true do pcall(f) end`))
	if err != nil {
		t.Fatal(err)
	}
	vm := NewVM(1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if b, err := vm.Run(s, nil, nil, &fakeHost{}, Bounds{Steps: 400_000, Memory: 64 << 20}, new(atomic.Bool), false, nil); err != ErrSteps {
		t.Fatalf("%.100q, %v; want ErrSteps", b, err)
	}
	runtime.ReadMemStats(&after)
	if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 100 {
		t.Errorf("%d MB were allocated", made)
	} else {
		t.Logf("%d MB were allocated", made)
	}
}

// What would take the parser long is refused before it.
func TestNesting(t *testing.T) {
	for _, unit := range []string{"2^", "'a'..", "- ", "not ", "#", "(", "{", "f(", "a[", "do ", "if a then ", "while a do ", "function f() ", "repeat ", "for i = 1, 2 do ", "f{", "{a=", "2^f(1,2)^", "[[x]]..", "'\\''..", "not{1,2}..", "-function() x = 1, 2 end.."} {
		for n, deep := range map[int]bool{100: false, maxDepth + 1: true} {
			if strings.Contains(unit, " end") {
				n = n * 11 / 10
			}
			source := "return " + strings.Repeat(unit, n)
			if got := nestedTooDeep(source) > 0; got != deep {
				t.Errorf("%d times %q: too deep is %v", n, unit, got)
			}
			_, err := Compile([]byte(source))
			if deep && (err == nil || !strings.Contains(err.Error(), "user_script:1: "+tooDeep)) {
				t.Errorf("%d times %q: %v", n, unit, err)
			}
		}
	}
	for _, flat := range []string{"a = -1 ", "f(-1, 2^2, not x) ", "local x = 'a' .. 'b' ", "if not a then b = -1 end ", "-- ((((\n", "--[[ (((( ]] ", "x = '((((' ", "x = [==[ (((( ]] ]==] ", "while not a do a = #b end ", "f{-1, {2}} ", "repeat a = b == c until not d "} {
		if line := nestedTooDeep(strings.Repeat(flat, 2000)); line > 0 {
			t.Errorf("2000 times %q are nested in line %d", flat, line)
		}
	}
	if line := nestedTooDeep("a = 1\n\n" + strings.Repeat("(", maxDepth+1)); line != 3 {
		t.Errorf("line %d, not 3", line)
	}
	if got := fmt.Sprint(quoted(`"a\"b" c`), comment("--[[a\nb]] c"), comment("-- a\nb"), longBracket("[==[ ]] ]==] x"), longBracket("[=x"), quoted("'a"), longBracket("[[a")); got != "6 9 5 12 0 2 3" {
		t.Error(got)
	}
}
