package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// rollout is a cluster whose nodes are replaced one after the other, and clients that ask it for decisions all the time.
type rollout struct {
	nodes []*raftNode
	// quota is what each key has, for far longer than a test; each is asked for perKey times.
	quota, perKey int
	asked         atomic.Int64
	requests      atomic.Int64
	again         atomic.Int64 // requests that were sent again

	mu      sync.Mutex // guards what follows
	granted map[string]int
	unsure  map[string]bool // keys of requests that were sent again, or whose connection ended
	ready   []string        // the nodes to which a Service leads new connections
	slowest time.Duration
}

// dialReady connects to the next of the nodes that are ready, as a Service of Kubernetes does.
func (r *rollout) dialReady(ctx context.Context, a *asker) (net.Conn, error) {
	r.mu.Lock()
	if len(r.ready) == 0 {
		r.mu.Unlock()
		return nil, syscall.ECONNREFUSED
	}
	to := r.ready[0]
	r.ready = append(r.ready[1:], to)
	r.mu.Unlock()
	return a.dial(ctx, "tcp", to)
}

// serves adds a node to those that a Service leads to, or takes it away.
func (r *rollout) serves(addr string, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = slices.DeleteFunc(r.ready, func(a string) bool { return a == addr })
	if ready {
		r.ready = append(r.ready, addr)
	}
}

// again reports whether a client may send a request again after an error: docs/replication.md says after which.
func again(err error) bool {
	var network net.Error
	text := err.Error()
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.As(err, &network) || strings.HasPrefix(text, "CLUSTERDOWN ") || strings.HasPrefix(text, "UNKNOWNOUTCOME ")
}

// run makes requests until the context ends, and each until it has an answer.
func (r *rollout) run(ctx context.Context, t *testing.T, a *asker, c goredis.UniversalClient) {
	for ; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		key := fmt.Sprint("key", int(r.asked.Add(1))/r.perKey)
		ended, began, repeats := a.ended.Load(), time.Now(), 0
		for {
			reply, err := c.Do(context.Background(), "RL.TAKE", key, "GCRA", fmt.Sprintf("%d/d", r.quota)).Int64Slice()
			if err == nil {
				r.answered(key, len(reply) == 5 && reply[0] == 0, repeats > 0 || a.ended.Load() != ended, time.Since(began))
				break
			}
			if !again(err) || time.Since(began) > deadline {
				t.Errorf("%s: no answer after %d times: %v", a.name, repeats+1, err)
				return
			}
			repeats++
			r.again.Add(1)
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (r *rollout) answered(key string, granted, unsure bool, took time.Duration) {
	r.requests.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slowest = max(r.slowest, took)
	if granted {
		r.granted[key]++
	}
	if unsure {
		r.unsure[key] = true
	}
}

// check checks the counts of all keys but the last, which not all requests have been made for.
func (r *rollout) check(t *testing.T) {
	last := fmt.Sprint("key", int(r.asked.Load())/r.perKey)
	whole := 0
	for key, n := range r.granted {
		switch {
		case n > r.quota:
			t.Errorf("%s: %d are granted, of %d", key, n, r.quota)
		case n < r.quota && !r.unsure[key] && key != last && key != "key0":
			t.Errorf("%s: only %d are granted, of %d, and no request was sent again", key, n, r.quota)
		}
		if n == r.quota {
			whole++
		}
	}
	t.Logf("%d requests, %d sent again; %d keys, %d of them granted as a whole; the slowest answer took %v", r.requests.Load(), r.again.Load(), len(r.granted), whole, r.slowest.Round(time.Millisecond))
	if whole < 10 {
		t.Error("these are too few")
	}
}

// isReady waits until the node says that it is ready, as the health check of the compose file asks.
func (r *rollout) isReady(t *testing.T, n *raftNode) {
	t.Helper()
	_, port, _ := net.SplitHostPort(n.HTTPAddr)
	eventually(t, n.id+" is ready", func() bool { return run(t, "", plainBinary(t), "ping", "--ready", "--http-port", port).Code == 0 })
}

// end sends the node a SIGTERM, and checks that it hands the leadership over if it leads, and ends within a grace period.
func (r *rollout) end(t *testing.T, n *raftNode, grace time.Duration) {
	t.Helper()
	led, began := n.askOnce(t, "RAFT", "LEADER") == n.Addr, time.Now()
	n.Stop()
	if took := time.Since(began); took > grace {
		t.Errorf("%s takes %v to stop, of %v", n.id, took, grace)
	}
	if log := n.Log(); led != strings.Contains(log, `level=notice msg="this node no longer leads" cause="the leadership is transferred"`) || strings.Contains(log, "the node stops while it leads") {
		t.Errorf("%s led: %v; it stops with\n%s", n.id, led, tail(log, 2<<10))
	}
}

// startRollout starts a cluster and four clients of it, and returns what ends the clients.
func startRollout(t *testing.T, connect func(r *rollout, a *asker, addresses []string) goredis.UniversalClient) (*rollout, func()) {
	r := &rollout{nodes: startCluster(t, 3), quota: 60, perKey: 100, granted: map[string]int{}, unsure: map[string]bool{}}
	for _, n := range r.nodes {
		n.bin = plainBinary(t)
		r.ready = append(r.ready, n.Addr)
	}
	knowOneAnother(t, r.nodes)
	addresses := slices.Clone(r.ready)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range 4 {
		a := &asker{name: fmt.Sprint("client ", i)}
		c := connect(r, a, slices.Clone(addresses))
		t.Cleanup(func() { _ = c.Close() })
		running.Go(func() { r.run(ctx, t, a, c) })
	}
	end := func() {
		stop()
		running.Wait()
	}
	t.Cleanup(end)
	return r, end
}

// meanwhile waits until clients have had many more answers.
func (r *rollout) meanwhile(t *testing.T) {
	t.Helper()
	from := r.requests.Load()
	eventually(t, "answers", func() bool { return r.requests.Load() > from+300 })
}

// The nodes of the compose file are replaced by the commands at its head: each gets a SIGTERM and is started again, and the next one's turn comes
// when "limitdb ping --ready" says so. Clients know the addresses of all nodes. Each request gets an answer, and no key more than its quota.
func TestComposeRolloutLosesNoRequest(t *testing.T) {
	t.Parallel()
	service := readYAML[composeFile](t, "../deploy/docker-compose.yml")[0].Services["n1"]
	grace, err := time.ParseDuration(service.Grace)
	if err != nil {
		t.Fatal(err)
	}
	r, end := startRollout(t, func(_ *rollout, a *asker, addresses []string) goredis.UniversalClient {
		return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses, ClusterStateReloadInterval: time.Second, Dialer: a.dial})
	})
	for _, n := range r.nodes {
		r.meanwhile(t)
		r.end(t, n, grace)
		n.restartInPlace(t)
		r.isReady(t, n)
	}
	r.meanwhile(t)
	end()
	r.check(t)
}

// The pods of the StatefulSet are replaced as "kubectl rollout restart" does it, from the last to the first: the Service leads to the pod no more, the
// preStop sleep passes, the pod gets a SIGTERM, and ends within the rest of the grace period. The Service leads to it again when its readiness
// probe is answered, and the next one's turn comes minReadySeconds later. Clients know only the Service. Each request gets an answer, and no key more
// than its quota.
func TestKubernetesRolloutLosesNoRequest(t *testing.T) {
	t.Parallel()
	var set object
	for _, o := range readYAML[object](t, "../deploy/kubernetes/limitdb.yaml") {
		if o.Kind == "StatefulSet" {
			set = o
		}
	}
	pod := set.Spec.Template.Spec
	sleep := time.Duration(pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
	grace := time.Duration(pod.Grace) * time.Second
	if sleep == 0 || grace <= sleep || set.Spec.MinReady == 0 {
		t.Fatalf("%+v", set.Spec)
	}
	r, end := startRollout(t, func(r *rollout, a *asker, _ []string) goredis.UniversalClient {
		return goredis.NewClient(&goredis.Options{Addr: "limitdb:6379", MaxRetries: -1, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dialReady(ctx, a) }})
	})
	for _, n := range slices.Backward(r.nodes) {
		r.meanwhile(t)
		r.serves(n.Addr, false)
		time.Sleep(sleep) // as the kubelet does
		r.end(t, n, grace-sleep)
		n.restartInPlace(t)
		eventually(t, n.id+" is ready", func() bool { return get("http://"+n.HTTPAddr+pod.Containers[0].ReadinessProbe.HTTPGet.Path) != "" })
		r.serves(n.Addr, true)
		time.Sleep(time.Duration(set.Spec.MinReady) * time.Second)
	}
	r.meanwhile(t)
	end()
	r.check(t)
}
