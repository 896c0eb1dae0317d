package config

import (
	"strings"

	"limitdb/internal/glob"
)

// matchFold reports whether s matches the pattern as Redis' CONFIG GET does,
// without regard to case.
func matchFold(pattern, s string) bool {
	return glob.Match(strings.ToLower(pattern), strings.ToLower(s))
}
