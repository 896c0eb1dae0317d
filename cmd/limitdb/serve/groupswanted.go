//go:build !severalgroups

package serve

import "limitdb/config"

// wantedGroups returns how many groups a cluster that begins is to have.
func wantedGroups(*config.Settings) int { return 1 }
