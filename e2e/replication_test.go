package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// raftNode is a node of a cluster, through all its runs.
type raftNode struct {
	*proc
	id, raft string
	args     []string
	bin      string // "" for the plain binary
	env      []string
	password string // of its clients, for tableOf
}

// timeouts are the directives for elections after so many milliseconds without a leader.
func timeouts(ms string) []string {
	return []string{"--raft-heartbeat-timeout", ms, "--raft-election-timeout", ms, "--raft-lease-timeout", ms}
}

// patience is for timeouts: a busy machine holds up a process for longer than the default allows.
const patience = "1000"

// startCluster starts size nodes, all with args. The first begins a cluster, and the others join it.
func startCluster(t *testing.T, size int, args ...string) []*raftNode {
	t.Helper()
	return startClusterOf(t, size, patience, args...)
}

// startClusterOf is startCluster with timeouts of so many milliseconds.
func startClusterOf(t *testing.T, size int, ms string, args ...string) []*raftNode {
	t.Helper()
	var nodes []*raftNode
	for i := range size {
		n := &raftNode{id: fmt.Sprint("n", i+1), raft: "127.0.0.1:" + freePort(t)}
		n.args = slices.Concat([]string{"--raft-addr", n.raft, "--raft-id", n.id}, timeouts(ms), args)
		if i == 0 {
			n.args = append(n.args, "--raft-bootstrap", "yes")
		}
		n.begin(t, t.TempDir())
		nodes = append(nodes, n)
	}
	first := nodes[0]
	eventually(t, "the first node leads", func() bool { return first.ask(t, "RAFT", "LEADER") == first.Addr })
	for _, n := range nodes[1:] {
		eventually(t, n.id+" is added", func() bool { return first.ask(t, "RAFT", "SERVER", "ADD", n.id, n.raft) == "OK" })
	}
	for _, n := range nodes {
		eventually(t, n.id+" is ready", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
	}
	return nodes
}

// ask runs a command on the node, and returns the text of the reply or error. If the error says that nothing was done and to ask again,
// it does so.
func (n *raftNode) ask(t *testing.T, words ...string) (got string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s can run %q", n.id, words), func() bool {
		got = n.askOnce(t, words...)
		return !strings.HasPrefix(got, "CLUSTERDOWN") && !strings.HasPrefix(got, "TRYAGAIN")
	})
	return got
}

// askOnce runs a command on the node, and returns the text of the reply or error.
func (n *raftNode) askOnce(t *testing.T, words ...string) string {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: n.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: deadline})
	defer func() { _ = c.Close() }()
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(v)
}

// knowOneAnother waits until each node gives clients the addresses that the nodes have now, and no others. A node that has started again has
// another address.
func knowOneAnother(t *testing.T, nodes []*raftNode) {
	t.Helper()
	eventually(t, "the nodes know one another", func() bool {
		return !slices.ContainsFunc(nodes, func(n *raftNode) bool {
			slots := n.ask(t, "CLUSTER", "SLOTS")
			return strings.Count(slots, "127.0.0.1") != len(nodes) ||
				slices.ContainsFunc(nodes, func(other *raftNode) bool { return !strings.Contains(slots, " "+other.Port()+" ") })
		})
	})
}

// end kills a node at the end of its test, and checks its log: the last nodes to stop would lead without a majority, and take a timeout to
// notice.
func (p *proc) end() {
	p.Kill()
	p.Stop()
}

// restart starts the node again in its directory.
func (n *raftNode) restart(t *testing.T) {
	t.Helper()
	n.begin(t, n.Dir)
}

// begin starts the node on a directory, and waits until it answers: it is not ready before it is a member.
func (n *raftNode) begin(t *testing.T, dir string) {
	t.Helper()
	bin := n.bin
	if bin == "" {
		bin = plainBinary(t)
	}
	for range 3 {
		if n.proc = launch(t, options{bin: bin, env: n.env, ready: func(p *proc) bool { return answers(p.Addr) }}, dir, n.args); n.proc != nil {
			t.Cleanup(n.end)
			return
		}
	}
	t.Fatal("no port stayed free")
}

// leader waits until a node that is up makes decisions, and returns it.
func leader(t *testing.T, nodes []*raftNode) *raftNode {
	t.Helper()
	var at *raftNode
	eventually(t, "a node decides", func() bool {
		for _, n := range nodes {
			if n.proc != nil && n.ask(t, "RAFT", "LEADER") == n.Addr && strings.HasPrefix(n.askOnce(t, "RL.PEEK", "probe", "GCRA", "1/d"), "[") {
				at = n
				return true
			}
		}
		return false
	})
	return at
}

// roles returns the node of three that leads, and the two others.
func roles(t *testing.T, nodes []*raftNode) (leads, follows, third *raftNode) {
	t.Helper()
	leads = leader(t, nodes)
	rest := slices.DeleteFunc(slices.Clone(nodes), func(n *raftNode) bool { return n == leads })
	return leads, rest[0], rest[1]
}

// usedOf returns how much of the key's burst is used.
func usedOf(t *testing.T, n *raftNode, limit []string, burst int) int {
	t.Helper()
	reply := n.ask(t, append(append([]string{"RL.PEEK", "key"}, limit...), "COST", "0")...)
	var allowed, most, remaining int
	if _, err := fmt.Sscanf(reply, "[%d %d %d", &allowed, &most, &remaining); err != nil {
		t.Fatalf("%q: %v", reply, err)
	}
	return most - remaining
}

// A node that can make no decision says so; a node that does not lead names the leader.
func TestNodesThatDoNotLead(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3, "--raft-redirect", "moved")
	at := leader(t, nodes)
	for _, n := range nodes {
		if n == at {
			continue
		}
		if got, want := n.ask(t, "RL.TAKE", "foo", "GCRA", "1/s"), "MOVED 12182 "+at.Addr; got != want {
			t.Errorf("%s: %q, want %q", n.id, got, want)
		}
		if got := n.ask(t, "PING"); got != "PONG" {
			t.Errorf("PING: %s", got)
		}
	}
	at.ask(t, "RL.TAKE", "a", "GCRA", "1/d")
	at.ask(t, "RL.TAKE", "b", "GCRA", "1/d")
	if got := at.ask(t, "FLUSHALL") + at.ask(t, "DBSIZE"); got != "OK0" {
		t.Errorf("FLUSHALL and DBSIZE: %s", got)
	}
	if got := at.ask(t, "CONFIG", "SET", "appendonly", "no"); !strings.Contains(got, "raft-addr") {
		t.Errorf("CONFIG SET appendonly: %s", got)
	}
	if got := at.ask(t, "BGSAVE"); got != "Background saving started" {
		t.Errorf("BGSAVE: %s", got)
	}
	for _, n := range nodes {
		if n != at {
			n.Kill()
		}
	}
	eventually(t, "the node without a majority refuses", func() bool {
		return strings.HasPrefix(at.askOnce(t, "RL.TAKE", "a", "GCRA", "1/d"), "CLUSTERDOWN")
	})
}

// Directives and directories that contradict one another.
func TestClusterRefusesToStart(t *testing.T) {
	alone := start(t)
	alone.Stop()
	for name, c := range map[string]struct {
		want string
		args []string
	}{
		"off loopback":              {"raft-addr", []string{"--raft-addr", "0.0.0.0:7000"}},
		"bootstrap without raft":    {"raft-bootstrap needs raft-addr", []string{"--raft-bootstrap", "yes"}},
		"an id without raft":        {"raft-id needs raft-addr", []string{"--raft-id", "a"}},
		"an ack without raft":       {"raft-ack leader needs raft-addr", []string{"--raft-ack", "leader"}},
		"save":                      {"save", []string{"--raft-addr", "127.0.0.1:" + freePort(t), "--save", "60 1"}},
		"conservative":              {"recovery-mode", []string{"--raft-addr", "127.0.0.1:" + freePort(t), "--recovery-mode", "conservative"}},
		"recovery-clock wall":       {"recovery-clock", []string{"--raft-addr", "127.0.0.1:" + freePort(t), "--recovery-clock", "wall"}},
		"a directory of one server": {"of a standalone server", []string{"--raft-addr", "127.0.0.1:" + freePort(t), "--dir", alone.Dir}},
	} {
		args := append([]string{"--port", freePort(t), "--http-port", "0", "--dir", t.TempDir()}, c.args...)
		r := run(t, "", plainBinary(t), args...)
		if r.Code != 1 || !strings.Contains(r.Stderr, c.want) {
			t.Errorf("%s: exit %d, %s", name, r.Code, r.Stderr)
		}
	}
}

// INFO and the health checks of the nodes, with a leader and without one.
func TestNodesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	at := leader(t, nodes)
	var other *raftNode
	for _, n := range nodes {
		if n != at {
			other = n
		}
	}
	has := func(n *raftNode, parts ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s says %q", n.id, parts), func() bool {
			got := n.ask(t, "INFO", "replication")
			for _, part := range parts {
				if !strings.Contains(got, part) {
					return false
				}
			}
			return true
		})
	}
	host, port, _ := net.SplitHostPort(at.Addr)
	has(at, "role:master\r\n", "connected_slaves:2\r\n", "raft_serves:decisions\r\n", "raft_leader:"+at.Addr+"\r\n", "raft_voters:3\r\n")
	has(other, "role:slave\r\n", "master_host:"+host+"\r\n", "master_port:"+port+"\r\n", "master_link_status:up\r\n", "raft_serves:redirects\r\n")
	if got := other.ask(t, "ROLE"); !strings.HasPrefix(got, "[slave "+host+" "+port+" connected ") {
		t.Errorf("ROLE: %s", got)
	}
	for _, n := range nodes {
		eventually(t, n.id+" is ready", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
	}
	if got := get("http://" + at.HTTPAddr + "/metrics"); !strings.Contains(got, "\nlimitdb_raft_leading 1\n") {
		t.Errorf("the leader's metrics do not say so:\n%s", got)
	}
	for _, n := range nodes {
		if n != other {
			n.Kill()
		}
	}
	eventually(t, "the node that is left is not ready", func() bool { return get("http://"+other.HTTPAddr+"/readyz") == "" })
	has(other, "role:slave\r\n", "master_link_status:down\r\n", "raft_serves:nothing\r\n")
}
