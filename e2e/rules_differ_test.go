package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A node whose rules file differs from that of the others says so, and so do they, until the files are alike again.
func TestRulesFilesThatDiffer(t *testing.T) {
	t.Parallel()
	const rules = "version: 1\nnamespaces:\n  a:\n    - {name: x, limit: 5/h}\n"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nodes := startCluster(t, 3, "--rules-file", write("rules.yaml", rules))
	odd := nodes[2]
	for i, arg := range odd.args {
		if arg == "--rules-file" {
			odd.args[i+1] = write("odd.yaml", strings.Replace(rules, "5/h", "6/h", 1))
		}
	}
	odd.Stop()
	odd.restart(t)
	differ := func(n *raftNode) (info, metric string) {
		for line := range strings.Lines(get("http://" + n.HTTPAddr + "/metrics")) {
			if value, ok := strings.CutPrefix(line, "limitdb_raft_differences "); ok {
				metric = strings.TrimSpace(value)
			}
		}
		return n.field(t, "raft_settings_that_differ"), metric
	}
	want := func(n *raftNode, info, metric string) {
		t.Helper()
		eventually(t, n.id+" finds "+info, func() bool {
			gotInfo, gotMetric := differ(n)
			return gotInfo == info && gotMetric == metric
		})
	}
	want(nodes[0], "rules of n3", "1")
	want(odd, "rules of n1, rules of n2", "2")
	eventually(t, "it is logged", func() bool {
		return strings.Contains(odd.Log(), "settings that must be the same on all nodes differ from this node's") && strings.Contains(odd.Log(), "rules of n1")
	})
	write("odd.yaml", "# the same\n"+rules)
	for _, n := range nodes {
		want(n, "", "0")
	}
}
