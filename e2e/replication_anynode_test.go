package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"limitdb/resp"
)

// counts are the replies to requests, by what they mean.
type counts struct{ granted, denied, unknown, down, other int }

func (c *counts) add(d counts) {
	c.granted += d.granted
	c.denied += d.denied
	c.unknown += d.unknown
	c.down += d.down
	c.other += d.other
}

// hammer sends a command again and again over one connection, pipelined, until stop is closed. It returns the
// replies, and counts the grants meanwhile; lost is the number of requests that got none.
func hammer(addr, command string, stop <-chan struct{}, granted *atomic.Int64) (all counts, lost int) {
	const pipeline = 8
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return all, 1
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for {
		select {
		case <-stop:
			return all, 0
		default:
		}
		if _, err := io.WriteString(conn, strings.Repeat(command, pipeline)); err != nil {
			return all, pipeline
		}
		for i := range pipeline {
			v, err := resp.ReadReply(r, 1<<20)
			switch {
			case err != nil:
				return all, pipeline - i
			case v.Err() == nil && v.Elems[0].Int == 0:
				all.granted++
				granted.Add(1)
			case v.Err() == nil:
				all.denied++
			case strings.HasPrefix(v.Text, "UNKNOWNOUTCOME"):
				all.unknown++
			case strings.HasPrefix(v.Text, "CLUSTERDOWN"):
				all.down++
			default:
				all.other++
			}
		}
	}
}

// failover is three nodes whose leader is killed. Each way to use them begins before that, and returns what it does afterwards.
type failover struct {
	nodes, others []*raftNode // others do not lead at first
	at, next      *raftNode   // the leaders before and after
}

// Clients of all kinds use three nodes while the leader is killed.
func TestClientsSeeTheLeaderKilled(t *testing.T) {
	t.Parallel()
	f := &failover{nodes: startCluster(t, 3, "--http-decisions", "yes")}
	f.at = leader(t, f.nodes)
	f.others = slices.DeleteFunc(slices.Clone(f.nodes), func(n *raftNode) bool { return n == f.at })
	knowOneAnother(t, f.nodes)
	var after []func()
	for _, use := range []func(*testing.T, *failover) func(){scansOverAFailover, redisTools, leasesAndQueues, clusterClients, callers} {
		after = append(after, use(t, f))
	}
	f.at.Kill()
	f.at.proc = nil
	f.next = leader(t, f.nodes)
	for _, do := range slices.Backward(after) {
		do()
	}
}

// callers take from one key through all nodes, over RESP and HTTP. At the nodes that do not lead, connections last, and each request
// gets one reply. The nodes count exactly the grants, except for those with unknown outcomes.
func callers(t *testing.T, f *failover) (after func()) {
	const burst = 1_000_000
	limit := []string{"GCRA", "1/h", "BURST", fmt.Sprint(burst)}
	command := strings.Join(append([]string{"RL.TAKE", "key"}, limit...), " ") + "\r\n"
	stop := make(chan struct{})
	var mu sync.Mutex
	var sum counts
	var all sync.WaitGroup
	add := func(c counts) {
		mu.Lock()
		defer mu.Unlock()
		sum.add(c)
	}
	var atLeader, atOthers, overHTTP atomic.Int64 // grants
	for range 8 {
		all.Go(func() {
			c, lost := hammer(f.at.Addr, command, stop, &atLeader)
			c.unknown += lost
			add(c)
		})
	}
	for _, n := range f.others {
		rulesOverHTTP(t, n)
		for range 4 {
			all.Go(func() {
				c, lost := hammer(n.Addr, command, stop, &atOthers)
				add(c)
				if lost > 0 {
					t.Errorf("%s: %d requests got no reply", n.id, lost)
				}
			})
		}
		for range 3 {
			all.Go(func() {
				add(takesOverHTTP(t, "http://"+n.HTTPAddr+"/v1/take", `{"key": "key", "limit": "`+strings.Join(limit, " ")+`"}`, stop, &overHTTP))
			})
		}
	}
	progress := func(kinds ...*atomic.Int64) {
		for _, granted := range kinds {
			from := granted.Load()
			eventually(t, "requests of each kind are granted", func() bool { return granted.Load() >= from+100 })
		}
	}
	progress(&atLeader, &atOthers, &overHTTP)
	return func() {
		progress(&atOthers, &overHTTP)
		close(stop)
		all.Wait()
		used := usedOf(t, f.next, limit, burst)
		t.Logf("%+v, %d used", sum, used)
		if used < sum.granted || used > sum.granted+sum.unknown || sum.denied+sum.other > 0 {
			t.Errorf("%d are used; %+v", used, sum)
		}
	}
}

// Leases, and the places of QUEUE, outlive the leader: a holder renews and releases its lease, no place is given twice, and clients
// that waited ask again.
func leasesAndQueues(t *testing.T, f *failover) (after func()) {
	via := f.others[0]
	expect := func(want string, words ...string) {
		t.Helper()
		if got := via.ask(t, words...); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s, want %s", words, got, want)
		}
	}
	queue := []string{"RL.RESERVE", "queue", "QUEUE", "1/m", "BURST", "10"}
	expect("[0 2 1 ", "RL.LEASE", "lease", "2", "10m", "ID", "a")
	expect("[0 2 0 ", "RL.LEASE", "lease", "2", "10m", "ID", "b")
	var places []int
	place := func() {
		t.Helper()
		got := via.ask(t, queue...)
		var n [6]int
		_, _ = fmt.Sscanf(got, "[%d %d %d %d %d %d", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5])
		if n[0] != 0 {
			t.Errorf("RL.RESERVE: %s", got)
		}
		places = append(places, n[2])
	}
	place()
	place()

	// Somebody waits for a lease at the leader, through another node.
	waiter, err := net.Dial("tcp", via.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = waiter.Close() })
	_, _ = io.WriteString(waiter, "RL.LEASE lease 2 10m ID c WAIT 10m\r\n")
	eventually(t, "it waits", func() bool { return strings.Contains(f.at.ask(t, "CLIENT", "LIST"), "cmd=rl.lease ") })
	return func() {
		v, err := resp.ReadReply(bufio.NewReader(waiter), 1<<20)
		if err != nil || v.Err() == nil || !strings.HasPrefix(v.Text, "UNKNOWNOUTCOME") {
			t.Errorf("who waited: %v, %v", v, err)
		}
		expect("[1 2 0 ", "RL.LEASE", "lease", "2", "10m", "ID", "c")
		expect("1", "RL.RENEW", "lease", "ID", "a", "10m")
		expect("1", "RL.RELEASE", "lease", "ID", "b")
		expect("[0 2 0 ", "RL.LEASE", "lease", "2", "10m", "ID", "c", "WAIT", "1m")
		place()
		for i := range places[1:] {
			if places[i+1] >= places[i] {
				t.Errorf("%v are left after each place of the queue", places)
			}
		}
	}
}

// The nodes have certificates and a password: a client that comes over TLS, with the password, is served through a node that does not lead.
func TestAnyNodeOverTLS(t *testing.T) {
	t.Parallel()
	certs := t.TempDir()
	nodeCerts(t, certs, "n1", "n2")
	first := member(t, certs, "n1", "--raft-bootstrap", "yes")
	first.begin(t, t.TempDir())
	cert, key := certificate(t, t.TempDir(), "clients")
	port := freePort(t)
	second := member(t, certs, "n2", "--raft-join", first.Addr, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	second.begin(t, t.TempDir())
	second.has(t, "leader", first.Addr)
	ctx := context.Background()
	c := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:" + port, Password: clusterPassword, TLSConfig: trust(t, cert), ClientName: "far", MaxRetries: -1, ReadTimeout: deadline})
	defer func() { _ = c.Close() }()
	eventually(t, "a decision", func() bool {
		v, err := c.Do(ctx, "RL.TAKE", "a", "GCRA", "1/d", "BURST", "1000").Result()
		return err == nil && strings.HasPrefix(fmt.Sprint(v), "[0 1000 ")
	})
	admin := goredis.NewClient(&goredis.Options{Addr: first.Addr, Password: clusterPassword})
	defer func() { _ = admin.Close() }()
	list, err := admin.Do(ctx, "CLIENT", "LIST").Result()
	if err != nil || !strings.Contains(fmt.Sprint(list), " laddr=127.0.0.1:"+port+" fd=-1 name=far ") {
		t.Errorf("CLIENT LIST: %v, %v", list, err)
	}
	if got := second.ask(t, "RL.TAKE", "a", "GCRA", "1/d"); !strings.HasPrefix(got, "NOAUTH") {
		t.Errorf("without the password: %s", got)
	}
}
