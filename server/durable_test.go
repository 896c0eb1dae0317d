package server

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/internal/stats"
	"limitdb/server/clients"
	"limitdb/server/durable"
	"limitdb/server/spec"
	"limitdb/transport"
)

// disk is a Durability that syncs when the test calls sync.
type disk struct {
	mu      sync.Mutex
	always  bool // replies wait
	waiting []func(error)
	kicks   atomic.Int64
	saving  chan error // what Snapshot returns, when the test sends it
	stats   stats.Durability
	backups []string
}

func (d *disk) wait(_ uint64, fn func(error)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.always {
		d.waiting = append(d.waiting, fn)
	}
	return d.always
}

// sync releases all waits so far and returns their number.
func (d *disk) sync() int {
	d.mu.Lock()
	ready := d.waiting
	d.waiting = nil
	d.mu.Unlock()
	for _, fn := range ready {
		fn(nil)
	}
	return len(ready)
}

func (d *disk) setAlways(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.always = on
}

func newDiskServer(t *testing.T, directives ...string) (*testServer, *disk) {
	d := &disk{saving: make(chan error, 1), stats: stats.Durability{Kept: true}}
	ts := newTestServer(t, directives...)
	ts.Server.durable.Source = &durable.Source{
		Wait:     d.wait,
		Holds:    func() bool { return d.always },
		Kick:     func() { d.kicks.Add(1) },
		Switch:   func() error { return <-d.saving },
		Snapshot: func() error { return <-d.saving },
		Sync:     func() error { return <-d.saving },
		Backup: func(name string) (string, error) {
			if name == "bad" {
				return "", errors.New("no such place")
			}
			d.backups = append(d.backups, name)
			return "/data/" + name, nil
		},
		Stats: func() stats.Durability { return d.stats },
	}
	return ts, d
}

// A reply that reveals state is sent after the sync. Commands that come meanwhile run, and their
// replies wait in order for a sync of their own.
func TestRepliesWaitForTheDisk(t *testing.T) {
	ts, d := newDiskServer(t)
	d.setAlways(true)
	c := ts.client()
	if got := c.raw("PING\r\nCL.THROTTLE k 1 1 60\r\n"); got != "+PONG\r\n" {
		t.Fatalf("%q left before the sync", got)
	}
	if got := c.raw("ECHO a\r\nRL.PEEK k GCRA 1/m BURST 2\r\nECHO b\r\n"); got != "" {
		t.Fatalf("%q left before the sync", got)
	}
	if n := d.sync(); n != 1 {
		t.Fatalf("one session has %d waits", n)
	}
	const first = "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n"
	if got := c.resume(); got != first {
		t.Fatalf("after the sync: %q", got)
	}
	d.sync()
	if got := c.resume(); got != "$1\r\na\r\n*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:120000\r\n$1\r\nb\r\n" {
		t.Fatalf("after the second sync: %q", got)
	}
	c.raw("RL.RESET k\r\n")
	c.raw("ECHO c\r\n")
	d.sync()
	if got := c.resume(); got != ":1\r\n$1\r\nc\r\n" {
		t.Fatalf("after the third sync: %q", got)
	}
	if d.kicks.Load() != 3 {
		t.Errorf("%d kicks for 3 syncs", d.kicks.Load())
	}
	d.setAlways(false)
	if got := c.raw("RL.RESET k\r\n"); got != ":0\r\n" {
		t.Fatalf("with nothing to wait for: %q", got)
	}
	ts.client().do("RL.TAKE", "w", "GCRA", "1/m")
	d.setAlways(true)
	c.raw("RL.TAKE w GCRA 1/m WAIT 2m\r\n")
	ts.clock.Advance(time.Minute)
	ts.engine.Wake(ts.clock.Now())
	if got := c.resume(); got != "" {
		t.Fatalf("%q left before the sync, after a wait", got)
	}
	d.sync()
	if got := c.resume(); got != "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60000\r\n" {
		t.Fatalf("after a wait and its sync: %q", got)
	}
}

// A reply that reveals no state does not wait for the disk, even if the disk hangs.
func TestWhatDoesNotWaitForTheDisk(t *testing.T) {
	ts, d := newDiskServer(t, "max-key-len 10")
	ts.client().do("RL.TAKE", "other", "FIXED", "1/m")
	d.setAlways(true)
	for _, test := range []struct {
		in    string
		waits bool
	}{
		{"PING", false},
		{"INFO server", false},
		{"CONFIG GET appendonly", false},
		{"CONFIG SET hz 20", false},
		{"CLIENT LIST", false},
		{"NOSUCH", false},
		{"RL.TAKE k", false},
		{"RL.TAKE k GCRA x/m", true}, // for all that the session knows, the handler has looked at the key
		{"RL.TAKE " + strings.Repeat("k", 11) + " GCRA 1/m", false},
		{"RL.TAKE k GCRA 1/m", true},
		{"RL.TAKE k GCRA 1/m WAIT 1ms", true},
		{"RL.TAKE other GCRA 1/m", true}, // WRONGTYPE reveals the kind
		{"RL.TAKEALL 2 k other GCRA 1/m GCRA 1/m", true},
		{"RL.RELEASE k ID token", true},
		{"RL.PEEK k GCRA 1/m", true},
		{"DBSIZE", true},
		{"KEYS *", true},
		{"SCAN 0", true},
		{"DEL k", true},
	} {
		c := ts.client()
		got := c.raw(test.in + "\r\n")
		if waits := got == ""; waits != test.waits {
			t.Errorf("%s: %q left", test.in, got)
		}
		for got == "" { // after a wait, after steps, after the sync
			if d.sync() == 0 {
				ts.clock.Advance(time.Millisecond)
				ts.engine.Wake(ts.clock.Now())
			}
			got = c.resume()
		}
	}
	ts.SetRefusing(errors.New("the disk hangs"))
	if got := ts.client().raw("RL.TAKE k GCRA 1/m\r\n"); !strings.HasPrefix(got, "-MISCONF") {
		t.Errorf("%q left", got)
	}
	ts.SetRefusing(nil)
	ts.engine.SetMaxMemory(1, engine.NoEviction)
	c := ts.client()
	if got := c.raw("RL.TAKE new GCRA 1/m\r\n"); got != "" {
		t.Errorf("%q left", got)
	}
	if d.sync(); !strings.HasPrefix(c.resume(), "-OOM") {
		t.Error("there is memory")
	}
}

// A connection ends only after the replies that it is owed.
func TestClosingWaitsForTheDisk(t *testing.T) {
	ts, d := newDiskServer(t)
	d.setAlways(true)
	for _, in := range []string{"CL.THROTTLE k 1 1 60\r\nQUIT\r\n", "DBSIZE\r\n*1\r\n$x\r\n"} {
		c := ts.client()
		if got := c.raw(in); got != "" || c.conn.flushed {
			t.Fatalf("%q: %q left, closing %v", in, got, c.conn.flushed)
		}
		d.sync()
		if got := c.resume(); got == "" || !c.conn.flushed {
			t.Fatalf("%q: %q, closing %v", in, got, c.conn.flushed)
		}
	}
	// The peer has finished sending.
	c := ts.client()
	c.raw("DBSIZE\r\n")
	if c.s.EOF() {
		t.Error("the connection can close before its reply")
	}
	d.sync()
	if got := c.resume(); got != ":1\r\n" || !c.conn.flushed {
		t.Errorf("%q, closing %v", got, c.conn.flushed)
	}
	// The client is gone before the sync.
	c = ts.client()
	c.raw("DBSIZE\r\n")
	c.hangUp(clients.ErrEOF)
	d.sync()
}

// Replies that wait count as unsent.
func TestOwedRepliesAreBounded(t *testing.T) {
	ts, d := newDiskServer(t, "client-output-buffer-limit 64kb")
	d.setAlways(true)
	c := ts.client()
	c.raw("DBSIZE\r\n")
	for range 200 {
		c.raw("ECHO " + strings.Repeat("x", 1000) + "\r\n")
	}
	if c.s.life.Open() {
		t.Error("a client is owed 200 kB, but its limit is 64 kB")
	}
}

// Loading the state may correct the clock. An earlier reading must not reach the
// engine, whose time never runs backwards.
func TestClockIsSetWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const years = 10 * 365 * 24 * time.Hour
		registry, set := config.New()
		now := clock.NewFake(testStart + int64(years))
		ended := &ending{Fake: now}
		srv := New(Options{Settings: set, Registry: registry, Engine: engine.New(engine.Options{Seed: 1}), Clock: ended, Version: "test"})
		ts := &testServer{Server: srv, t: t}
		c := ts.client()
		srv.SetLoading(true)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); srv.Run(ctx) }()
		time.Sleep(time.Second) // of the bubble: the sweeper has had its turns
		synctest.Wait()
		// Loading ends right after a client's batch has read the clock.
		end := func() { now.Advance(-years); srv.SetLoading(false) }
		ended.after.Store(&end)
		c.expect("a batch from before", c.say("RL.TAKE k GCRA 1/s"), "-"+errLoading)
		c.expect("then", c.say("RL.TAKE k GCRA 1/s"), "[0 1 0 -1 1000]")
		time.Sleep(time.Second)
		synctest.Wait()
		now.Advance(time.Second)
		c.expect("a second later", c.say("RL.TAKE k GCRA 1/s"), "[0 1 0 -1 1000]")
		c.hangUp(transport.ErrPeerClosed)
		cancel()
		<-done
	})
}

// ending is a clock that calls a function once, right after it has been read.
type ending struct {
	*clock.Fake
	after atomic.Pointer[func()]
}

func (e *ending) Now() int64 {
	now := e.Fake.Now()
	if fn := e.after.Swap(nil); fn != nil {
		(*fn)()
	}
	return now
}

func TestLoadingAndMisconf(t *testing.T) {
	ts, _ := newDiskServer(t)
	c := ts.client()
	ts.SetLoading(true)
	if ts.Ready() == nil {
		t.Error("ready while the state is being loaded")
	}
	loading := "-" + errLoading
	c.steps(
		ts,
		[2]string{"CL.THROTTLE k 1 1 60", loading},
		[2]string{"RL.PEEK k GCRA 1/s", loading},
		[2]string{"DBSIZE", loading},
		[2]string{"PING", loading},
		[2]string{"CLIENT ID", "1"},
	)
	if got := c.raw("CL.THROTTLE k 1 1 60\r\nCL.THROTTLE k 1 1 60\r\n"); strings.Count(got, "-LOADING") != 2 {
		t.Errorf("a pipeline: %q", got)
	}
	ts.SetLoading(false)
	if err := ts.Ready(); err != nil {
		t.Error(err)
	}
	ts.SetRefusing(errors.New("no space left\r\non device"))
	if err := ts.Ready(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("decisions are refused, and Ready returns %v", err)
	}
	for _, cmd := range []string{"CL.THROTTLE k 1 1 60", "RL.TAKE k GCRA 1/s", "RL.RESET k", "FLUSHALL"} {
		got := line(c.do(strings.Fields(cmd)...))
		if !strings.HasPrefix(got, "-MISCONF ") || !strings.Contains(got, `no space left\r\non device`) {
			t.Errorf("%s: %s", cmd, got)
		}
	}
	c.steps(
		ts,
		[2]string{"RL.PEEK k GCRA 1/s", "[0 1 0 -1 1000]"},
		[2]string{"DBSIZE", "0"},
	)
	if v := c.do("INFO", "persistence"); !strings.Contains(v.Text, "aof_last_write_status:err\r\n") {
		t.Error(v.Text)
	}
	ts.SetRefusing(nil)
	c.steps(ts, [2]string{"CL.THROTTLE k 1 1 60", "[0 2 1 -1 60]"})
	if err := ts.Ready(); err != nil {
		t.Errorf("decisions are made, and Ready returns %v", err)
	}
}

func TestSave(t *testing.T) {
	ts, d := newDiskServer(t)
	c, other := ts.client(), ts.client()
	if got := c.raw("SAVE\r\nPING\r\n"); got != "" {
		t.Fatalf("%q before it was saved", got)
	}
	other.steps(ts, [2]string{"PING", "PONG"}) // and does not wait
	d.saving <- nil
	if got := c.resume(); got != "+OK\r\n+PONG\r\n" {
		t.Errorf("%q", got)
	}
	c.raw("SAVE\r\n")
	d.saving <- ErrSnapshotting
	if got := c.resume(); got != "-"+durable.ErrBusy+"\r\n" {
		t.Errorf("%q", got)
	}
	c.raw("SAVE\r\n")
	whole := strings.Repeat("the disk is full, ", 20) // it says what to do at its end
	d.saving <- errors.New(whole)
	if got := c.resume(); got != "-ERR "+whole+"\r\n" {
		t.Errorf("%q", got)
	}
	if got := c.raw("BACKUP monday\r\n"); got != "" {
		t.Errorf("%q", got)
	}
	if got := c.resume(); got != "$12\r\n/data/monday\r\n" {
		t.Errorf("%q", got)
	}
	c.raw("BACKUP bad\r\n")
	if got := c.resume(); got != "-ERR no such place\r\n" {
		t.Errorf("%q", got)
	}
	d.stats = stats.Durability{Kept: true, Log: true, LastSnapshot: testStart + 90e9, LastSnapshotTook: 2e9, LogBytes: 100, BaseBytes: 11, LogFiles: 2}
	c.steps(
		ts,
		[2]string{"BGSAVE", "Background saving started"},
		[2]string{"BGSAVE", "-" + durable.ErrBusy},
		[2]string{"BGSAVE NOW", "-" + spec.ErrSyntax},
		[2]string{"LASTSAVE", "1600000090"},
	)
	ends := func() {
		d.saving <- nil
		for deadline := time.Now().Add(2 * time.Minute); ts.durable.Snapshotting.Load(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the snapshot never ended")
			}
		}
	}
	ends()
	c.steps(ts, [2]string{"BGREWRITEAOF", "Background append only file rewriting started"})
	ends()
	for _, want := range []string{"rdb_last_save_time:1600000090", "aof_enabled:1", "aof_current_size:111", "aof_base_size:11", "rdb_last_bgsave_time_sec:2", "aof_files:2", "loading:0"} {
		if v := c.do("INFO", "persistence"); !strings.Contains(v.Text, want+"\r\n") {
			t.Errorf("no %s in %s", want, v.Text)
		}
	}
	d.stats = stats.Durability{Loading: true, LoadBegan: testStart - 10e9, LoadTotal: 1000, LoadedBytes: 250}
	for _, want := range []string{"loading:1", "loading_loaded_perc:25", "loading_eta_seconds:30", "loading_total_bytes:1000"} {
		if v := c.do("INFO", "persistence"); !strings.Contains(v.Text, want+"\r\n") {
			t.Errorf("no %s in %s", want, v.Text)
		}
	}
}

// SHUTDOWN SAVE writes a snapshot, except of a state that is still being loaded.
func TestShutdownSave(t *testing.T) {
	for _, loading := range []bool{false, true} {
		ts, d := newDiskServer(t)
		d.stats.Loading = loading
		snapshots, stopped := 0, make(chan bool)
		ts.durable.Snapshot = func() error { snapshots++; return ErrSnapshotting }
		ts.opts.Shutdown = func(bool) { stopped <- true }
		ts.client().raw("SHUTDOWN SAVE\r\n")
		<-stopped
		if want := map[bool]int{false: 1, true: 0}[loading]; snapshots != want {
			t.Errorf("loading %v: %d snapshots, want %d", loading, snapshots, want)
		}
	}
}

// A client that disconnects while it waits for the disk leaves nothing behind.
func TestWaitAOFOfAClientThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, d := newDiskServer(t)
		d.stats.Log = true
		one, two := ts.client(), ts.client()
		waiting := func() int {
			synctest.Wait()
			return ts.durable.Syncs.Waiting()
		}
		one.raw("WAITAOF 1 0 0\r\n")
		waiting()
		two.raw("WAITAOF 1 0 0\r\n")
		if n := waiting(); n != 1 {
			t.Fatalf("%d wait for the next sync, want 1", n)
		}
		two.hangUp(transport.ErrPeerClosed)
		if n := waiting(); n != 0 {
			t.Errorf("%d wait for the next sync", n)
		}
		d.saving <- nil
		one.resume()
	})
}

func TestWaitAOF(t *testing.T) { synctest.Test(t, waitAOF) }

func waitAOF(t *testing.T) {
	ts, d := newDiskServer(t)
	d.stats.Log = true
	c := ts.client()
	if got := c.raw("WAITAOF 1 0 0\r\n"); got != "" {
		t.Errorf("%q before the sync", got)
	}
	d.saving <- nil
	if got := c.resume(); got != "*2\r\n:1\r\n:0\r\n" {
		t.Errorf("after the sync: %q", got)
	}
	c.raw("WAITAOF 1 0 1\r\n")
	if got := c.resume(); got != "*2\r\n:0\r\n:0\r\n" {
		t.Errorf("when it takes too long: %q", got)
	}
	d.saving <- nil // for the one that was late
	c.raw("WAITAOF 1 0 100000\r\n")
	d.saving <- errors.New("the disk is gone")
	if got := c.resume(); got != "*2\r\n:0\r\n:0\r\n" {
		t.Errorf("when it fails: %q", got)
	}
	c.steps(ts, [2]string{"WAITAOF 0 0 0", "[0 0]"})
}

// CONFIG SET appendonly replies when the log is on. It sets all of its directives, or none.
func TestSwitchTheLog(t *testing.T) {
	ts, d := newDiskServer(t, "appendonly no")
	c, other := ts.client(), ts.client()
	if got := c.raw("CONFIG SET hz 50 appendonly yes requirepass new\r\nPING\r\n"); got != "" {
		t.Errorf("%q before the log is on", got)
	}
	other.steps(ts, [2]string{"PING", "PONG"}) // and does not wait
	d.saving <- errors.New("the disk is full")
	if got := c.resume(); got != "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - the disk is full\r\n+PONG\r\n" {
		t.Errorf("%q", got)
	}
	c.steps(ts, [2]string{"CONFIG GET hz appendonly requirepass", `["requirepass" "" "hz" "10" "appendonly" "no"]`})
	c.raw("CONFIG SET appendonly yes hz 60\r\n")
	d.saving <- nil
	if got := c.resume(); got != "+OK\r\n" {
		t.Errorf("%q", got)
	}
	c.steps(ts, [2]string{"CONFIG GET hz appendonly", `["hz" "60" "appendonly" "yes"]`})
}

// Clients that stop waiting for a disk that hangs leave no goroutine behind.
func TestWaitAOFLeavesNothingBehind(t *testing.T) { synctest.Test(t, waitAOFLeavesNothing) }

// goroutinesOfBubble returns the number of goroutines in the caller's bubble. Those of the runtime, which come and go, are in none.
func goroutinesOfBubble(t *testing.T) int {
	t.Helper()
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	own := regexp.MustCompile(`synctest bubble \d+`).Find(stacks) // the caller's stack is the first
	if own == nil || bytes.IndexByte(stacks, '\n') < bytes.Index(stacks, own) {
		t.Fatal("the test is in no bubble")
	}
	return len(regexp.MustCompile(string(own)+`[\],]`).FindAll(stacks, -1))
}

func waitAOFLeavesNothing(t *testing.T) {
	ts, d := newDiskServer(t)
	d.stats.Log = true
	c := ts.client()
	late := func() {
		t.Helper()
		c.raw("WAITAOF 1 0 1\r\n")
		if got := c.resume(); got != "*2\r\n:0\r\n:0\r\n" {
			t.Fatalf("%q", got)
		}
	}
	late()
	synctest.Wait()
	before := goroutinesOfBubble(t)
	for range 100 {
		late()
	}
	synctest.Wait()
	if n := goroutinesOfBubble(t); n != before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	if n := ts.durable.Syncs.Waiting(); n > 0 {
		t.Errorf("%d clients still wait", n)
	}
	d.saving <- nil // the one that hung
	c.raw("WAITAOF 1 0 0\r\n")
	d.saving <- nil
	if got := c.resume(); got != "*2\r\n:1\r\n:0\r\n" {
		t.Errorf("%q", got)
	}
}

// Without a data directory, the commands reply that nothing is kept.
func TestNothingIsKept(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, cmd := range []string{"SAVE", "BGSAVE", "BGREWRITEAOF", "BACKUP x", "SHUTDOWN SAVE"} {
		c.steps(ts, [2]string{cmd, "-" + durable.ErrNone})
	}
	c.steps(
		ts,
		[2]string{"LASTSAVE", "1600000000"},
		[2]string{"CONFIG SET save 1", "-ERR CONFIG SET failed (possibly related to argument 'save') - argument must be pairs of seconds and changes, each 1 or more"},
	)
}
