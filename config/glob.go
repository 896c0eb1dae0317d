package config

import (
	"strings"

	"limitdb/internal/glob"
)

// foldPatterns compiles patterns for matching names in lower case, as CONFIG GET does. It leaves out a
// pattern that is too long, which matches nothing.
func foldPatterns(patterns []string) []*glob.Pattern {
	var out []*glob.Pattern
	for _, text := range patterns {
		if p, ok := glob.Compile(strings.ToLower(text)); ok {
			out = append(out, p)
		}
	}
	return out
}
