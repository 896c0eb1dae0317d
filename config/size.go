package config

import (
	"math"
	"strconv"
	"strings"
)

// parseSize parses a size as Redis does: digits and one of b, k, kb, m, mb, g, gb in upper or lower case,
// where k is 1000 and kb is 1024.
func parseSize(s string) (int64, error) {
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	var unit int64
	switch strings.ToLower(s[digits:]) {
	case "", "b":
		unit = 1
	case "k":
		unit = 1000
	case "kb":
		unit = 1 << 10
	case "m":
		unit = 1000 * 1000
	case "mb":
		unit = 1 << 20
	case "g":
		unit = 1000 * 1000 * 1000
	case "gb":
		unit = 1 << 30
	default:
		return 0, errNotMemory
	}
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, errNotMemory
	}
	return n * unit, nil
}

// formatSize writes n with the largest of gb, mb and kb that divides it.
func formatSize(n int64) string {
	switch {
	case n == 0:
		return "0"
	case n%(1<<30) == 0:
		return strconv.FormatInt(n>>30, 10) + "gb"
	case n%(1<<20) == 0:
		return strconv.FormatInt(n>>20, 10) + "mb"
	case n%(1<<10) == 0:
		return strconv.FormatInt(n>>10, 10) + "kb"
	}
	return strconv.FormatInt(n, 10)
}
