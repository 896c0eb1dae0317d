package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
)

// What the dashboard and the alerts add up over the nodes of a cluster counts each decision once, also one that a node has forwarded.
func TestMetricsOfAClusterAddUp(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	const each = 10
	for i, n := range nodes {
		c := dial(t, n.Addr)
		for range each {
			c.do("RL.TAKE", fmt.Sprint("user:", i), "GCRA", "4/d")
		}
	}
	// sum adds up the lines of all nodes that begin as pattern says, of those that lead only if leading is set.
	sum := func(pattern string, leading bool) (all float64) {
		for _, n := range nodes {
			page := get("http://" + n.HTTPAddr + "/metrics")
			if leading && !regexp.MustCompile(`(?m)^limitdb_raft_leading 1$`).MatchString(page) {
				continue
			}
			for _, m := range regexp.MustCompile(`(?m)^`+pattern+` (\S+)$`).FindAllStringSubmatch(page, -1) {
				v, err := strconv.ParseFloat(m[1], 64)
				if err != nil {
					t.Fatal(err)
				}
				all += v
			}
		}
		return all
	}
	for _, want := range []struct {
		pattern string
		leading bool
		n       float64
	}{
		{`limitdb_decisions_total\{result="[a-z]+"\}`, false, 3 * each},
		{`limitdb_decisions_total\{result="limited"\}`, false, 3 * (each - 4)},
		{`limitdb_keys`, true, 3},
		{`limitdb_command_duration_seconds_count\{command="rl.take"\}`, false, 3 * each},
		{`limitdb_commands_total\{command="rl.take"\}`, false, 3 * each},
		{`limitdb_clients`, false, 3},
	} {
		if got := sum(want.pattern, want.leading); got != want.n {
			t.Errorf("%s is %v, want %v", want.pattern, got, want.n)
		}
	}
}
