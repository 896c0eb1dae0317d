package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// asker asks for decisions one after the other, and notes what goes wrong and how long the slowest took.
type asker struct {
	name  string
	ask   func(context.Context) error
	asked int
	errs  []error
	ended int // connections that ended while a reply was due

	mu      sync.Mutex
	replies int
	slowest time.Duration // since it was taken last
}

// take returns the time of the slowest reply since the last call.
func (a *asker) take() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.slowest
	a.slowest, a.replies = 0, 0
	return d
}

// replied reports whether n replies have come since the last call of take.
func (a *asker) replied(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.replies >= n
}

func (a *asker) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		err := a.ask(context.Background())
		a.mu.Lock()
		a.slowest = max(a.slowest, time.Since(began))
		a.replies++
		a.mu.Unlock()
		a.asked++
		var network net.Error
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &network):
			a.ended++
		default:
			a.errs = append(a.errs, err)
		}
	}
}

// restartInPlace starts the node again on its ports, as a supervisor does.
func (n *raftNode) restartInPlace(t *testing.T) {
	t.Helper()
	addr := n.Addr
	o := options{bin: plainBinary(t), noPort: true, ready: func(*proc) bool { return answers(addr) }}
	if n.proc = launch(t, o, n.Dir, append(slices.Clone(n.args), "--port", n.Port())); n.proc == nil {
		t.Fatal("the port of a node is taken")
	}
	n.Addr = addr
	t.Cleanup(n.Stop)
}

// All nodes are restarted, one after the other, under the load of clients that know clusters. No command gets an error.
func TestRollingRestart(t *testing.T) {
	// A busy machine may hold up a process for longer than the default timeouts allow.
	nodes := startCluster(t, 3, "--raft-heartbeat-timeout", "3000", "--raft-election-timeout", "3000", "--raft-lease-timeout", "3000")
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, n.Addr)
	}
	eventually(t, "all nodes know one another", func() bool {
		return !slices.ContainsFunc(nodes, func(n *raftNode) bool { return len(n.ask(t, "CLUSTER", "SLOTS")) < 3*40 })
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var askers []*asker
	var all sync.WaitGroup
	for range 2 {
		c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses})
		defer c.Close()
		a := &asker{name: "go-redis' cluster client", ask: func(ctx context.Context) error { return c.Do(ctx, "RL.TAKE", "key", "GCRA", "1000000/s").Err() }}
		askers = append(askers, a)
		all.Go(func() { a.run(ctx) })
	}
	for range 2 {
		c := goredis.NewClient(&goredis.Options{Addr: addresses[2], MaxRetries: 2})
		defer c.Close()
		a := &asker{name: "go-redis' plain client", ask: func(ctx context.Context) error { return c.Do(ctx, "RL.TAKE", "key", "GCRA", "1000000/s").Err() }}
		askers = append(askers, a)
		all.Go(func() { a.run(ctx) })
	}
	rounds := 1
	if long() {
		rounds = 10
	}
	phase := func(name string, replies int) {
		eventually(t, "replies "+name, func() bool {
			return !slices.ContainsFunc(askers, func(a *asker) bool { return !a.replied(replies) })
		})
		var slowest []time.Duration
		for _, a := range askers {
			slowest = append(slowest, a.take().Round(time.Millisecond))
		}
		t.Logf("%-20s slowest replies: %v", name, slowest)
	}
	phase("at first", 1)
	phase("without a restart", 30)
	for range rounds {
		for _, n := range nodes {
			n.Stop()
			phase("while "+n.id+" stops", 1)
			n.restartInPlace(t)
			eventually(t, n.id+" serves", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
			phase("while "+n.id+" starts", 1)
		}
	}
	stop()
	all.Wait()
	for _, a := range askers {
		t.Logf("%s: %d asked, %d connections ended", a.name, a.asked, a.ended)
		if len(a.errs) > 0 {
			t.Errorf("%s: %d errors, the first: %v", a.name, len(a.errs), a.errs[0])
		}
		if a.asked == 0 {
			t.Errorf("%s asked for nothing", a.name)
		}
	}
}
