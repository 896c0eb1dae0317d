//go:build linux

package server

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"limitdb/internal/clock"
	"limitdb/resp"
	"limitdb/script/scripttest"
	"limitdb/transport"
)

// socket starts the server's own goroutines, and one event loop on a unix socket. It returns what connects to it.
func (ts *testServer) socket() (dial func() *wire) {
	dir := ts.t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { ts.Run(ctx) })
	group := transport.New(ts.Server, transport.Options{Loops: 1})
	if err := group.Listen("unix", filepath.Join(dir, "s"), nil); err != nil {
		ts.t.Fatal(err)
	}
	ts.t.Cleanup(func() {
		cancel()
		wg.Wait()
		_ = group.Close(context.Background())
	})
	return func() *wire {
		c, err := net.Dial("unix", filepath.Join(dir, "s"))
		if err != nil {
			ts.t.Fatal(err)
		}
		ts.t.Cleanup(func() { _ = c.Close() })
		return &wire{t: ts.t, c: c, r: bufio.NewReader(c)}
	}
}

// wire is a client on a socket.
type wire struct {
	t testing.TB
	c net.Conn
	r *bufio.Reader
}

func (w *wire) send(words ...string) {
	if _, err := w.c.Write(encode(words...)); err != nil {
		w.t.Error(err)
	}
}

func (w *wire) receive() string {
	v, err := resp.ReadReply(w.r, 256<<20)
	if err != nil {
		w.t.Error(err)
		return ""
	}
	return line(v)
}

func (w *wire) do(words ...string) string {
	w.send(words...)
	return w.receive()
}

// With one event loop, a client that connects while a script runs can end the script.
func TestScriptKillWithOneLoop(t *testing.T) {
	ts := newTestServerWith(t, func(o *Options) { o.Clock = clock.NewReal() }, "script-time-limit 60000")
	dial := ts.socket()
	for _, source := range []string{
		"redis.call('SET', 'a', 1) while true do end",
		"redis.call('SET', 'a', 1) redis.call('GET', 'unnamed') while true do pcall(function() while true do end end) end",
	} {
		stuck := dial()
		stuck.send("EVAL", source, "1", "a")
		for n := 0; n == 0; _, _, n = ts.scripts.Sizes() {
			time.Sleep(time.Millisecond)
		}
		ended := make(chan string)
		go func() { ended <- stuck.receive() }()
		var killers sync.WaitGroup
		for waits := true; waits; { // connections of the first 50 ms wait for the loop
			killer := dial()
			killers.Go(func() { _ = killer.do("SCRIPT", "KILL") })
			select {
			case got := <-ended:
				if got != "-ERR Script killed by user with SCRIPT KILL." {
					t.Error(got)
				}
				waits = false
			case <-time.After(20 * time.Millisecond):
			}
		}
		killers.Wait() // so that none ends the next script
		if got := dial().do("EXISTS", "a"); got != "0" {
			t.Errorf("the script has left %s keys", got)
		}
	}
}

// greedy are scripts that once took gigabytes or seconds, and one that takes more than it pays for.
var greedy = []string{
	`return #{[67108863]=1}`,
	`local s, t = ('x'):rep(16000000), {} while true do t[#t + 1] = select(2, pcall(function() local x return x[s] end)) end`,
	`local t = setmetatable({}, {__newindex = {}}) for i = 1, 1e9 do t[i] = i end`,
	`local n = {} for i = 1, 300000 do n[i] = 2 ^ 60 + i end local t = {} while true do t[#t + 1] = cmsgpack.pack(n) end`,
	`local t for i = 1, 1e9 do local n = {1} n.next = t t = n end`,
	`local t, x = {}, 1.5 for i = 1, 1e9 do t[i] = i + 0.5 ` + strings.Repeat("x = i + 1 ", 31) + `end`,
	`local function f() xpcall(f, function() f() end) f() end while true do pcall(f) end`,
	`local function f() ('x'):gsub('x', f) end while true do pcall(f) end`,
	`local s = ('2^'):rep(120000) while true do loadstring('return ' .. s .. '2') end`,
	`return error(('x'):rep(16000000))`,
	`redis.call('SET', 'k', ('x'):rep(60000)) local t, k = {}, {} for i = 1, 7000 do k[i] = 'k' end while true do t[#t + 1] = redis.call('MGET', unpack(k)) end`,
	`redis.call('SET', 'k', ('x'):rep(60000)) for i = 1, 1e9 do redis.call('SET', 'k' .. i, ('x'):rep(60000)) end`,
}

// seen is what a script sees of what scripts share.
const seen = `
local out = {}
for _, name in ipairs({'redis', 'string', 'table', 'math', 'cjson', 'cmsgpack', 'struct', 'bit'}) do
	local names = {}
	for k, v in pairs(_G[name]) do names[#names + 1] = name .. '.' .. tostring(k) .. ' ' .. type(v) end
	table.sort(names)
	out[#out + 1] = table.concat(names, ' ')
end
return {out, #KEYS, #ARGV, ('x'):rep(3), redis.call('PING').ok, tostring(getmetatable(_G)), math.floor(2.5), tostring(next({}))}`

// processorTime returns how long, in ns, this process has had a processor.
func processorTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// Hostile scripts take bounded memory, and change nothing that other scripts see. With LIMITDB_LONG=1 there are 10 000, which
// takes a quarter of an hour, and meanwhile no PING on the only event loop takes longer than 250 ms. Time in which other
// processes have the machine does not count.
func TestHostileScriptsOfClients(t *testing.T) {
	const most = 250 * time.Millisecond
	n, long := 150, os.Getenv("LIMITDB_LONG") == "1"
	if long {
		n = 10_000
	}
	ts := newTestServerWith(t, func(o *Options) { o.Clock = clock.NewReal() }, "script-time-limit 100")
	dial := ts.socket()
	hostile, pings := dial(), dial()
	look := func() (got string) {
		for range 100 { // on a busy machine, the look itself may be ended
			if got = hostile.do("EVAL", seen, "0"); !strings.Contains(got, "script-time-limit") {
				break
			}
		}
		return got
	}
	want := look()

	heap := heapOfProcess{{Name: "/memory/classes/heap/objects:bytes"}}
	heap.Collect()
	before := heap.InUse()
	var done atomic.Bool
	var peak uint64
	var slowest, waited atomic.Int64 // ns, of a PING: by the processor's time, or the clock if that says less; and by the clock
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			peak = max(peak, heap.InUse())
			time.Sleep(time.Millisecond)
		}
	})
	wg.Go(func() {
		for !done.Load() {
			start, spent := time.Now(), processorTime()
			pings.do("PING")
			took := int64(time.Since(start))
			waited.Store(max(took, waited.Load()))
			slowest.Store(max(min(took, processorTime()-spent), slowest.Load()))
			time.Sleep(time.Millisecond)
		}
	})
	t.Cleanup(func() { done.Store(true); wg.Wait() }) // also after Fatal
	scripts := scripttest.NewHostile(2)
	ends, shown, last := map[string]int{}, int64(0), ""
	for i := range n {
		source := scripts.Script()
		if i < len(greedy) {
			source = greedy[i]
		}
		eval := []string{"EVAL", source, "1", "k", "v"}
		if i%5 == 4 {
			eval[0] = "EVAL_RO"
		}
		got := hostile.do(eval...)
		if took := slowest.Load(); took > max(shown, int64(most)) {
			shown = took
			t.Logf("script %d, in or before which a PING took %v, ends with %.60s:\n%s\nbefore it:\n%s", i, time.Duration(took), got, source, last)
		}
		end := "reply"
		if strings.HasPrefix(got, "-") {
			if end = "error"; strings.HasPrefix(got, "-ERR Script ended") {
				end = got
			}
		}
		ends[end]++
		last = source
		if i%10 == 0 {
			hostile.do("FLUSHALL")
			if now := look(); now != want {
				t.Fatalf("after script %d:\n%s\nscripts see\n%s\nnot\n%s", i, source, now, want)
			}
		}
	}
	hostile.do("FLUSHALL")
	done.Store(true)
	wg.Wait()
	heap.Collect()
	after := heap.InUse()
	t.Logf("%v; heap %d MB before, %d at most, %d after; the slowest PING took %v, and %v beside other processes", ends, before>>20, peak>>20, after>>20, time.Duration(slowest.Load()), time.Duration(waited.Load()))
	if bound := heapFactor * uint64(scriptMemory); peak > before+bound+bound/4 {
		t.Errorf("the heap has grown by %d MB, over 1.25 times the bound of %d", (peak-before)>>20, bound>>20)
	}
	if after > before+16<<20 {
		t.Errorf("%d MB are left", (after-before)>>20)
	}
	if took := time.Duration(slowest.Load()); long && !raceDetector && took > most {
		t.Errorf("a PING took %v", took)
	}
}
