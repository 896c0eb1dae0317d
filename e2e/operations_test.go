package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// operations returns the first fence of docs/operations.md in a language.
func operations(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository(t), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatalf("docs/operations.md has no %s", language)
	}
	return string(m[1])
}

// TestStandby runs the commands for a standby in docs/operations.md, with other folders and ports. The
// standby counts every key as used up.
func TestStandby(t *testing.T) {
	t.Parallel()
	need(t, "redis-cli")
	dir := t.TempDir()
	first := start(t, "--dir", filepath.Join(dir, "first"), "--appendonly", "yes")
	cli := func(p *proc, args ...string) string {
		out, err := exec.Command("redis-cli", append([]string{"-p", p.Port()}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	cli(first, "RL.TAKE", "user:1", "GCRA", "10/d", "COST", "4")

	text := strings.NewReplacer("ssh standby 'cat > /srv/limitdb.tar'", "cat > "+filepath.Join(dir, "limitdb.tar"), "/srv/limitdb.tar", filepath.Join(dir, "limitdb.tar"),
		"/srv/standby", filepath.Join(dir, "second"), "limitdb backup", plainBinary(t)+" backup -a "+first.Addr, "limitdb restore", plainBinary(t)+" restore").
		Replace(operations(t, "sh"))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.Fields(lines[len(lines)-1])
	copying := exec.Command("sh", "-ec", strings.Join(lines[:len(lines)-1], "\n"))
	copying.Env = cleanEnviron()
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if last[0] != "limitdb" || last[3] != "--port" {
		t.Fatalf("the page starts the standby by %q", last)
	}
	second := start(t, append(last[1:3:3], last[5:]...)...) // with the test's port
	for _, key := range []string{"user:1", "user:2"} {
		if got := strings.Join(strings.Fields(cli(second, "RL.PEEK", key, "GCRA", "10/d"))[:3], " "); got != "1 10 0" {
			t.Errorf("the standby says %s of %s, want it denied", got, key)
		}
	}
}

// TestSharding uses the ring of docs/operations.md: each key is on one of two servers, where its limit holds,
// and stays there when the other server is lost.
func TestSharding(t *testing.T) {
	t.Parallel()
	a, b := start(t), start(t)
	ctx := context.Background()
	opts := &redis.RingOptions{
		Addrs:      map[string]string{"a": a.Addr, "b": b.Addr},
		MaxRetries: -1, DialerRetries: 1, ReadTimeout: deadline,
		HeartbeatFn: func(context.Context, *redis.Client) bool { return true },
	}
	for _, line := range []string{"MaxRetries:  -1, DialerRetries: 1,", "HeartbeatFn: func(context.Context, *redis.Client) bool { return true }", `ring.Do(ctx, "RL.TAKE", "user:42", "GCRA", "100/m").Int64Slice()`} {
		if !strings.Contains(operations(t, "go"), line) {
			t.Errorf("docs/operations.md does not have %s", line)
		}
	}
	ring := redis.NewRing(opts)
	defer ring.Close()
	granted := 0
	for i := range 100 {
		for range 4 {
			d, err := ring.Do(ctx, "RL.TAKE", fmt.Sprint("user:", i), "GCRA", "2/d").Int64Slice()
			if err != nil {
				t.Fatal(err)
			}
			granted += 1 - int(d[0])
		}
	}
	if granted != 200 {
		t.Errorf("%d granted to 100 users with 2 each", granted)
	}
	size := map[string]int64{}
	_ = ring.ForEachShard(ctx, func(ctx context.Context, c *redis.Client) error {
		n, err := c.DBSize(ctx).Result()
		if c.Options().Addr == a.Addr {
			size["a"] = n
		}
		return err
	})
	if size["a"] == 0 || size["a"] == 100 {
		t.Errorf("one server has %d of 100 keys", size["a"])
	}
	b.Kill()
	failed := 0
	for i := range 100 {
		d, err := ring.Do(ctx, "RL.TAKE", fmt.Sprint("user:", i), "GCRA", "2/d").Int64Slice()
		switch {
		case err != nil:
			failed++
		case d[0] != 1:
			t.Errorf("user:%d moved to the other server", i)
		}
	}
	if failed != 100-int(size["a"]) {
		t.Errorf("%d calls failed, want %d", failed, 100-size["a"])
	}
}
