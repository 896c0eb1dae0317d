package serve

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/resp"
)

// modes returns the ways of saving state, as directives.
func modes() map[string]string {
	return map[string]string{
		"always":   "appendonly yes appendfsync always",
		"everysec": "appendonly yes appendfsync everysec",
		"no":       "appendonly yes appendfsync no",
		"off":      "appendonly no",
	}
}

// Every client gets its reply, whatever the policy changes from and to, and what was decided while the log is
// on is there after the next start.
func TestEverySwitchUnderLoad(t *testing.T) {
	const clients, each = 8, 30
	m := &machine{t: t, dir: t.TempDir(), boot: 1, up: time.Now()}
	var taken [clients]atomic.Int64
	m.run(func(do func(string) resp.Value) {
		var stop atomic.Bool
		var all sync.WaitGroup
		for i := range clients {
			c, err := net.Dial("unix", filepath.Join(m.dir, "socket"))
			if err != nil {
				t.Fatal(err)
			}
			take := m.client(c)
			all.Go(func() {
				for !stop.Load() && !t.Failed() {
					if v := take(fmt.Sprintf("RL.TAKE key%d FIXED 1000000/365d FIRST", i)); len(v.Elems) != 5 {
						t.Errorf("%+v", v)
						return
					}
					taken[i].Add(1)
				}
			})
		}
		// Each of the twelve switches once.
		for _, to := range strings.Fields("everysec always no always off everysec no everysec off no off always") {
			if v := do("CONFIG SET " + modes()[to]); v.Text != "OK" {
				t.Fatalf("to %s: %+v", to, v)
			}
			for i := range clients {
				for want := taken[i].Load() + each; taken[i].Load() < want && !t.Failed(); {
					time.Sleep(time.Millisecond)
				}
			}
		}
		stop.Store(true)
		all.Wait()
	})
	m.run(func(do func(string) resp.Value) {
		for i := range clients {
			v := do(fmt.Sprintf("RL.PEEK key%d FIXED 1000000/365d FIRST", i))
			if left := 999_999 - taken[i].Load(); len(v.Elems) != 5 || v.Elems[2].Int != left {
				t.Errorf("key %d: %+v, want %d left", i, v, left)
			}
		}
	})
}

// remaining returns how much of ten is left, or -1 for an error.
func remaining(v resp.Value) int64 {
	if len(v.Elems) != 5 {
		return -1
	}
	return v.Elems[2].Int
}

// A later start does not load what was saved before the log was turned off.
func TestLogThatWasTurnedOff(t *testing.T) {
	const take = "RL.TAKE key FIXED 10/365d FIRST"
	for _, mode := range []struct {
		name string
		args []string
		want int64
	}{
		{"normal", nil, 9},
		{"conservative", []string{"--appendonly", "yes", "--recovery-mode", "conservative"}, 0},
	} {
		t.Run(mode.name, func(t *testing.T) {
			m := &machine{t: t, dir: t.TempDir(), boot: 1, up: time.Now(), args: mode.args}
			m.run(func(do func(string) resp.Value) {
				do(take)
				if v := do("CONFIG SET appendonly no"); v.Text != "OK" {
					t.Fatal(v)
				}
				if v := do(take); remaining(v) != 8 {
					t.Errorf("the server has forgotten: %+v", v)
				}
				if v := do("SAVE"); !strings.Contains(v.Text, "memory only") {
					t.Errorf("%+v", v)
				}
			})
			m.run(func(do func(string) resp.Value) {
				if v := do(take); remaining(v) != mode.want {
					t.Errorf("%+v, want %d left", v, mode.want)
				}
			})
		})
	}
}

// With only save, every change survives a stop, whatever was done before, even while a snapshot is written.
func TestSaveAlone(t *testing.T) {
	const take = "RL.TAKE key FIXED 10/365d FIRST"
	m := &machine{t: t, dir: t.TempDir(), boot: 1, up: time.Now()}
	m.run(func(do func(string) resp.Value) {
		do(take)
		do("FLUSHALL")
		do(take)
	})
	m.args = []string{"--appendonly", "no", "--save", "3600 1"}
	for want := int64(8); want > 4; want-- {
		m.run(func(do func(string) resp.Value) {
			if want%2 == 0 {
				do("BGSAVE")
			}
			if v := do(take); remaining(v) != want {
				t.Errorf("%+v, want %d left", v, want)
			}
			if v := do("INFO persistence"); !strings.Contains(v.Text, "aof_enabled:0\r\n") {
				t.Error(v.Text)
			}
			do("BGSAVE")
		})
	}
	// The same when save is turned off and on again while the server runs.
	m.run(func(do func(string) resp.Value) {
		for _, set := range []string{`save ""`, `save "60 1"`, `save "" appendonly yes`} {
			if v := do("CONFIG SET " + set); v.Text != "OK" {
				t.Fatalf("%s: %+v", set, v)
			}
		}
		do(take)
	})
	m.args = nil
	m.run(func(do func(string) resp.Value) {
		if v := do(take); remaining(v) != 3 {
			t.Errorf("%+v, want 3 left", v)
		}
	})
}

// A server that saves nothing leaves the data in a directory alone, and says so.
func TestDataThatWouldBeIgnored(t *testing.T) {
	m := &machine{t: t, dir: t.TempDir(), boot: 1, up: time.Now()}
	m.run(func(do func(string) resp.Value) { do("RL.TAKE key FIXED 10/365d FIRST") })
	fails := func(want string, args ...string) {
		t.Helper()
		registry, set := config.New()
		if err := registry.Load(config.Sources{Args: append([]string{"--port", "0", "--http-port", "0", "--unixsocket", filepath.Join(m.dir, "other"), "--logfile", filepath.Join(t.TempDir(), "log")}, args...)}); err != nil {
			t.Fatal(err)
		}
		p := &process{registry: registry, set: set, clock: clock.NewReal(), stop: make(chan bool, 2), boot: func() (uint64, int64) { return 0, 0 }}
		if err := p.run(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	fails("has the state of an earlier run", "--dir", m.dir, "--appendonly", "no")
	m.args = []string{"--appendonly", "no", "--ignore-existing-data", "yes"}
	m.run(func(do func(string) resp.Value) {
		if v := do("RL.TAKE key FIXED 10/365d FIRST"); remaining(v) != 9 {
			t.Errorf("%+v", v)
		}
		if v := do("CONFIG SET appendonly yes"); !strings.Contains(v.Text, "has state that this server has not loaded") {
			t.Errorf("%+v", v)
		}
		if v := do("CONFIG GET appendonly"); v.Elems[1].Text != "no" {
			t.Errorf("%+v", v)
		}
	})
	m.args = nil
	m.run(func(do func(string) resp.Value) {
		if v := do("RL.TAKE key FIXED 10/365d FIRST"); remaining(v) != 8 {
			t.Errorf("%+v", v)
		}
		fails("another server uses the data directory", "--dir", m.dir, "--appendonly", "yes")
	})
	fails("cannot be written", "--dir", filepath.Join(m.dir, "no", "such"), "--appendonly", "yes")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fails("cannot be written", "--dir", file, "--appendonly", "yes")
}

// A value that may surprise is warned of when it is set while the server runs, as one in the file is.
func TestAdviceAtRunTime(t *testing.T) {
	m := &machine{t: t, dir: t.TempDir(), boot: 1, up: time.Now()}
	m.run(func(do func(string) resp.Value) {
		for _, set := range []string{`client-output-buffer-limit "normal 0 0 0"`, "maxmemory 1"} {
			if v := do("CONFIG SET " + set); v.Text != "OK" {
				t.Fatalf("%s: %+v", set, v)
			}
		}
	})
	log, err := os.ReadFile(filepath.Join(m.dir, "server.out"))
	for _, want := range []string{"no hard limit for normal clients", "maxmemory 1 is less than 2mb"} {
		if err != nil || !strings.Contains(string(log), want) {
			t.Errorf("%v: no %q in\n%s", err, want, log)
		}
	}
}

// The place of a key is the same in all engines of a process: a command may find it in one and ask the next.
func TestEnginesHashAlike(t *testing.T) {
	_, set := config.New()
	p := &process{set: set}
	var places [2]engine.Place
	for i := range places {
		p.newEngine(256).Warm([][]byte{[]byte("key")}, places[i:i+1], false)
	}
	if places[0] == 0 || places[0] != places[1] {
		t.Errorf("%x and %x", places[0], places[1])
	}
}
