package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// fillAll makes keys of all kinds, through a client.
func fillAll(t *testing.T, c *goredis.Client) {
	t.Helper()
	ctx := context.Background()
	for i := range 200 {
		n := strconv.Itoa(i)
		for _, words := range [][]any{
			{"RL.TAKE", "fixed" + n, "FIXED", "1000/365d", "COST", i + 1},
			{"RL.TAKE", "log" + n, "LOG", "1000/365d", "COST", 1 + i%9},
			{"RL.LEASE", "lease" + n, 50, "365d", "ID", "worker"},
			{"SET", "string" + n, strings.Repeat(n, 1+i*7)},
			{"INCRBY", "number" + n, i * i},
			{"HSET", "hash" + n, "f" + n, n, "g", strings.Repeat("v", i*11)},
			{"RPUSH", "list" + n, n, "b", n},
			{"SADD", "set" + n, n, "b"},
			{"ZADD", "zset" + n, i, n, i + 1, "b"},
		} {
			if err := c.Do(ctx, words...).Err(); err != nil {
				t.Fatalf("%v: %v", words, err)
			}
		}
	}
}

// contents returns what each key of a server has.
func contents(t *testing.T, c *goredis.Client) map[string]string {
	t.Helper()
	ctx := context.Background()
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, k := range keys {
		kind, err := c.Type(ctx, k).Result()
		if err != nil {
			t.Fatal(err)
		}
		ask := map[string][]any{
			"string": {"GET", k}, "hash": {"HGETALL", k}, "list": {"LRANGE", k, 0, -1}, "set": {"SMEMBERS", k}, "zset": {"ZRANGE", k, 0, -1, "WITHSCORES"},
		}[kind]
		switch {
		case strings.HasPrefix(k, "fixed"):
			ask = []any{"RL.PEEK", k, "FIXED", "1000/365d"}
		case strings.HasPrefix(k, "log"):
			ask = []any{"RL.PEEK", k, "LOG", "1000/365d"}
		case strings.HasPrefix(k, "lease"):
			ask = []any{"RL.HOLDERS", k}
		}
		v, err := c.Do(ctx, ask...).Result()
		if err != nil {
			t.Fatalf("%v (%s): %v", ask, kind, err)
		}
		text := fmt.Sprint(v)
		if list, ok := v.([]any); ok && ask[0] == "RL.PEEK" {
			text = fmt.Sprint(list[:3]) // without the times, which pass
		} else if ok && ask[0] == "RL.HOLDERS" {
			text = fmt.Sprint(len(list))
		} else if list, ok := v.([]any); ok && kind == "set" {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			text = fmt.Sprint(list)
		}
		all[k] = kind + " " + text
	}
	return all
}

// client returns a client of a server.
func client(t *testing.T, addr string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: addr, ReadTimeout: deadline, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// limitdb runs a subcommand.
func limitdb(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(plainBinary(t), args...)
	cmd.Env = append(cleanEnviron(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// restored starts a server from a backup.
func restored(t *testing.T, backup string) *goredis.Client {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	out, err := limitdb(t, nil, "restore", backup, dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return client(t, startIn(t, dir, "--appendonly", "yes").Addr)
}

// Each form of a backup of a server, and of each of three nodes, has every key as it was.
func TestBackupHasEveryKey(t *testing.T) {
	t.Parallel()
	var addrs []string
	for _, n := range startCluster(t, 3) {
		addrs = append(addrs, n.Addr)
	}
	p := startIn(t, filepath.Join(t.TempDir(), "data"), "--appendonly", "yes")
	for _, at := range [][]string{{p.Addr}, addrs} {
		c := client(t, at[0])
		fillAll(t, c)
		want := contents(t, c)
		if len(want) != 1800 {
			t.Fatalf("%d keys", len(want))
		}
		for i, addr := range at {
			dir := t.TempDir()
			backup := filepath.Join(dir, []string{"b", "b.tar", "sub"}[i%3])
			if err := client(t, addr).Do(context.Background(), "WAIT", len(at)-1, 60000).Err(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the node has caught up", func() bool {
				return len(at) == 1 || strings.Contains(one(t, addr, "INFO", "replication").Text, applied(t, at[0]))
			})
			if out, err := limitdb(t, nil, "backup", "--to", backup, "-a", addr); err != nil || !strings.Contains(out, "whole and verified") {
				t.Fatalf("%v: %s", err, out)
			}
			differ(t, contents(t, restored(t, backup)), want)
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Errorf("%v is left beside the backup", entries)
			}
		}
	}
}

// applied returns the line of INFO with the applied index of a node.
func applied(t *testing.T, addr string) string {
	for line := range strings.Lines(one(t, addr, "INFO", "replication").Text) {
		if strings.HasPrefix(line, "raft_applied_index") {
			return strings.TrimSpace(line)
		}
	}
	return "raft_applied_index:none"
}

func differ(t *testing.T, got, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %.200q, want %.200q", k, got[k], v)
		}
	}
	for k := range got {
		if want[k] == "" {
			t.Errorf("%s is there and should not be", k)
		}
	}
}

// A backup under load has everything that was answered before it began, nothing that came after it ended, and each step of several keys as a
// whole.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	p := startIn(t, filepath.Join(t.TempDir(), "data"), "--appendonly", "yes")
	for _, addr := range []string{p.Addr, leader(t, nodes).Addr} {
		c := client(t, addr)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		var mu sync.Mutex
		sent, answered := make([]int, 8), make([]int, 8)
		for w := range 8 {
			wg.Go(func() {
				for i := 1; ctx.Err() == nil; i++ {
					mu.Lock()
					sent[w] = i
					mu.Unlock()
					v := strconv.Itoa(i)
					if err := c.Do(context.Background(), "MSET", fmt.Sprint("a", w), v, fmt.Sprint("b", w), v).Err(); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					answered[w] = i
					mu.Unlock()
				}
			})
		}
		dir := t.TempDir()
		type taken struct {
			name          string
			before, after []int
		}
		var all []taken
		for b := range 4 {
			if b == 2 {
				one(t, addr, "BGSAVE")
			}
			mu.Lock()
			before := slices.Clone(answered)
			mu.Unlock()
			name := filepath.Join(dir, strconv.Itoa(b))
			if out, err := limitdb(t, nil, "backup", "--to", name, "-a", addr); err != nil {
				t.Errorf("%v: %s", err, out)
				continue
			}
			mu.Lock()
			all = append(all, taken{name, before, slices.Clone(sent)})
			mu.Unlock()
		}
		cancel()
		wg.Wait()
		for _, b := range all {
			r := restored(t, b.name)
			for w := range 8 {
				x, _ := r.Get(context.Background(), fmt.Sprint("a", w)).Int()
				y, _ := r.Get(context.Background(), fmt.Sprint("b", w)).Int()
				if x != y || x < b.before[w] || x > b.after[w] {
					t.Errorf("%s: client %d has %d and %d; before it %d was answered, after it %d sent", b.name, w, x, y, b.before[w], b.after[w])
				}
			}
		}
	}
}

// A backup that fails leaves nothing that looks like one, and the server makes the next one.
func TestBackupThatFails(t *testing.T) {
	t.Parallel()
	p := start(t, "--appendonly", "yes", "--requirepass", "secret")
	pass := []string{"LIMITDB_REQUIREPASS=secret"}
	c := goredis.NewClient(&goredis.Options{Addr: p.Addr, Password: "secret"})
	defer func() { _ = c.Close() }()
	for i := range 60 {
		if err := c.Set(context.Background(), fmt.Sprint("k", i), strings.Repeat("x", 50_000), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	to := filepath.Join(dir, "b")
	for name, c := range map[string]struct {
		env  []string
		args []string
		want string
	}{
		"no password":    {nil, []string{"backup", "--to", to, "-a", p.Addr}, "NOAUTH"},
		"wrong password": {[]string{"LIMITDB_REQUIREPASS=wrong"}, []string{"backup", "--to", to, "-a", p.Addr}, "WRONGPASS"},
		"no place":       {pass, []string{"backup", "--to", filepath.Join(dir, "no", "b"), "-a", p.Addr}, "no such file"},
		"no target":      {pass, []string{"backup", "-a", p.Addr}, "--to"},
	} {
		if out, err := limitdb(t, c.env, c.args...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	// A client that reads the beginning and goes away.
	r := dial(t, p.Addr)
	r.do("AUTH", "secret")
	if got := r.do("RL.BACKUP", "BEGIN"); !strings.Contains(got, "MANIFEST") {
		t.Fatalf("%q", got)
	}
	_ = r.Conn.(*net.TCPConn).SetLinger(0)
	_ = r.Close()
	// The next one takes its place when it was not read for a while.
	eventually(t, "the next backup is made", func() bool {
		out, err := limitdb(t, pass, "backup", "--to", to, "-a", p.Addr)
		return err == nil || !strings.Contains(out, "another backup")
	})
	if out, err := limitdb(t, nil, "restore", to, filepath.Join(dir, "r")); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// A full disk.
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		lacking(t, "mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, 0) })
	for _, name := range []string{"b", "b.tar"} {
		if out, err := limitdb(t, pass, "backup", "--to", filepath.Join(small, name), "-a", p.Addr); err == nil || !strings.Contains(out, "no space left") {
			t.Errorf("a full disk, %s: %v: %s", name, err, out)
		}
	}
	if out, err := limitdb(t, nil, "restore", to, filepath.Join(small, "r")); err == nil || !strings.Contains(out, "no space left") {
		t.Errorf("a restore on a full disk: %v: %s", err, out)
	}
	if left, _ := os.ReadDir(small); len(left) > 0 {
		t.Errorf("%v is left on the full disk", left)
	}
	// A backup of which a byte was changed.
	log, _ := filepath.Glob(filepath.Join(to, "log-*"))
	b, err := os.ReadFile(log[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(log[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := limitdb(t, nil, "restore", to, filepath.Join(dir, "r2")); err == nil || !strings.Contains(out, "not the file that was backed up") {
		t.Errorf("a changed backup: %v: %s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// backup-every makes backups, keeps as many as backup-keep says, and counts them in the metrics. A restart does not forget when the last
// one was made.
func TestScheduledBackups(t *testing.T) {
	t.Parallel()
	dir, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backups")
	p := startIn(t, dir, "--appendonly", "yes", "--backup-every", "1", "--backup-keep", "2", "--backup-dir", to)
	one(t, p.Addr, "SET", "k", "v")
	made := func() int {
		for line := range strings.Lines(get("http://" + p.HTTPAddr + "/metrics")) {
			if n, ok := strings.CutPrefix(line, "limitdb_backups_total "); ok {
				return atoi(t, strings.TrimSpace(n))
			}
		}
		return 0
	}
	eventually(t, "four backups are made", func() bool { return made() >= 4 })
	one(t, p.Addr, "CONFIG", "SET", "backup-every", "0")
	p.Stop()
	left, err := filepath.Glob(filepath.Join(to, "*"))
	if err != nil || len(left) != 2 {
		t.Fatalf("%v, %v", left, err)
	}
	if v, err := restored(t, left[1]).Get(context.Background(), "k").Result(); err != nil || v != "v" {
		t.Errorf("%q, %v", v, err)
	}
	p = startIn(t, dir, "--appendonly", "yes")
	eventually(t, "the time of the last backup is known", func() bool {
		for line := range strings.Lines(get("http://" + p.HTTPAddr + "/metrics")) {
			if at, ok := strings.CutPrefix(line, "limitdb_backup_last_success_timestamp_seconds "); ok {
				f, _ := strconv.ParseFloat(strings.TrimSpace(at), 64)
				return time.Since(time.Unix(int64(f), 0)).Abs() < time.Hour
			}
		}
		return false
	})
}
