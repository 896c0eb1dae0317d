package load

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"limitdb/resp"
)

// The connections are divided among the nodes, and each sends only what its node leads, of all slots.
func TestClusterLoad(t *testing.T) {
	var nodes [2]fake
	var addr [2]string
	for i := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr[i] = l.Addr().String()
		nodes[i].listen(l)
		defer l.Close()
	}
	text := fmt.Sprintf("a %s@1 master - 0 0 1 connected 0-99 8000-16383\nb %s@1 myself,master - 0 0 1 connected 100-7998 7999\nc %s@1 slave a 0 0 1 connected\n", addr[0], addr[1], addr[0])
	for i := range nodes {
		nodes[i].answer = func(_ int, args []string) string {
			if args[0] == "CLUSTER" {
				return string(resp.AppendBulkString(nil, text))
			}
			return granted
		}
	}
	res, err := Run(t.Context(), Config{Addr: addr[1], Cluster: true, Connections: 5, Pipeline: 4, Requests: 4000, Command: strings.Fields("RL.TAKE user:{key} GCRA 1/s")})
	if err != nil || res.Requests < 4000 || res.Errors > 0 {
		t.Fatal(res, err)
	}
	seen := map[int]bool{}
	for i := range nodes {
		n := 0
		nodes[i].mu.Lock()
		for _, c := range nodes[i].commands {
			if c[0] != "RL.TAKE" {
				continue
			}
			s := resp.Slot([]byte(c[1]))
			seen[s>>10] = true
			if n++; (s < 100 || s >= 8000) != (i == 0) {
				t.Fatalf("node %d gets %q of slot %d", i, c[1], s)
			}
		}
		nodes[i].mu.Unlock()
		if n < 1000 {
			t.Errorf("node %d gets %d requests", i, n)
		}
	}
	if len(seen) != 16 {
		t.Errorf("slots of %d parts in 16", len(seen))
	}
}

// A cluster of which a slot has no leader, and a run that makes no sense in one, are errors.
func TestClusterLoadRefuses(t *testing.T) {
	for _, text := range []string{
		"", "a h:1@2 master - 0 0 1 connected 0-16382", "a h:1@2 master - 0 0 1 connected 0-16384", "a h:1@2 master - 0 0 1 connected 5-3 0-16383", "a h:1@2 master - 0 0 1 connected x",
	} {
		if m, err := parseNodes(text); err == nil {
			t.Errorf("%q: %v", text, m.nodes)
		}
	}
	for _, c := range []Config{{Cluster: true, Distribution: Sequential}, {Cluster: true, Distribution: Single}, {Cluster: true, Command: []string{"PING"}}} {
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "--cluster") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
