package gen

import (
	"fmt"
	"strings"

	"limitdb/limit"
)

// SizeTable measures the size of a caller's state in bytes, for the limit 100/m, after 1, 50 and 100 requests
// spread over a minute. It returns a table in Markdown.
func SizeTable() (string, error) {
	var b strings.Builder
	b.WriteString("| algorithm | after 1 request | 50, over a minute | 100, over a minute |\n|---|---|---|---|\n")
	for _, a := range limit.Algorithms() {
		l, err := Sample(a, "100/m")
		if err != nil {
			return "", err
		}
		var cells []string
		for _, n := range []int64{1, 50, 100} {
			size, err := stateSize(&l, n)
			if err != nil {
				return "", err
			}
			cells = append(cells, fmt.Sprintf("%d", size))
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", l, strings.Join(cells, " | "))
	}
	return b.String(), nil
}

// stateSize returns the size of a state after n requests, spread evenly over a minute.
func stateSize(l *limit.Limit, n int64) (int, error) {
	var state []byte
	var d limit.Decision
	for i := range n {
		next, err := limit.Take(l, state, noon+minute*i/n, 1, nil, &d)
		if err != nil {
			return 0, err
		}
		if next != nil {
			state = append(state[:0], next...)
		}
	}
	return len(state), nil
}
