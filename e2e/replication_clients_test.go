package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// clusterClient takes from a key of its own until stop is closed. It counts the replies in answered, and
// notes the errors.
type clusterClient struct {
	name     string
	answered atomic.Int64
	mu       sync.Mutex
	errors   map[string]int
}

func (c *clusterClient) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == nil {
		c.errors = map[string]int{}
	}
	c.errors[err.Error()]++
}

// loop runs take again and again.
func (c *clusterClient) loop(stop <-chan struct{}, take func() error) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if err := take(); err != nil {
			c.note(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		c.answered.Add(1)
	}
}

// clusterClients know clusters: clients of several libraries find the next leader by themselves.
func clusterClients(t *testing.T, f *failover) (after func()) {
	var addrs []string
	for _, n := range f.nodes {
		addrs = append(addrs, n.Addr)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	var clients []*clusterClient
	add := func(name string, run func(c *clusterClient)) {
		c := &clusterClient{name: name}
		clients = append(clients, c)
		all.Go(func() { run(c) })
	}
	ctx := context.Background()

	// When a node is gone, it asks the others for the nodes only after this interval, 60 s by default.
	gr := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs, ClusterStateReloadInterval: time.Second})
	t.Cleanup(func() { _ = gr.Close() })
	add("go-redis", func(c *clusterClient) {
		c.loop(stop, func() error { return gr.Do(ctx, "RL.TAKE", c.name, "GCRA", "1/h", "BURST", 1000000).Err() })
	})
	ru, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ru.Close)
	add("rueidis", func(c *clusterClient) {
		c.loop(stop, func() error {
			return ru.Do(ctx, ru.B().Arbitrary("RL.TAKE").Keys(c.name).Args("GCRA", "1/h", "BURST", "1000000").Build()).Error()
		})
	})
	for _, library := range []string{"ioredis5", "ioredis6"} {
		line := node("cluster.js", library)(t)
		add(library, func(c *clusterClient) { c.program(t, stop, append(append(line, c.name), addrs...)) })
	}

	// progress waits until each client was answered so many times more.
	progress := func(when string) {
		t.Helper()
		began := time.Now()
		for _, c := range clients {
			from := c.answered.Load()
			eventually(t, c.name+" is answered "+when, func() bool { return c.answered.Load() >= from+30 })
			t.Logf("%s: answered %s, after %v", c.name, when, time.Since(began).Round(time.Millisecond))
		}
	}
	progress("at first")
	return func() {
		progress("by the next leader")
		close(stop)
		all.Wait()
		for _, c := range clients {
			limit := []string{"GCRA", "1/h", "BURST", "1000000"}
			var allowed, most, remaining int64
			if _, err := fmt.Sscanf(f.next.ask(t, append([]string{"RL.PEEK", c.name}, limit...)...), "[%d %d %d", &allowed, &most, &remaining); err != nil {
				t.Fatal(err)
			}
			if used := most - remaining; used < c.answered.Load() {
				t.Errorf("%s: %d are used, and %d were granted", c.name, used, c.answered.Load())
			}
			t.Logf("%s: %d answered, errors %v", c.name, c.answered.Load(), c.errors)
		}
	}
}

// program runs a program that prints the replies it gets, until stop is closed.
func (c *clusterClient) program(t *testing.T, stop <-chan struct{}, line []string) {
	out := &logBuffer{}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = cleanEnviron(), out, out
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		t.Errorf("%s does not start: %v", c.name, err)
		return
	}
	answered := regexp.MustCompile(`answered (\d+)`)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-stop:
			running = false
		case <-tick.C:
		}
		if all := answered.FindAllStringSubmatch(out.String(), -1); len(all) > 0 {
			n, _ := strconv.ParseInt(all[len(all)-1][1], 10, 64)
			c.answered.Store(n)
		}
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", c.name, err, tail(out.String(), 2000))
	}
	for _, l := range strings.Split(out.String(), "\n") {
		if e, ok := strings.CutPrefix(l, "error "); ok {
			c.note(fmt.Errorf("%s", e))
		}
	}
}

// redisTools are redis-cli -c and redis-benchmark. They work through any node, before and after the leader is killed. redis-cli
// continues after the failover.
func redisTools(t *testing.T, f *failover) (after func()) {
	cli, bench := need(t, "redis-cli"), need(t, "redis-benchmark")
	moves := f.others[0] // tells clients where the leader is, at times
	redirect := func(how string) {
		t.Helper()
		if got := moves.ask(t, "CONFIG", "SET", "raft-redirect", how); got != "OK" {
			t.Fatal(got)
		}
	}
	port := func(n *raftNode) string { return strings.TrimPrefix(n.Addr, "127.0.0.1:") }
	once := func(n, leads *raftNode, key string) {
		t.Helper()
		r := run(t, "", cli, "-c", "-p", port(n), "RL.TAKE", key, "GCRA", "1/h")
		if r.Code != 0 || !strings.HasPrefix(r.Stdout, "0\n1\n0\n") {
			t.Errorf("redis-cli -c at %s: %d, %q, %q", n.id, r.Code, r.Stdout, r.Stderr)
		}
		args := []string{"-p", port(n), "-n", "2000", "-c", "5", "-P", "8", "-q", "RL.TAKE", "user:__rand_int__", "GCRA", "30/m"}
		b := run(t, "", bench, args...)
		if works := b.Code == 0 && strings.Contains(b.Stdout, "requests per second"); works == (n == moves && n != leads) {
			t.Errorf("redis-benchmark at %s: %d, %q, %q", n.id, b.Code, tail(b.Stdout, 500), tail(b.Stderr, 500))
		}
		// It wants two nodes with slots, of Redis too.
		if b = run(t, "", bench, append([]string{"--cluster"}, args...)...); b.Code != 1 || !strings.Contains(b.Stderr, "Invalid cluster: 1 node(s).") {
			t.Errorf("redis-benchmark --cluster at %s: %d, %q, %q", n.id, b.Code, tail(b.Stdout, 500), tail(b.Stderr, 500))
		}
	}
	redirect("moved")
	once(moves, f.at, "moved")
	once(f.others[1], f.at, "forwarded") // is served where it is
	once(f.at, f.at, "leads")
	redirect("forward")
	out := follow(t, cli, "-c", "-p", port(f.others[1]), "-r", "-1", "-i", "0.02", "RL.TAKE", "followed", "GCRA", "1/h", "BURST", "1000000")
	granted := func() int { return strings.Count(out.String(), "\n1000000\n") }
	eventually(t, "redis-cli is answered", func() bool { return granted() > 10 })
	return func() {
		before := granted()
		eventually(t, "redis-cli is answered by the next leader", func() bool { return granted() > before+20 })
		knowOneAnother(t, f.others)
		redirect("moved")
		once(moves, f.next, "moved2")
		once(f.others[1], f.next, "forwarded2")
		redirect("forward")
	}
}

// TestRedisPyCluster has redis-py's client of clusters call commands that have no key.
func TestRedisPyCluster(t *testing.T) {
	t.Parallel()
	line := script("/usr/bin/python3", "import redis", "-c", "python/cluster.py")(t)
	n := startCluster(t, 1)[0]
	host, port, _ := strings.Cut(n.Addr, ":")
	if r := run(t, "", line[0], append(line[1:], host, port)...); r.Code != 0 || r.Stdout != "done\n" {
		t.Errorf("%s%s", r.Stdout, tail(r.Stderr, 2000))
	}
}
