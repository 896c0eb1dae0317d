package script

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
)

var update = flag.Bool("update", false, "record testdata/redis.json from a redis-server")

var roomy = Bounds{Steps: 10_000_000, Memory: 64 << 20}

// fakeHost has the few commands that the tests call, with Redis' replies.
type fakeHost struct {
	strings map[string]string
	logged  []string
}

func (h *fakeHost) Log(level int, message string) {
	h.logged = append(h.logged, fmt.Sprint(level, " ", message))
}

func (h *fakeHost) Attend() error { return ErrStopped }

func (h *fakeHost) Call(args [][]byte, resp3 bool, b []byte) []byte {
	word := func(i int) string { return string(args[i]) }
	bulk := func(s string) []byte { return fmt.Appendf(b, "$%d\r\n%s\r\n", len(s), s) }
	switch strings.ToUpper(word(0)) {
	case "PING":
		return append(b, "+PONG\r\n"...)
	case "ECHO":
		return bulk(word(1))
	case "SET":
		h.strings[word(1)] = word(2)
		return append(b, "+OK\r\n"...)
	case "GET":
		if s, ok := h.strings[word(1)]; ok {
			return bulk(s)
		}
		if resp3 {
			return append(b, "_\r\n"...)
		}
		return append(b, "$-1\r\n"...)
	case "INCRBY":
		n, err := strconv.ParseInt(h.strings[word(1)]+"", 10, 64)
		if err != nil && h.strings[word(1)] != "" {
			return append(b, "-ERR value is not an integer or out of range\r\n"...)
		}
		by, _ := strconv.ParseInt(word(2), 10, 64)
		h.strings[word(1)] = strconv.FormatInt(n+by, 10)
		return fmt.Appendf(b, ":%d\r\n", n+by)
	case "MGET":
		b = fmt.Appendf(b, "*%d\r\n", len(args)-1)
		for i := range args[1:] {
			b = h.Call([][]byte{[]byte("GET"), args[i+1]}, resp3, b)
		}
		return b
	}
	return fmt.Appendf(b, "-ERR Unknown Redis command called from script\r\n")
}

// run compiles and runs a script in a fresh VM.
func runScript(t *testing.T, source string, keys, argv []string) string {
	t.Helper()
	s, err := Compile([]byte(source))
	if err != nil {
		return "-ERR " + err.Error() + "\r\n"
	}
	b, err := NewVM(1).Run(s, list(keys), list(argv), &fakeHost{strings: map[string]string{}}, roomy, new(atomic.Bool), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func list(words []string) [][]byte {
	out := make([][]byte, len(words))
	for i, w := range words {
		out[i] = []byte(w)
	}
	return out
}

// TestAsRedis compares replies with those that a redis-server 7.0 has given. "go test ./script -run AsRedis -update"
// records them again.
func TestAsRedis(t *testing.T) {
	const file = "testdata/redis.json"
	want := map[string]string{}
	if *update {
		record(t, want)
		data, err := json.MarshalIndent(want, "", " ")
		if err == nil {
			err = os.WriteFile(file, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for _, source := range asRedis {
		reply, ok := want[source]
		if !ok {
			t.Errorf("no recorded reply; run with -update: %s", source)
			continue
		}
		want, err := strconv.Unquote(reply)
		if err != nil {
			t.Fatal(err)
		}
		got := runScript(t, source, []string{"k1", "k2"}, []string{"10", "abc"})
		if luaError(want) && luaError(got) {
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", source, diff)
		}
	}
}

// luaError reports whether a reply is an error that Lua has found in line 1. The library words some of them differently.
func luaError(reply string) bool {
	return strings.HasPrefix(reply, "-ERR user_script:1: ") && strings.HasSuffix(reply, ", on @user_script:1.\r\n")
}

// record asks a redis-server for the replies.
func record(t *testing.T, replies map[string]string) {
	socket := t.TempDir() + "/redis.sock"
	cmd := exec.CommandContext(t.Context(), "redis-server", "--port", "0", "--unixsocket", socket, "--save", "")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var c net.Conn
	for deadline := time.Now().Add(10 * time.Second); ; {
		var err error
		if c, err = net.Dial("unix", socket); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, source := range asRedis {
		fmt.Fprintf(c, "FLUSHALL\r\n*7\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$2\r\n10\r\n$3\r\nabc\r\n", len(source), source)
		readRaw(t, r)
		replies[source] = strconv.Quote(readRaw(t, r))
	}
}

// readRaw reads the bytes of one reply.
func readRaw(t *testing.T, r *bufio.Reader) string {
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$':
		if n >= 0 {
			body := make([]byte, n+2)
			for i := range body {
				body[i], _ = r.ReadByte()
			}
			return line + string(body)
		}
	case '*':
		var b strings.Builder
		b.WriteString(line)
		for range n {
			b.WriteString(readRaw(t, r))
		}
		return b.String()
	}
	return line
}

func TestMemoryIsBounded(t *testing.T) {
	for name, source := range map[string]string{
		"concat":          `local s = 'x' while true do s = s .. s end`,
		"rep":             `return string.rep('x', 1e9)`,
		"rep of rep":      `return ('x'):rep(1e6):rep(1e6)`,
		"gsub":            `local s = 'x' while true do s = s:gsub('x', 'xxxxxxxxxx') end`,
		"format":          `local s = 'x' while true do s = string.format('%s%s', s, s) end`,
		"table.concat":    `local s = 'x' while true do s = table.concat({s, s, s}) end`,
		"array":           `local t = {} for i = 1, 1e9 do t[i] = i end`,
		"far index":       `local t = {} t[60000000] = 1`,
		"keys":            `local t = {} for i = 1, 1e9 do t['a' .. i] = i end`,
		"tables":          `local t for i = 1, 1e9 do t = {t} end`,
		"named field":     `local t for i = 1, 1e9 do local n = {} n.next = t t = n end`,
		"closures":        `local f = function() end while true do local g = f local h = function() return g end f = h end`,
		"insert":          `local t = {} while true do table.insert(t, 'x') end`,
		"insert in front": `local t = {} while true do table.insert(t, 1, 'x') end`,
		"rawset":          `local t = {} local i = 0 while true do i = i + 1 rawset(t, i, i) end`,
		"several targets": `local t, i = {}, 0 while true do i = i + 1 t[i], t[-i] = i, i end`,
		"method":          `local t = {} while true do local n = {} function n:f() return t end t = n end`,
		"load":            `local s = 'return 1' while true do s = s .. ' ' loadstring(s) end`,
		"json":            `local s = '1' while true do s = cjson.encode({s, s}) end`,
		"json decode":     `local s = '[' .. ('1,'):rep(100000) .. '1]' local t = {} while true do t = {t, cjson.decode(s)} end`,
		"msgpack":         `local s = 'x' while true do s = cmsgpack.pack(s, s) end`,
		"struct":          `return struct.pack('c1000000000', 'x')`,
		"calls":           `local t = {} while true do t = {t, redis.call('ECHO', ('x'):rep(10000))} end`,
		"shared tables":   `local t = {1, 1, 1, 1} for i = 1, 50 do t = {t, t, t, t} end return t`,
		"shared nothing":  `local t = {} for i = 1, 50 do t = {t, t, t, t} end return t`,
		"shared string":   `local s = ('x'):rep(10000) local t = {} for i = 1, 1000 do t[i] = s end return t`,
		"shared status":   `local s = {ok = ('x'):rep(10000)} local t = {} for i = 1, 1000 do t[i] = s end return t`,
		"shared map":      `local t = {map = {a = 1, b = 2}} for i = 1, 50 do t = {map = {a = t, b = t}} end return t`,
		"deep map":        `local t = ('x'):rep(100000) for i = 1, 90 do t = {map = {a = t}} end return t`,
		"shared in json":  `local t = {1, 1, 1, 1} for i = 1, 50 do t = {t, t, t, t} end return cjson.encode(t)`,
		"shared in pack":  `local t = {1, 1, 1, 1} for i = 1, 10 do t = {t, t, t, t} end return cmsgpack.pack(t)`,
		"pcall":           `local s = 'x' while true do pcall(function() while true do s = s .. s end end) end`,
		"reply":           `local t = {1} for i = 1, 60 do t = {t, t} end return t`,
		"strings in one":  `local t, s = {}, ('x'):rep(10000) for i = 1, 1000 do t[i] = s end return t`,
		"map":             `local t = {1} for i = 1, 60 do t = {map = {a = t, b = t}} end return t`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte(source))
			if err != nil {
				t.Fatal(err)
			}
			b, err := NewVM(1).Run(s, nil, nil, &fakeHost{}, Bounds{Steps: 1e9, Memory: 1 << 20}, new(atomic.Bool), false, nil)
			if err != ErrMemory {
				t.Fatalf("%q, %v; want ErrMemory", b, err)
			}
		})
	}
}

// TestStopsInTheLibrary checks that a run which is stopped ends within a function of the library, too.
func TestStopsInTheLibrary(t *testing.T) {
	vm := NewVM(1)
	vm.meter.steps, vm.meter.memory, vm.meter.text = 1<<60, 1<<60, 1<<60
	vm.meter.stop.Store(true)
	vm.meter.attend = (*fakeHost)(nil).Attend
	for _, tt := range []struct {
		lib, function string
		args          []lua.LValue
	}{
		{"string", "find", []lua.LValue{lua.LString(strings.Repeat("a", 100)), lua.LString(strings.Repeat(".-", 30) + "b")}},
		{"string", "find", []lua.LValue{lua.LString(strings.Repeat("(", 100_000)), lua.LString("%b()")}},
		{"cjson", "decode", []lua.LValue{lua.LString("[1]")}},
		{"cmsgpack", "unpack", []lua.LValue{lua.LString("\x91\x01")}},
		{"redis", "sha1hex", []lua.LValue{lua.LString("x")}},
	} {
		f := vm.state.GetField(vm.shared.RawGetString(tt.lib), tt.function)
		err := vm.state.CallByParam(lua.P{Fn: f, NRet: 1, Protect: true}, tt.args...)
		if err == nil || !strings.Contains(err.Error(), ErrStopped.Error()) {
			t.Errorf("%s.%s: %v", tt.lib, tt.function, err)
		}
	}
}

// A text that would take long to read is no number.
func TestLongNumbers(t *testing.T) {
	for _, read := range []string{"tonumber(s)", "tonumber(s, 2)", "select(2, pcall(function() return s + 0 end))", "select(2, pcall(function() for i = s, 1 do return i end end))"} {
		got := ""
		for _, zeros := range []int{maxNumber - 1, maxNumber} {
			got += runScript(t, fmt.Sprintf("local s = ('0'):rep(%d) .. '1' return type(%s)", zeros, read), nil, nil)
		}
		if want := "$6\r\nnumber\r\n"; !strings.HasPrefix(got, want) || got == want+want {
			t.Errorf("%s: %q", read, got)
		}
	}
}

func TestStepsAreBounded(t *testing.T) {
	for name, source := range map[string]string{
		"loop":       `while true do end`,
		"recursion":  `local function f() return f() end return f()`,
		"pcall":      `while true do pcall(error) end`,
		"xpcall":     `while true do xpcall(error, function() while true do end end) end`,
		"pattern":    `return string.find(('a'):rep(3000), ('a*'):rep(20) .. 'b')`,
		"set":        `return string.find(('a'):rep(100), '.-[a' .. ('x'):rep(1000) .. ']b')`,
		"reference":  `return string.find(('a'):rep(10000), '^(' .. ('a'):rep(5000) .. ').-%1b')`,
		"gsub":       `return string.gsub(('a'):rep(100000), 'a-b', '')`,
		"gmatch":     `for a in string.gmatch(('a'):rep(30000), '.-b') do end`,
		"sort":       `local t = {} for i = 1, 1000 do t[i] = i end while true do table.sort(t, function(a, b) return a > b end) end`,
		"metatable":  `local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do pcall(function() return t[1] end) end`,
		"sorts":      `local t = {} for i = 1, 1000 do t[i] = i end while true do table.sort(t) end`,
		"removals":   `local t = {} for i = 1, 5000 do t[i] = i end while true do t[5000] = 1 for i = 1, 10 do table.remove(t, 1) end end`,
		"sha1":       `local s = ('x'):rep(100000) while true do redis.sha1hex(s) end`,
		"the client": `while true do redis.call('PING') end`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte(source))
			if err != nil {
				t.Fatal(err)
			}
			b, err := NewVM(1).Run(s, nil, nil, &fakeHost{}, Bounds{Steps: 50_000, Memory: 1 << 30}, new(atomic.Bool), false, nil)
			if err != ErrSteps {
				t.Fatalf("%q, %v; want ErrSteps", b, err)
			}
		})
	}
}

// A run that is stopped ends in the middle of what a single instruction does, too.
func TestStop(t *testing.T) {
	for name, source := range map[string]string{
		"loop":    `redis.call('SET', 'a', 1) while true do end`,
		"pcall":   `redis.call('PING') while true do pcall(error) end`,
		"pattern": `local s, p = ('a'):rep(3000), ('a*'):rep(20) .. 'b' redis.call('PING') return s:find(p)`,
		"sort":    `local t = {3, 2, 1} redis.call('PING') table.sort(t) return 'sorted'`,
		"command": `redis.call('PING') return redis.call('SET', 'a', 1)`,
		"return":  `redis.call('PING') return 1`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte(source))
			if err != nil {
				t.Fatal(err)
			}
			var stop atomic.Bool
			h := stopper{&fakeHost{strings: map[string]string{}}, &stop}
			if b, err := NewVM(1).Run(s, nil, nil, h, Bounds{Steps: 1 << 60, Memory: 1 << 20}, &stop, false, nil); err != ErrStopped {
				t.Fatalf("%q, %v; want ErrStopped", b, err)
			}
			if h.strings["a"] != "" && name != "loop" {
				t.Error("it has gone on")
			}
		})
	}
}

// A script that makes the library panic leaves a virtual machine that works.
func TestAfterAPanic(t *testing.T) {
	vm := NewVM(1)
	for _, tt := range [][2]string{
		{`local t = {} for i = 1, 7000 do t[i] = i end local function f(...) return (f(1, ...)) end return f(unpack(t))`, "-ERR "},
		{`return {unpack({}, 1, 1e8)}`, "-ERR user_script:1: too many results to unpack"},
		{`return {next({1}, 1)}`, "*0"},
		{`while true do end`, ErrSteps.Error()},
		{`return loadstring('return #KEYS')()`, ":0"},
		{`return {err = select(2, loadstring((' '):rep(262145), 'x'))}`, `-[string "x"]: a script may have at most 262144 bytes`},
	} {
		s, err := Compile([]byte(tt[0]))
		if err != nil {
			t.Fatal(err)
		}
		b, err := vm.Run(s, nil, nil, &fakeHost{}, Bounds{Steps: 1_000_000, Memory: 1 << 26}, new(atomic.Bool), false, nil)
		if err != nil {
			b = []byte(err.Error())
		}
		if !strings.HasPrefix(string(b), tt[1]) || strings.Count(string(b), "\n") > 1 {
			t.Errorf("%s: %q", tt[0], b)
		}
	}
}

// stopper stops the script that calls a command.
type stopper struct {
	*fakeHost
	stop *atomic.Bool
}

func (s stopper) Call(args [][]byte, resp3 bool, b []byte) []byte {
	s.stop.Store(true)
	return s.fakeHost.Call(args, resp3, b)
}

// TestNothingIsLeftBehind runs scripts one after the other in one VM.
func TestNothingIsLeftBehind(t *testing.T) {
	vm := NewVM(1)
	h := &fakeHost{strings: map[string]string{}}
	do := func(source string, argv ...string) string {
		s, err := Compile([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		b, err := vm.Run(s, nil, list(argv), h, Bounds{Steps: 1e6, Memory: 1 << 20}, new(atomic.Bool), false, nil)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	for _, source := range []string{
		`x = 1`, `redis = nil`, `string.rep = nil`, `_G.x = 1`, `rawset(_G, 'x', 1)`, `rawset(string, 'rep', nil)`,
		`setmetatable(_G, {})`, `getmetatable('').__index = nil`, `function foo() end`, `function string.foo() end`,
		`KEYS = nil`, `table.insert(table, 1)`, `string.x, math.x = 1, 2`,
	} {
		if got := do(source); !strings.HasPrefix(got, "-") {
			t.Errorf("%s: %q, want an error", source, got)
		}
	}
	do(`math.randomseed(7) redis.setresp(3) while true do end`)
	do(`local s = 'x' while true do s = s .. s end`)
	do(`error({})`)
	do(`local t = {} for i = 1, 7000 do t[i] = 'ECHO' end redis.call(unpack(t)) redis.call('ECHO', ('x'):rep(200000))`)
	if vm.run.host != nil || cap(vm.run.reply) > keptBytes || cap(vm.run.args) > keptArgs {
		t.Errorf("it holds %d bytes and %d arguments", cap(vm.run.reply), cap(vm.run.args))
	}
	if got, want := do(`return {type(redis), ('x'):rep(3), #ARGV, type(string.foo)}`, "a", "b"),
		"*4\r\n$5\r\ntable\r\n$3\r\nxxx\r\n:2\r\n$3\r\nnil\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := do(`return ARGV[1]`); got != "$-1\r\n" {
		t.Errorf("the arguments of another script: %q", got)
	}
}

func TestShebang(t *testing.T) {
	s, err := Compile([]byte("#!lua flags=no-writes,allow-stale,allow-key-locking\nreturn 1"))
	if err != nil || !s.ReadOnly {
		t.Fatalf("%+v, %v", s, err)
	}
	for source, want := range map[string]string{
		"#!python\nreturn 1":            "Unexpected engine in script shebang: #!python",
		"#!\n":                          "Unexpected engine in script shebang: #!",
		"#!lua flags=nothing\nreturn 1": "Unexpected flag in script shebang: nothing",
		"#!lua name=x\nreturn 1":        "Unknown lua shebang option: name=x",
		"#!lua flags=no-writes":         "Invalid script shebang",
	} {
		if _, err := Compile([]byte(source)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", source, err, want)
		}
	}
}

// numbered repeats a format with the numbers from 1 on, up to a length.
func numbered(format string, length int) string {
	var b strings.Builder
	for i := 1; b.Len() < length; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestHostileSource compiles what must not end the process.
func TestHostileSource(t *testing.T) {
	for name, source := range map[string]string{
		"parentheses": "return " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000),
		"tables":      "return " + strings.Repeat("{", 100_000) + strings.Repeat("}", 100_000),
		"blocks":      strings.Repeat("do ", 100_000) + strings.Repeat(" end", 100_000),
		"functions":   strings.Repeat("return function() ", 10_000) + strings.Repeat(" end", 10_000),
		"minus":       "return " + strings.Repeat("- ", 100_000) + "1",
		"sums":        "return 1" + strings.Repeat("+1", 100_000),
		"concats":     "return ''" + strings.Repeat("..''", 100_000),
		"locals":      strings.Repeat("local a ", 1000),
		"constants":   "return {" + numbered("%d,", MaxSource-100) + "}",
		"names":       numbered("x%d = 1 ", MaxSource-100),
		"labels":      numbered("::a%d:: ", MaxSource-100),
		"arguments":   "return f(" + strings.Repeat("1,", 1000) + "1)",
		"zero byte":   "return '\x00'",
		"too long":    strings.Repeat(" ", MaxSource+1),
		"unfinished":  "return 'abc",
		"comment":     "--[==[ ",
		"number":      "return 1e99999999, 0x" + strings.Repeat("f", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte(source))
			if err != nil {
				if strings.ContainsAny(err.Error(), "\r\n") {
					t.Errorf("the error has several lines: %q", err)
				}
				return
			}
			if _, err := NewVM(1).Run(s, nil, nil, &fakeHost{}, roomy, new(atomic.Bool), false, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzScript(f *testing.F) {
	for _, source := range asRedis {
		f.Add([]byte(source))
	}
	vm := NewVM(1)
	f.Fuzz(func(t *testing.T, source []byte) {
		s, err := Compile(source)
		if err != nil {
			return
		}
		h := &fakeHost{strings: map[string]string{}}
		b, err := vm.Run(s, nil, nil, h, Bounds{Steps: 20_000, Memory: 1 << 20}, new(atomic.Bool), false, nil)
		if err == nil && !bytes.HasSuffix(b, []byte("\r\n")) {
			t.Errorf("not a reply: %q", b)
		}
	})
}
