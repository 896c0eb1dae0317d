package e2e

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// startRedis starts Debian's redis-server with a password, and returns its address.
func startRedis(t *testing.T, password string) (addr string, c *goredis.Client) {
	t.Helper()
	port := freePort(t)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir(), "--requirepass", password)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr = net.JoinHostPort("127.0.0.1", port)
	c = goredis.NewClient(&goredis.Options{Addr: addr, Password: password, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	eventually(t, "redis-server answers", func() bool { return c.Ping(context.Background()).Err() == nil })
	return addr, c
}

// limitdb import copies the keys of a Redis server, also a second time, and reports what it does not copy.
func TestImportFromRedis(t *testing.T) {
	ctx := context.Background()
	from, source := startRedis(t, "old secret")
	s := start(t, "--appendonly", "no")
	target := goredis.NewClient(&goredis.Options{Addr: s.Addr, Protocol: 2})
	defer target.Close()
	p := source.Pipeline()
	now := time.Now()
	for i := range 300 {
		p.Set(ctx, fmt.Sprint("count:", i), i, time.Hour)
		tat := now.Add(30*time.Minute + time.Duration(i)*time.Second)
		p.Set(ctx, fmt.Sprint("cell:", i), tat.UnixNano(), 0)
		p.PExpireAt(ctx, fmt.Sprint("cell:", i), tat)
	}
	p.Set(ctx, "text", "a\r\n\x00é", 0)
	p.Set(ctx, "long", strings.Repeat("x", 70_000), 0)
	p.Set(ctx, "big number", now.UnixNano(), 0) // a counter, for it does not expire
	for i := range 900 {
		p.ZAdd(ctx, "log", goredis.Z{Score: float64(i) / 3, Member: fmt.Sprint("m", i)})
		p.RPush(ctx, "list", i)
		p.HSet(ctx, "hash", fmt.Sprint("f", i), i)
		p.SAdd(ctx, "set", i)
	}
	for i := range 60 { // together more than a transaction may have, and less than a set
		members := make([]any, 900)
		for k := range members {
			members[k] = fmt.Sprint("member ", i, " ", k)
		}
		p.SAdd(ctx, "wide", members...)
		p.RPush(ctx, "too large", strings.Repeat("x", 20_000))
	}
	p.Expire(ctx, "log", time.Hour)
	p.PFAdd(ctx, "visitors", "a", "b", "c")
	for i := range 3000 {
		p.PFAdd(ctx, "many visitors", i)
	}
	p.Set(ctx, "no log", "HYLL is how a HyperLogLog begins", 0)
	p.SetBit(ctx, "bits", 9, 1)
	p.XAdd(ctx, &goredis.XAddArgs{Stream: "stream", Values: []string{"a", "1"}})
	if _, err := p.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	target.Set(ctx, "count:7", "mine", 0)

	env := []string{"LIMITDB_FROM_PASSWORD=old secret"}
	copyAll := func(args ...string) string {
		t.Helper()
		got := runEnv(t, env, "", plainBinary(t), append([]string{"import", "--from", "redis://" + from + "/0", "--to", "redis://" + s.Addr}, args...)...)
		if got.Code != 0 {
			t.Fatalf("%+v", got)
		}
		return strings.Join(strings.Fields(got.Stdout), " ")
	}
	for i, want := range []string{
		"hash 1 0 0 hyperloglog 0 0 2 list 1 0 1 set 2 0 0 stream 0 0 1 string 303 1 1 throttle 300 0 0 zset 1 0 0 " +
			"refused of type hyperloglog: limitdb has no PFCOUNT refused of type list: ERR a sorted set, hash, list or set may have at most 1 MB, a list of numbers 1024000 elements refused of type stream: import does not copy this type " +
			"refused of type string: it has a text of more than 64 kB 609 keys of the source are there",
		"hash 0 1 0 hyperloglog 0 0 2 list 0 1 1 set 0 2 0 stream 0 0 1 string 0 304 1 throttle 0 300 0 zset 0 1 0",
	} {
		if got := copyAll(); !strings.Contains(got, want) {
			t.Errorf("copy %d: %s", i, got)
		}
	}
	if got := target.Get(ctx, "count:7").Val(); got != "mine" {
		t.Errorf("a key of the target is %q", got)
	}
	if got := target.Get(ctx, "text").Val(); got != "a\r\n\x00é" {
		t.Errorf("%q", got)
	}
	if got := target.Get(ctx, "bits").Val(); got != "\x00\x40" {
		t.Errorf("%q", got)
	}
	if n := target.DBSize(ctx).Val(); n != 609 {
		t.Errorf("the target has %d keys", n)
	}
	for _, key := range []string{"log", "list", "hash", "set", "wide"} {
		if a, b := dump(ctx, source, key), dump(ctx, target, key); a != b || len(a) < 900 {
			t.Errorf("%s: %.100s, want %.100s", key, b, a)
		}
	}
	if left := target.TTL(ctx, "log").Val(); left < 50*time.Minute || left > time.Hour {
		t.Errorf("log expires in %v", left)
	}
	// redis-cell would say the same at that moment: 30 minutes and 0 to 119 seconds at one token in 2 minutes are 16 in use.
	got, err := target.Do(ctx, "CL.THROTTLE", "cell:119", 19, 1, 120, 0).Int64Slice()
	if err != nil || got[0] != 0 || got[1] != 20 || got[2] != 4 || got[4] < 1800 || got[4] > 1919+1 {
		t.Errorf("CL.THROTTLE: %v, %v", got, err)
	}
	if n := target.Get(ctx, "big number").Val(); n != strconv.FormatInt(now.UnixNano(), 10) {
		t.Errorf("a large number is %q", n)
	}
	if got := copyAll("--replace", "--match", "count:*"); !strings.Contains(got, "string 300 0 0") || target.Get(ctx, "count:7").Val() != "7" {
		t.Errorf("--replace: %s", got)
	}
	for _, c := range []struct{ env, from, want string }{
		{"", "redis://" + from, "set it in the environment, as LIMITDB_FROM_PASSWORD"},
		{"LIMITDB_FROM_PASSWORD=wrong", "redis://" + from, "WRONGPASS"},
		{"", "redis://:secret@" + from, "no password on the command line"},
		{"", "http://" + from, "is not an address"},
	} {
		got := runEnv(t, []string{c.env}, "", plainBinary(t), "import", "--from", c.from, "--to", "redis://"+s.Addr)
		if got.Code == 0 || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "secret@") {
			t.Errorf("%s: %+v", c.from, got)
		}
	}
}

// dump returns the elements of a collection.
func dump(ctx context.Context, c *goredis.Client, key string) string {
	switch key {
	case "log":
		return fmt.Sprint(c.ZRangeWithScores(ctx, key, 0, -1).Val())
	case "list":
		return fmt.Sprint(c.LRange(ctx, key, 0, -1).Val())
	case "hash":
		return fmt.Sprint(c.HGetAll(ctx, key).Val())
	}
	members := c.SMembersMap(ctx, key).Val()
	return fmt.Sprint(members)
}
