// Package english helps to write messages in plain English.
package english

import "strconv"

// Count returns a number and a noun, as in "1 key" and "2 keys".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
