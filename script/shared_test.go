package script

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
)

// fingerprint returns what every table and function that scripts share holds.
func fingerprint(vm *VM) []string {
	var out []string
	name := func(v lua.LValue) string {
		switch v.(type) {
		case *lua.LTable, *lua.LFunction, *lua.LUserData:
			return fmt.Sprintf("%p", v)
		}
		return v.String()
	}
	seen := map[lua.LValue]bool{}
	var walk func(v lua.LValue)
	has := func(v lua.LValue, what string, e lua.LValue) {
		out = append(out, name(v)+" "+what+" = "+name(e))
		walk(e)
	}
	walk = func(v lua.LValue) {
		if seen[v] {
			return
		}
		seen[v] = true
		switch v := v.(type) {
		case *lua.LTable:
			has(v, "metatable", v.Metatable)
			v.ForEach(func(k, e lua.LValue) {
				if s := k.String(); v != vm.shared || s != "KEYS" && s != "ARGV" { // each run has its own
					has(v, name(k), e)
					walk(k)
				}
			})
		case *lua.LFunction:
			if v.Env != nil {
				has(v, "environment", v.Env)
			}
			for i, u := range v.Upvalues {
				has(v, fmt.Sprint("upvalue ", i), u.Value())
			}
		case *lua.LUserData:
			has(v, "metatable", v.Metatable)
			out = append(out, fmt.Sprint(name(v), v.Value))
		}
	}
	for _, t := range []*lua.LTable{vm.globals, vm.strings, vm.state.G.Registry, vm.state.G.Global, vm.state.Env} {
		out = append(out, name(t))
		walk(t)
	}
	slices.Sort(out)
	return out
}

// attack runs a script in a VM and returns its reply or its end.
func attack(t testing.TB, vm *VM, source string) string {
	s, err := Compile([]byte(source))
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	h := &fakeHost{strings: map[string]string{}}
	b, err := vm.Run(s, list([]string{"k"}), list([]string{"v"}), h, Bounds{Steps: 1_000_000, Memory: 1 << 22}, new(atomic.Bool), false, nil)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// leaks is a closure that goes on reading and writing a register after its function has ended: the library closes no
// variables where an error meets a handler.
const leaks = `
local get, set = {}, {}
xpcall(function()
	local a, b, c, d, e, f, g, h, i, j = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
	get = {function() return a end, function() return b end, function() return c end, function() return d end, function() return e end,
		function() return f end, function() return g end, function() return h end, function() return i end, function() return j end}
	set = {function(v) a = v end, function(v) b = v end, function(v) c = v end, function(v) d = v end, function(v) e = v end,
		function(v) f = v end, function(v) g = v end, function(v) h = v end, function(v) i = v end, function(v) j = v end}
	error('x')
end, function(e) return e end)
`

// No script can change what another one sees, whichever way it takes to a table, and nothing that it has made stays.
func TestSharedTablesCannotChange(t *testing.T) {
	for name, source := range map[string]string{
		"field":                  `redis.call = 1`,
		"index":                  `redis['c' .. 'all'] = 1`,
		"several":                `redis.call, string.rep = 1, 2`,
		"function":               `function redis.call() end`,
		"method":                 `function redis:call() end`,
		"global":                 `x = 1`,
		"global function":        `function x() end`,
		"_G":                     `_G.tostring = 1`,
		"__newindex":             `setmetatable({}, {__newindex = redis}).call = function() return 0 end`,
		"__newindex of math":     `setmetatable({}, {__newindex = math}).floor = function() return 0 end`,
		"__newindex of string":   `setmetatable({}, {__newindex = string}).rep = function() return 0 end`,
		"new name by __newindex": `setmetatable({}, {__newindex = redis}).stash = ('x'):rep(1000)`,
		"long chain":             `local t = redis for i = 1, 50 do t = setmetatable({}, {__newindex = t}) end t.call = 1`,
		"endless chain":          `local a, b = {}, {} setmetatable(a, {__newindex = b}) setmetatable(b, {__newindex = a}) a.x = 1`,
		"chain by function":      `setmetatable({}, {__newindex = function(_, k, v) redis[k] = v end}).call = 1`,
		"rawset as __newindex":   `setmetatable({}, {__newindex = rawset}).call = 1 local m = setmetatable({}, {__newindex = function(t, k, v) rawset(redis, k, v) end}) m.call = 1`,
		"chain to _G":            `setmetatable({}, {__newindex = _G}).tostring = 1`,
		"constructor":            `local t = {[redis] = 1, call = 2} setmetatable(t, {__newindex = redis}) t.pcall = 1`,
		"chain in assignment":    `local t = setmetatable({}, {__newindex = redis}) t.call, t.x = 1, 2`,
		"chain in a function":    `local t = setmetatable({}, {__newindex = redis}) function t.call() end`,
		"rawset":                 `rawset(redis, 'call', 1)`,
		"rawset _G":              `rawset(_G, 'tostring', 1)`,
		"setmetatable":           `setmetatable(redis, {})`,
		"setmetatable _G":        `setmetatable(_G, {})`,
		"metatable of _G":        `getmetatable(_G).__index = nil`,
		"metatable of a string":  `getmetatable('').__index = function() end`,
		"metatable of a module":  `getmetatable(redis).__index = 1`,
		"metatable of null":      `setmetatable(cjson.null, {})`,
		"null":                   `cjson.null.x = 1`,
		"field of a string":      `('').rep = 1`,
		"field of a function":    `redis.call.x = 1`,
		"insert":                 `table.insert(redis, 1)`,
		"insert at":              `table.insert(redis, 1, 2)`,
		"remove":                 `table.remove(redis)`,
		"remove at":              `table.remove(string, 1)`,
		"sort":                   `table.sort(redis, function() return true end)`,
		"setfenv":                `setfenv(1, {})`,
		"getfenv":                `getfenv(redis.call).x = 1`,
		"debug":                  `debug.setmetatable('', {})`,
		"module":                 `module('redis')`,
		"require":                `require('string').rep = 1`,
		"newproxy":               `newproxy(true)`,
		"coroutine":              `coroutine.wrap(function() redis.call = 1 end)()`,
		"loadstring":             `loadstring('redis.call = 1')()`,
		"loadstring's global":    `loadstring('x = 1')()`,
		"pcall":                  `pcall(rawset, redis, 'call', 1) error()`,
		"xpcall":                 `xpcall(function() error(redis) end, function(r) r.call = 1 end) error()`,
		"metamethod":             `local t = setmetatable({}, {__add = rawset, __concat = rawset, __call = rawset}) t(redis, 'call') error()`,
		"concat":                 `local t = setmetatable({}, {__concat = function(a, b) redis.call = 1 end}) return t .. 'x'`,
		"sort's order":           `local t = {1, 2, 3} table.sort(t, function(a, b) rawset(table, 'sort', 1) end)`,
		"gsub's function":        `('x'):gsub('x', function() string.gsub = 1 end)`,
		"gsub's table":           `('call'):gsub('call', setmetatable({}, {__index = function(t, k) redis[k] = 1 end}))`,
		"next":                   `redis[next(redis)] = 1`,
		"pairs":                  `for k in pairs(string) do string[k] = nil end`,
		"unseen register":        leaks + `local key = setmetatable({}, {__tostring = function() for i = 1, 10 do local t = get[i]() if type(t) == 'table' then rawset(t, 'tonumber', 1) end end return 'x' end}) return _G[key]`,
		"registers written":      leaks + `for i = 1, 10 do set[i](redis) end local t = {} for i = 1, 10 do set[i](string) end rawset(t, 'call', 1) t.rep = 2 error()`,
		"registers in a chain":   leaks + `local m = setmetatable({}, {__newindex = function(t, k, v) for i = 1, 10 do set[i](redis) end t[k] = v end}) m.call = 1`,
		"registers and commands": leaks + `for i = 1, 10 do set[i](redis.call) redis.call('PING') end error()`,
		"arguments":              `KEYS[1] = 'x' ARGV = nil`,
		"random numbers":         `math.randomseed(77) error()`,
	} {
		t.Run(name, func(t *testing.T) {
			vm, twin := NewVM(1), NewVM(1)
			before := fingerprint(vm)
			attack(t, twin, `error()`)
			if got := attack(t, vm, source); !strings.HasPrefix(got, "-") {
				t.Errorf("%q, want an error", got)
			}
			if diff := cmp.Diff(before, fingerprint(vm)); diff != "" {
				t.Errorf("what scripts share has changed:\n%s", diff)
			}
			const probe = `return {KEYS[1], ARGV[1], #KEYS, redis.call('PING').ok, tostring(math.random()), ('x'):rep(3)}`
			if got, want := attack(t, vm, probe), attack(t, twin, probe); got != want {
				t.Errorf("the next script has %q, not %q", got, want)
			}
		})
	}
}

// Every table that a script can get hold of without making it, and every one behind those, is protected.
func TestEverySharedTableIsProtected(t *testing.T) {
	vm := NewVM(1)
	seen := map[lua.LValue]bool{}
	var walk func(path string, v lua.LValue)
	walk = func(path string, v lua.LValue) {
		t.Helper()
		if seen[v] {
			return
		}
		seen[v] = true
		switch v := v.(type) {
		case *lua.LTable:
			if !vm.tables.readOnly[v] {
				t.Errorf("%s can be changed", path)
			}
			walk(path+" metatable", v.Metatable)
			v.ForEach(func(k, e lua.LValue) {
				walk(path+" key", k)
				walk(path+"."+k.String(), e)
			})
		case *lua.LFunction:
			for _, u := range v.Upvalues {
				walk(path+" upvalue", u.Value())
			}
			if v.Env != vm.globals && !v.IsG {
				t.Errorf("%s has another environment", path)
			}
		case *lua.LUserData:
			walk(path+" metatable", v.Metatable)
		}
	}
	walk("_G", vm.globals)
	walk("string", vm.strings)
}

// names returns what scripts share by its names.
func names(vm *VM) []string {
	var out []string
	vm.shared.ForEach(func(k, v lua.LValue) {
		out = append(out, k.String()+" "+v.Type().String())
		if t, ok := v.(*lua.LTable); ok && t != vm.globals {
			t.ForEach(func(name, e lua.LValue) {
				if k.String() != "KEYS" && k.String() != "ARGV" {
					out = append(out, k.String()+"."+name.String()+" "+e.Type().String())
				}
			})
		}
	})
	out = slices.DeleteFunc(out, func(s string) bool { return strings.HasPrefix(s, "KEYS") || strings.HasPrefix(s, "ARGV") })
	slices.Sort(out)
	return out
}
