package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Nodes that have the rules from a file make the same keys of callers whose name is too long for one, so they find the same group for such a
// caller. So does a node that starts again.
func TestGroupsRulesFile(t *testing.T) {
	t.Parallel()
	const groups, callers = 4, 12
	bin := plainBinary(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nnamespaces:\n  shop:\n    - {name: each, key: [user], limit: gcra 1000/d}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var nodes []*raftNode
	for i := range 2 {
		n := &raftNode{id: fmt.Sprint("n", i+1), raft: "127.0.0.1:" + freePort(t), bin: bin}
		n.args = slices.Concat([]string{"--raft-addr", n.raft, "--raft-id", n.id, "--rules-file", rules}, timeouts(patience))
		if i == 0 {
			n.args = append(n.args, "--raft-bootstrap", "yes", "--raft-groups", fmt.Sprint(groups))
		} else {
			n.args = append(n.args, "--raft-join", nodes[0].Addr)
		}
		n.begin(t, t.TempDir())
		nodes = append(nodes, n)
	}
	ready := func(n *raftNode) {
		t.Helper()
		eventually(t, n.id+" is ready", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
	}
	// check makes checks of all callers on a node. What a loss of a leader makes of a check does not matter: the caller's key is made.
	check := func(n *raftNode) {
		t.Helper()
		for i := range callers {
			eventually(t, fmt.Sprint(n.id, " checks caller ", i), func() bool {
				return strings.HasPrefix(n.ask(t, "RL.CHECK", "shop", "1", "user", fmt.Sprint(i, strings.Repeat("u", 300))), "[0 ")
			})
		}
	}
	has := func(n *raftNode, keys string) {
		t.Helper()
		eventually(t, n.id+" counts the keys", func() bool {
			got := n.ask(t, "DBSIZE")
			if len(got) < 4 && got != keys {
				t.Fatalf("%s: %s keys of %d callers", n.id, got, callers)
			}
			return got == keys
		})
	}
	for _, n := range nodes {
		ready(n)
	}
	groupsRest(t, nodes[1], groups, 2, false, nodes...)
	eachLeads(t, nodes[0], nodes...)
	for again := range 2 {
		if again == 1 {
			nodes[1].Kill()
			nodes[1].restart(t)
			ready(nodes[1])
		}
		for _, n := range nodes {
			check(n)
			has(n, fmt.Sprint(callers))
		}
	}
}
