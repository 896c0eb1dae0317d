//go:build severalgroups

package serve

import (
	"os"
	"strconv"

	"limitdb/config"
)

// wantedGroups returns how many groups a cluster that begins is to have: in tests of clusters of several groups.
func wantedGroups(*config.Settings) int {
	n, _ := strconv.Atoi(os.Getenv("TEST_RAFT_GROUPS"))
	return max(n, 1)
}
