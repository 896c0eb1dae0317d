package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// asker asks for decisions one after the other, and notes what goes wrong and how long each took.
type asker struct {
	name string
	ask  func(context.Context) error
	// ended counts connections that have ended, and attempts to connect that failed.
	ended atomic.Int64

	mu    sync.Mutex // guards what follows
	waits []wait
	errs  []error
}

// wait is the time that one decision took.
type wait struct {
	phase int // in which it began
	took  time.Duration
	// apart: a connection of the client ended meanwhile, or could not be made. The client library then decides how long it waits.
	apart bool
}

// dial connects for a client library.
func (a *asker) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		a.ended.Add(1)
		return nil, err
	}
	return &askerConn{c.(*net.TCPConn), a}, nil
}

// askerConn is a connection whose end counts. It embeds a *net.TCPConn since go-redis looks for one to find out whether it has ended.
type askerConn struct {
	*net.TCPConn
	a *asker
}

// Close closes the connection.
func (c *askerConn) Close() error {
	c.a.ended.Add(1)
	return c.TCPConn.Close()
}

func (a *asker) run(ctx context.Context, phase *atomic.Int64) {
	for ctx.Err() == nil {
		w, ended, began := wait{phase: int(phase.Load())}, a.ended.Load(), time.Now()
		err := a.ask(context.Background())
		w.took = time.Since(began)
		var network net.Error
		cut := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &network)
		w.apart = cut || a.ended.Load() != ended
		a.mu.Lock()
		a.waits = append(a.waits, w)
		if err != nil && !cut {
			a.errs = append(a.errs, fmt.Errorf("%s: %w", a.name, err))
		}
		a.mu.Unlock()
	}
}

// slowest returns the longest wait that began in a phase, of those that are apart or of the others, and how many there were.
func (a *asker) slowest(phase int, apart bool) (d time.Duration, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waits {
		if w.phase == phase && w.apart == apart {
			d, n = max(d, w.took), n+1
		}
	}
	return d.Round(time.Millisecond), n
}

// askers returns two clients that know clusters, and two that know one node only, where their commands are forwarded.
func askers(t *testing.T, addresses []string) []*asker {
	var all []*asker
	add := func(name string, connect func(a *asker) goredis.UniversalClient) {
		a := &asker{name: name}
		c := connect(a)
		t.Cleanup(func() { _ = c.Close() })
		a.ask = func(ctx context.Context) error { return c.Do(ctx, "RL.TAKE", "key", "GCRA", "1000000/s").Err() }
		all = append(all, a)
	}
	for range 2 {
		add("go-redis' cluster client", func(a *asker) goredis.UniversalClient {
			// The client appends to its addresses, so each gets its own.
			return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: slices.Clone(addresses), Dialer: a.dial})
		})
	}
	for range 2 {
		add("go-redis' plain client", func(a *asker) goredis.UniversalClient {
			return goredis.NewClient(&goredis.Options{Addr: addresses[2], MaxRetries: 2, Dialer: a.dial})
		})
	}
	return all
}

// restartInPlace starts the node again on its ports, as a supervisor does.
func (n *raftNode) restartInPlace(t *testing.T) {
	t.Helper()
	addr := n.Addr
	o := options{bin: n.bin, noPort: true, ready: func(*proc) bool { return answers(addr) }}
	if n.proc = launch(t, o, n.Dir, append(slices.Clone(n.args), "--port", n.Port())); n.proc == nil {
		t.Fatal("the port of a node is taken")
	}
	n.Addr = addr
	t.Cleanup(n.end)
}

// All nodes are restarted, one after the other, under the load of clients. No command gets an error, also while the nodes are of two versions
// whose formats of entries differ. The times are for bench/RESULTS.md: a test has no bound for them.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	versions := []string{plainBinary(t), nextBinary(t)}
	clusters, rounds := 1, versions[1:]
	if long() {
		clusters, rounds = 7, []string{versions[0], versions[1], versions[1]}
	}
	var lived, apart []time.Duration // the longest of each phase
	for range clusters {
		rollingRestart(t, versions[0], rounds, func(phase int, all []*asker) {
			var longest [2]time.Duration
			for _, a := range all {
				for i := range longest {
					d, _ := a.slowest(phase, i == 1)
					longest[i] = max(longest[i], d)
				}
			}
			lived = append(lived, longest[0])
			if longest[1] > 0 {
				apart = append(apart, longest[1])
			}
		})
	}
	t.Logf("%d restarts; the longest wait of each phase: %s; of clients whose connection ended: %s", clusters*len(rounds)*3, spread(lived), spread(apart))
}

// spread describes the median and the longest of several times.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	return fmt.Sprintf("median %v, longest %v", all[len(all)/2], all[len(all)-1])
}

// rollingRestart starts a cluster of one version and restarts all its nodes for each round, as that round's version. It calls done after each phase.
func rollingRestart(t *testing.T, first string, rounds []string, done func(phase int, all []*asker)) {
	nodes := startCluster(t, 3)
	var addresses []string
	for _, n := range nodes {
		n.bin = first
		addresses = append(addresses, n.Addr)
	}
	knowOneAnother(t, nodes)
	all := askers(t, addresses)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var phase atomic.Int64
	var running sync.WaitGroup
	for _, a := range all {
		running.Go(func() { a.run(ctx, &phase) })
	}
	during := func(name string, replies int, act func()) {
		act()
		at := int(phase.Load())
		eventually(t, "replies "+name, func() bool {
			return !slices.ContainsFunc(all, func(a *asker) bool {
				_, lived := a.slowest(at, false)
				_, apart := a.slowest(at, true)
				return lived+apart < replies
			})
		})
		phase.Add(1)
		var lived, apart []time.Duration
		for _, a := range all {
			d, _ := a.slowest(at, false)
			lived = append(lived, d)
			if d, n := a.slowest(at, true); n > 0 {
				apart = append(apart, d)
			}
		}
		t.Logf("%-20s slowest replies: %v, of clients whose connection ended: %v", name, lived, apart)
		done(at, all)
	}
	during("without a restart", 30, func() {})
	for _, version := range rounds {
		for _, n := range nodes {
			during("while "+n.id+" stops", 1, n.Stop)
			during("while "+n.id+" starts", 1, func() {
				n.bin = version
				n.restartInPlace(t)
				eventually(t, n.id+" serves", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
			})
		}
	}
	stop()
	running.Wait()
	for _, a := range all {
		for _, err := range a.errs {
			t.Error(err)
		}
	}
	for _, n := range nodes {
		n.Stop()
	}
}
