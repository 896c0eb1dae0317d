package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"limitdb/resp"
)

// A follower that holds more than its maxmemory drops nothing and says so, and the leader keeps to the smallest maxmemory.
func TestFollowerOverItsMaxmemory(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	at := leader(t, nodes)
	conn, err := net.Dial("tcp", at.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	keys := 0
	add := func() (last string) { // 1000 keys, and the last error
		t.Helper()
		var b strings.Builder
		for range 1000 {
			fmt.Fprintf(&b, "RL.TAKE user:%012d GCRA 1/d\r\n", keys)
			keys++
		}
		if _, err := io.WriteString(conn, b.String()); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			v, err := resp.ReadReply(r, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if v.Err() != nil {
				last = v.Err().Error()
			}
		}
		return last
	}
	for range 40 {
		add()
	}
	var small *raftNode
	for _, n := range nodes {
		if n != at {
			small = n
		}
	}
	field := func(n *raftNode, name string) string {
		_, rest, _ := strings.Cut(n.ask(t, "INFO", "replication"), name+":")
		value, _, _ := strings.Cut(rest, "\r\n")
		return value
	}
	for _, set := range [][2]string{{"maxmemory-policy", "least-debt"}, {"maxmemory", "1mb"}} {
		if got := small.ask(t, "CONFIG", "SET", set[0], set[1]); got != "OK" {
			t.Fatalf("CONFIG SET %s: %s", set[0], got)
		}
	}
	eventually(t, "the follower says that it holds more than its maxmemory", func() bool { return field(small, "raft_over_maxmemory") == "1" })
	eventually(t, "the leader keeps to the follower's maxmemory", func() bool {
		return strings.HasPrefix(add(), "OOM")
	})
	from := atoi(t, field(at, "raft_applied_index"))
	hashes := map[string]string{}
	eventually(t, "a hash of both at one index", func() bool {
		for _, n := range []*raftNode{at, small} {
			index, hash := field(n, "raft_state_hash_index"), field(n, "raft_state_hash")
			if index == "" || atoi(t, index) < from {
				continue
			}
			if other, ok := hashes[index]; ok && other != n.id+hash && !strings.HasPrefix(other, n.id) {
				if other[2:] != hash {
					t.Errorf("at entry %s: %s and %s", index, other, n.id+hash)
				}
				return true
			}
			hashes[index] = n.id + hash
		}
		return false
	})
}
