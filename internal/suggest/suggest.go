// Package suggest finds the name that a misspelt one was meant to be.
package suggest

import "strings"

// The lengths of words that are compared. A single change leaves nothing of a shorter word, and a longer word
// takes too long.
const (
	minLen = 3
	maxLen = 64
)

// Nearest returns the name in all that is the fewest changes away from word, and whether one is near enough: one
// change, and in a long word one for every four bytes. Case does not matter. Among equally near names it
// returns the first.
func Nearest[T any](word string, all []T, nameOf func(T) string) (string, bool) {
	if len(word) < minLen || len(word) > maxLen {
		return "", false
	}
	word = strings.ToLower(word)
	best, least := "", max(1, len(word)/4)+1
	for _, named := range all {
		name := nameOf(named)
		if more := len(name) - len(word); max(more, -more) >= least {
			continue // each byte more or less is a change
		}
		if n := Distance(word, strings.ToLower(name)); n < least {
			best, least = name, n
		}
	}
	return best, best != ""
}

// Distance returns the number of bytes that must be added, removed or replaced, or of neighbours that must be
// swapped, to get from a to b. No byte is changed twice: this is the optimal string alignment, the restricted
// form of the distance of Damerau (1964) and Levenshtein (1965).
func Distance(a, b string) int {
	// Row i has the distances of a[:i] from b[:0], b[:1], … Two earlier rows are kept; a swap needs the older
	// one.
	n := len(b) + 1
	var few [3 * (2*maxLen + 1)]int
	rows := few[:]
	if 3*n > len(few) {
		rows = make([]int, 3*n)
	}
	older, old, row := rows[:n], rows[n:2*n], rows[2*n:3*n]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		older, old, row = old, row, older
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, old[j+1]+1, old[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
