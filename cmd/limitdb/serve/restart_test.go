package serve

import (
	"bufio"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"limitdb/config"
	"limitdb/internal/clock"
	"limitdb/resp"
)

// deadline bounds the wait for what takes milliseconds.
const deadline = 2 * time.Minute

// machine is what outlives the process: a directory and the clocks.
type machine struct {
	t    *testing.T
	dir  string
	off  time.Duration // how far the wall clock is wrong
	boot uint64
	up   time.Time // when the machine was started
	p    *process  // the one that ran last
	args []string  // directives; nil means appendfsync always
}

// run runs the whole server on the machine, and calls fn with a client of it once the state is loaded. (A stop
// does not wait for a load, which may then still write to the directory.)
func (m *machine) run(fn func(do func(line string) resp.Value)) {
	m.t.Helper()
	m.t.Setenv("GOMAXPROCS", "kept") // see roomForSyncs
	registry, set := config.New()
	socket := filepath.Join(m.dir, "socket")
	args := m.args
	if args == nil {
		args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	err := registry.Load(config.Sources{Args: append([]string{
		"--port", "0", "--http-port", "0", "--unixsocket", socket, "--dir", m.dir, "--logfile", filepath.Join(m.dir, "server.out"),
		"--appendfsync-max-delay", "3600", // a busy machine's disk may hang for longer than the default allows
	}, args...)})
	if err != nil {
		m.t.Fatal(err)
	}
	wall := clock.NewReal()
	wall.Set(wall.Now() + int64(m.off))
	boot := m.boot
	p := &process{
		registry: registry, set: set, clock: wall, stop: make(chan bool, 2),
		boot: func() (uint64, int64) { return boot, int64(time.Since(m.up)) },
	}
	m.p = p
	done := make(chan error, 1)
	go func() { done <- p.run() }()
	var c net.Conn
	for end := time.Now().Add(deadline); ; {
		if c, err = net.Dial("unix", socket); err == nil {
			break
		}
		select {
		case err := <-done:
			m.t.Fatalf("the server ended: %v", err)
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(end) {
			m.t.Fatal(err)
		}
	}
	do := m.client(c)
	do("DBSIZE")
	fn(do)
	p.stop <- false
	if err := <-done; err != nil {
		m.t.Fatal(err)
	}
}

// client returns a function that sends a command on c and reads its reply. c is closed at the end of the
// test.
func (m *machine) client(c net.Conn) (do func(line string) resp.Value) {
	m.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(deadline))
	r := bufio.NewReader(c)
	return func(line string) resp.Value {
		for {
			if _, err := c.Write([]byte(line + "\r\n")); err != nil {
				m.t.Error(err)
				return resp.Value{}
			}
			v, err := resp.ReadReply(r, 1<<20)
			if err != nil {
				m.t.Errorf("%s: %v", line, err)
				return resp.Value{}
			}
			if !strings.HasPrefix(v.Text, "LOADING") {
				return v
			}
		}
	}
}

// If the clock is wrong when the server starts again, no caller gets a fresh quota and none is locked out.
func TestRestartUnderAWrongClock(t *testing.T) {
	const (
		take     = "CL.THROTTLE user 9 10 3600"
		interval = 360 // seconds until one of ten an hour comes back
		years    = 10 * 365 * 24 * time.Hour
	)
	for _, test := range []struct {
		name    string
		off     time.Duration // at the second start
		reboot  bool
		elapsed bool // the quota is full again, as far as anybody can know
	}{
		{name: "right"},
		{name: "an hour back", off: -time.Hour},
		{name: "ten years on", off: years},
		{name: "an hour back after the machine's start", off: -time.Hour, reboot: true},
		// Only the wall clock shows how long the machine was off.
		{name: "ten years on after the machine's start", off: years, reboot: true, elapsed: true},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			m := &machine{t: t, dir: t.TempDir(), boot: 1, up: time.Now()}
			m.run(func(do func(string) resp.Value) {
				for range 10 {
					if v := do(take); len(v.Elems) != 5 || v.Elems[0].Int != 0 {
						t.Fatalf("a new key: %+v", v)
					}
				}
			})
			// First with the wrong clock, then after it was corrected.
			for _, off := range []time.Duration{test.off, 0} {
				m.off = off
				if test.reboot {
					m.boot, m.up = m.boot+1, time.Now()
				}
				m.run(func(do func(string) resp.Value) {
					if off == test.off && test.elapsed {
						for range 10 {
							do(take)
						}
					}
					v := do(take)
					if len(v.Elems) != 5 || v.Elems[0].Int != 1 {
						t.Fatalf("off by %v: a fresh quota: %+v", off, v)
					}
					if wait := v.Elems[3].Int; wait < interval-60 || wait > interval {
						t.Errorf("off by %v: locked out for %d s, want nearly %d", off, wait, interval)
					}
				})
			}
		})
	}
}

// The metrics show the state on disk.
func TestMetricsOfDurability(t *testing.T) {
	m := &machine{t: t, dir: t.TempDir(), boot: 1, up: time.Now()}
	m.run(func(do func(string) resp.Value) {
		do("CL.THROTTLE user 9 10 3600")
		do("CL.THROTTLE user 9 10 3600")
		s := m.p.snapshot()
		d := s.Durability
		if d.Syncs < 2 || d.Writes < 2 || d.LogBytes == 0 || d.BytesWritten == 0 || time.Since(time.Unix(0, d.LastSync)).Abs() > deadline {
			t.Errorf("after two commands: %+v", d)
		}
		if d.Loading || s.Refusing || d.Snapshotting || d.Failures != 0 || d.BaseBytes != 0 || d.LastSnapshot != 0 || d.LastSnapshotFailed {
			t.Errorf("all is well: %+v", d)
		}
		if v := do("SAVE"); v.Err() != nil {
			t.Fatal(v.Err())
		}
		d = m.p.snapshot().Durability
		if d.Snapshots != 1 || d.SnapshotErrors != 0 || d.BaseBytes == 0 || d.LastSnapshotTook <= 0 || time.Since(time.Unix(0, d.LastSnapshot)).Abs() > deadline {
			t.Errorf("after a snapshot: %+v", d)
		}
		m.p.server.SetRefusing(errors.New("the disk is full"))
		if !m.p.snapshot().Refusing {
			t.Error("changes are refused, and nothing tells")
		}
		m.p.server.SetRefusing(nil)
	})
}
