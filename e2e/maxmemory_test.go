package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestStatesThatGrowStayInBounds has 300 keys of each kind whose states grow take
// until maxmemory is used up, with the log on. It counts the resident memory of the
// process at its peak, without what the process has when it is idle: some 20 MB,
// nearly all of it pages of the binary. The rest may exceed maxmemory by a tenth and
// 16 MB.
func TestStatesThatGrowStayInBounds(t *testing.T) {
	const maxMemory, keys = 8 << 20, 300
	for name, tt := range map[string]struct {
		rounds int
		call   func(key, round int) string
	}{
		"LOG": {6000, func(key, _ int) string { return fmt.Sprintf("RL.TAKE k%d LOG 65536/1h\r\n", key) }},
		"SEGMENTED": {1500, func(key, _ int) string {
			return fmt.Sprintf("RL.TAKE k%d SEGMENTED 1000000/60s SEGMENTS 1024\r\n", key)
		}},
		"leases": {1000, func(key, round int) string {
			return fmt.Sprintf("RL.LEASE k%d 8192 1h ID holder-number-%d\r\n", key, round)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "--maxmemory", strconv.Itoa(maxMemory))
			idle := p.RSS()
			c := dial(t, p.Addr)
			// Only a few rounds are underway at a time, because unread replies are not to be measured.
			answered, underway := make(chan error, 1), make(chan struct{}, 1)
			go func() {
				replies := 0
				lines := bufio.NewScanner(c.Conn)
				for lines.Scan() {
					if kind := lines.Bytes()[0]; kind != '*' && kind != '-' {
						continue
					}
					if replies++; replies%keys == 0 {
						<-underway
					}
				}
				answered <- lines.Err()
			}()
			for round := range tt.rounds {
				var batch strings.Builder
				for key := range keys {
					batch.WriteString(tt.call(key, round))
				}
				underway <- struct{}{}
				c.send(batch.String())
			}
			c.send("QUIT\r\n")
			if err := <-answered; err != nil {
				t.Fatal(err)
			}
			info := dial(t, p.Addr).do("INFO", "memory", "persistence")
			for _, want := range []string{"maxmemory:8388608", "aof_enabled:1"} {
				if !strings.Contains(info, want) {
					t.Fatalf("no %s in %q", want, info)
				}
			}
			most := idle + maxMemory*11/10 + 16<<20
			t.Logf("%.1f MB idle, %.1f MB now, %.1f MB at most; the bar is %.1f MB", mb(idle), mb(p.RSS()), mb(p.PeakRSS()), mb(most))
			if p.PeakRSS() > most {
				t.Errorf("%.1f MB, more than %.1f MB", mb(p.PeakRSS()), mb(most))
			}
		})
	}
}

func mb(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// maxmemory auto is six tenths of what a cgroup or the machine has. In a cgroup, keys fill all of it, and the kernel ends nobody.
func TestMaxMemoryAuto(t *testing.T) {
	t.Parallel()
	figure := func(c *rawConn, name string) int64 {
		t.Helper()
		m := regexp.MustCompile(`\b` + name + `:(\d+)`).FindStringSubmatch(c.do("INFO", "memory"))
		if m == nil {
			t.Fatalf("INFO has no %s", name)
		}
		return int64(atoi(t, m[1]))
	}
	t.Run("machine", func(t *testing.T) {
		p := start(t, "--maxmemory", "auto")
		c := dial(t, p.Addr)
		if most, all := figure(c, "maxmemory"), figure(c, "total_system_memory"); figure(c, "maxmemory_auto") != 1 || most == 0 || most > all/10*6 {
			t.Errorf("maxmemory auto is %d on a machine of %d bytes", most, all)
		}
		if got := c.do("CONFIG", "GET", "maxmemory"); got != "[maxmemory auto]" {
			t.Errorf("CONFIG GET: %s", got)
		}
		if !strings.Contains(p.Log(), "maxmemory is set to its share") {
			t.Errorf("the log does not say what maxmemory is:\n%s", p.Log())
		}
	})
	t.Run("cgroup", func(t *testing.T) {
		const limit = 160 << 20
		group := memoryGroup(t, limit)
		if group == "" {
			t.Log("no cgroup can be made here")
			return
		}
		p := startWith(t, options{wrap: []string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group}}, "--maxmemory", "auto")
		c := dial(t, p.Addr)
		if got := figure(c, "maxmemory"); got != limit/10*6 {
			t.Fatalf("maxmemory auto is %d of %d", got, limit)
		}
		full := false
		for key := 0; !full; {
			var batch strings.Builder
			const size = 5000
			for range size {
				key++
				fmt.Fprintf(&batch, "RL.TAKE key-with-a-name-%0100d GCRA 10/d\r\n", key)
			}
			c.send(batch.String() + "PING\r\n")
			for got := ""; got != "+PONG"; {
				got = c.reply()
				full = full || strings.HasPrefix(got, "-OOM")
			}
			if key > 10_000_000 {
				t.Fatal("maxmemory is never reached")
			}
		}
		t.Logf("%.1f MB of keys; %.1f MB resident at most in a cgroup of %.1f MB", mb(figure(c, "used_memory_dataset")), mb(p.PeakRSS()), mb(limit))
		if err := os.WriteFile(filepath.Join(group, memoryFile(group)), []byte(strconv.Itoa(2*limit)), 0o644); err != nil {
			t.Fatal(err)
		}
		if c.do("CONFIG", "SET", "maxmemory", "auto"); figure(c, "maxmemory") != 2*limit/10*6 {
			t.Errorf("after the cgroup's limit was raised, maxmemory is %d", figure(c, "maxmemory"))
		}
	})
}

// memoryFile is the name of the file that limits a cgroup's memory.
func memoryFile(group string) string {
	if _, err := os.Stat(filepath.Join(group, "memory.max")); err == nil {
		return "memory.max"
	}
	return "memory.limit_in_bytes"
}

// memoryGroup makes a cgroup, of version 1 or 2, whose processes may use so many bytes, and removes it at the end of the test. It returns "" if this
// process may not make one.
func memoryGroup(t *testing.T, bytes int) string {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && parts[1] != "memory" {
			continue
		}
		for _, in := range []string{parts[2], "/"} {
			dir := filepath.Join("/sys/fs/cgroup", parts[1], in, fmt.Sprint("limitdb-test-", os.Getpid()))
			if os.Mkdir(dir, 0o755) != nil {
				continue
			}
			if os.WriteFile(filepath.Join(dir, memoryFile(dir)), []byte(strconv.Itoa(bytes)), 0o644) != nil {
				_ = os.Remove(dir)
				continue
			}
			t.Cleanup(func() { eventually(t, "the cgroup is empty", func() bool { return os.Remove(dir) == nil }) })
			return dir
		}
	}
	return ""
}
