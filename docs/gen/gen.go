// Package gen makes the figures of docs/algorithms.md: the plot of admitted requests, the sizes of states and
// the measured errors. They all come from the functions of package limit, through package simulate, so they
// change only when those do.
//
// scripts/docs writes them, and scripts/docs -check checks that they are current. The figures are the same on
// every machine: requests are drawn from a seed, in integers.
package gen

import (
	"fmt"
	"strings"

	"limitdb/limit"
)

// Sample returns a limit of an algorithm at a rate such as 10/s, with the options that the algorithm
// requires.
func Sample(a limit.Algorithm, rate string) (limit.Limit, error) {
	text := a.String() + " " + rate
	if a == limit.SEGMENTED {
		text += " SEGMENTS 10"
	}
	return limit.Parse(text)
}

// Fill replaces the text in a page between <!-- begin NAME --> and <!-- end NAME -->. It returns an error if
// the page does not have a name.
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
