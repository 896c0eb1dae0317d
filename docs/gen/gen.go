// Package gen makes what docs/algorithms.md shows: the plot of admitted requests,
// the sizes of states and the measured errors. All come from the functions of
// package limit, through package simulate, so they change only when those do.
//
// scripts/docs writes them again, and scripts/docs -check tells whether they are
// what the functions say. The same numbers come out on every machine: requests are
// drawn from a seed, in integers.
package gen

import (
	"fmt"
	"strings"

	"limitdb/limit"
)

// Sample is the spelling of a limit for each algorithm at a rate such as 10/s.
// Options are those that an algorithm cannot do without.
func Sample(a limit.Algorithm, rate string) (limit.Limit, error) {
	text := a.String() + " " + rate
	if a == limit.SEGMENTED {
		text += " SEGMENTS 10"
	}
	return limit.Parse(text)
}

// Fill replaces what stands in a page between <!-- begin NAME --> and
// <!-- end NAME -->. It is an error if a name has no place in the page.
func Fill(page string, blocks map[string]string) (string, error) {
	for name, text := range blocks {
		begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
		before, rest, found := strings.Cut(page, begin)
		_, after, found2 := strings.Cut(rest, end)
		if !found || !found2 {
			return "", fmt.Errorf("the page has no place for %s", name)
		}
		page = before + begin + text + end + after
	}
	return page, nil
}
