package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// nodeCerts makes certificates for nodes, and returns their directory.
func nodeCerts(t *testing.T, dir string, names ...string) {
	t.Helper()
	need(t, "openssl")
	if out, err := exec.Command("../deploy/node-certs", append([]string{dir}, names...)...).CombinedOutput(); err != nil {
		t.Fatalf("node-certs: %v\n%s", err, out)
	}
}

// certArgs are the directives for the certificate of a node.
func certArgs(dir, name string) []string {
	return []string{
		"--raft-tls-cert-file", filepath.Join(dir, name+".crt"), "--raft-tls-key-file", filepath.Join(dir, name+".key"),
		"--raft-tls-ca-cert-file", filepath.Join(dir, "ca.crt"),
	}
}

const clusterPassword = "secret"

// member returns a node of a cluster with a password and certificates, which is not started yet.
func member(t *testing.T, certs, id string, args ...string) *raftNode {
	n := &raftNode{id: id, raft: "127.0.0.1:" + freePort(t)}
	n.args = slices.Concat([]string{"--raft-addr", n.raft, "--raft-id", id, "--requirepass", clusterPassword}, certArgs(certs, id), timeouts(patience), args)
	return n
}

// info returns the node's reply to RAFT INFO.
func (n *raftNode) info(t *testing.T) map[string]string {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: n.Addr, Password: clusterPassword, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = c.Close() }()
	all := map[string]string{}
	v, err := c.Do(context.Background(), "RAFT", "INFO").Result()
	if err != nil {
		return all
	}
	for k, v := range v.(map[any]any) {
		all[fmt.Sprint(k)] = fmt.Sprint(v)
	}
	return all
}

// has waits until RAFT INFO of the node has all these values.
func (n *raftNode) has(t *testing.T, pairs ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("RAFT INFO of %s has %v", n.id, pairs), func() bool {
		all := n.info(t)
		for i := 0; i < len(pairs); i += 2 {
			if all[pairs[i]] != pairs[i+1] {
				return false
			}
		}
		return true
	})
}

// refuses starts the node on a directory, and checks that it ends with 1 and a reason.
func (n *raftNode) refuses(t *testing.T, dir, want string) {
	t.Helper()
	r := run(t, "", plainBinary(t), append([]string{"--port", freePort(t), "--http-port", "0", "--dir", dir}, n.args...)...)
	if r.Code != 1 || !strings.Contains(r.Stderr, want) {
		t.Errorf("%s: exit %d, want %q in\n%s", n.id, r.Code, want, r.Stderr)
	}
}

// Nodes join through any member, come back with the same command line, and are refused if they are not the node that
// they claim to be.
func TestNodesJoin(t *testing.T) {
	t.Parallel()
	certs := t.TempDir()
	nodeCerts(t, certs, "n1", "n2", "n3", "n4")
	n1 := member(t, certs, "n1", "--raft-bootstrap", "yes", "--raft-join", "127.0.0.1:"+freePort(t)) // nobody is there
	n1.begin(t, t.TempDir())
	n1.has(t, "state", "leader", "voters", "1")
	cluster := n1.info(t)["cluster"]
	n2 := member(t, certs, "n2", "--raft-join", n1.Addr)
	n2.begin(t, t.TempDir())
	n1.has(t, "voters", "2")
	n3 := member(t, certs, "n3", "--raft-bootstrap", "yes", "--raft-join", n2.Addr) // a follower, and it is in a cluster already
	n3.begin(t, t.TempDir())
	for _, n := range []*raftNode{n1, n2, n3} {
		n.has(t, "voters", "3", "cluster", cluster)
	}

	// A leader that is stopped hands over, and comes back with the same command line.
	n1.Stop()
	eventually(t, "another node leads", func() bool { return strings.Contains(n2.Log()+n3.Log(), "this node leads") })
	n1.restart(t)
	n1.has(t, "state", "follower", "voters", "3", "cluster", cluster)

	// Its address changes: the members dial the new one.
	n3.Stop()
	moved := member(t, certs, "n3", "--raft-join", n1.Addr)
	moved.begin(t, n3.Dir)
	moved.has(t, "voters", "3", "cluster", cluster)
	eventually(t, "the new address is known", func() bool {
		c := goredis.NewClient(&goredis.Options{Addr: n1.Addr, Password: clusterPassword, MaxRetries: -1, DialerRetries: 1})
		defer func() { _ = c.Close() }()
		v, err := c.Do(context.Background(), "RAFT", "SERVER", "LIST").Result()
		return err == nil && strings.Contains(fmt.Sprint(v), moved.raft) && !strings.Contains(fmt.Sprint(v), n3.raft)
	})

	// Renewed certificates are read while the nodes run.
	// After a signal at once, else when the server sees that the files have changed.
	nodeCerts(t, certs, "n1", "n2", "n3")
	for _, n := range []*raftNode{n1, n2, moved} {
		eventually(t, "the new certificates are noticed", func() bool { return strings.Contains(n.Log(), "certificates have changed and were read again") })
		n.Signal(syscall.SIGHUP)
		eventually(t, "the certificates are read again", func() bool { return strings.Contains(n.Log(), "reloaded") })
	}

	// Without its directory, n3 is not n3.
	moved.Stop()
	moved.refuses(t, t.TempDir(), "has lost the directory")
	// A directory of another cluster.
	alone := member(t, certs, "n4", "--raft-bootstrap", "yes")
	alone.begin(t, t.TempDir())
	alone.has(t, "state", "leader")
	alone.Stop()
	member(t, certs, "n4", "--raft-join", n1.Addr).refuses(t, alone.Dir, "it belongs to the cluster "+cluster)
	// A directory of another node, the certificate of another node, and another password.
	member(t, certs, "n2", "--raft-join", n1.Addr).refuses(t, alone.Dir, "is the directory of node n4, and not of n2")
	other := member(t, certs, "n4", "--raft-join", n1.Addr)
	other.args = append(other.args, certArgs(certs, "n2")...)
	other.refuses(t, t.TempDir(), "is not for this node")
	wrong := member(t, certs, "n4", "--raft-join", n1.Addr)
	wrong.args = append(wrong.args, "--requirepass", "wrong")
	wrong.refuses(t, t.TempDir(), "requirepass is not the password there")
	n1.has(t, "members", "3")

	moved.restart(t)
	moved.has(t, "voters", "3", "cluster", cluster)
}

// A member that was removed while it was down is added again by raft-join, or ends and says why.
func TestRemovedNodeJoins(t *testing.T) {
	t.Parallel()
	certs := t.TempDir()
	nodeCerts(t, certs, "n1", "n2", "n3", "n4")
	n1 := member(t, certs, "n1", "--raft-bootstrap", "yes")
	n1.begin(t, t.TempDir())
	n2 := member(t, certs, "n2", "--raft-join", n1.Addr)
	n2.begin(t, t.TempDir())
	n3 := member(t, certs, "n3", "--raft-join", n2.Addr)
	n3.begin(t, t.TempDir())
	n1.has(t, "voters", "3")
	remove := func(id string) {
		t.Helper()
		c := goredis.NewClient(&goredis.Options{Addr: n1.Addr, Password: clusterPassword, MaxRetries: -1, DialerRetries: 1})
		defer func() { _ = c.Close() }()
		if err := c.Do(context.Background(), "RAFT", "SERVER", "REMOVE", id).Err(); err != nil {
			t.Fatal(err)
		}
	}

	n3.Stop()
	remove("n3")
	n1.has(t, "members", "2")
	// Until then, the leader tries to tell n3 that it is no member any more.
	eventually(t, "the leader gives up", func() bool { return strings.Contains(n1.Log(), "failed to appendEntries to") })
	n3.restart(t)
	n1.has(t, "voters", "3")
	n3.has(t, "voters", "3", "leader", n1.Addr)

	// A member that was demoted stays without a vote.
	c := goredis.NewClient(&goredis.Options{Addr: n1.Addr, Password: clusterPassword, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = c.Close() }()
	if err := c.Do(context.Background(), "RAFT", "SERVER", "DEMOTE", "n3").Err(); err != nil {
		t.Fatal(err)
	}
	n3.Stop()
	n3.restart(t)
	n3.has(t, "voters", "2", "members", "3", "leader", n1.Addr)

	// Another node took its name meanwhile.
	n3.Stop()
	remove("n3")
	other := member(t, certs, "n3", "--raft-join", n1.Addr)
	other.begin(t, t.TempDir())
	n1.has(t, "voters", "3")
	n3.refuses(t, n3.Dir, "has lost the directory")
	n1.has(t, "voters", "3")
}
