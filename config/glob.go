package config

import (
	"strings"

	"limitdb/internal/glob"
)

// foldPatterns compiles patterns that are matched, as CONFIG GET does, with names in lower case.
// One that is too long matches nothing and is left out.
func foldPatterns(patterns []string) []*glob.Pattern {
	var out []*glob.Pattern
	for _, text := range patterns {
		if p, ok := glob.Compile(strings.ToLower(text)); ok {
			out = append(out, p)
		}
	}
	return out
}
