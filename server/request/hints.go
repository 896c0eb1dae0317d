package request

import (
	"strings"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
)

// noAlgorithm returns a hint for a word that names no algorithm.
func noAlgorithm(word []byte) string {
	if len(word) > 0 && '0' <= word[0] && word[0] <= '9' {
		return "the algorithm comes first, as in GCRA 100/m"
	}
	return spec.Meant(word, limit.Algorithms(), limit.Algorithm.String)
}

// noOption returns a hint for a word that is neither an option of the algorithm nor one of the
// command's own.
func noOption(word []byte, a limit.Algorithm, allowed Own) string {
	var known, owners []string
	for _, o := range limit.Options() {
		for _, of := range o.Algorithms {
			if of == a {
				known = append(known, o.Name)
			}
			if resp.EqualFold(word, o.Name) {
				owners = append(owners, of.String())
			}
		}
	}
	if len(owners) > 0 {
		return "it is an option of " + strings.Join(owners, ", ")
	}
	for i, name := range ownNames() {
		if allowed&(1<<i) != 0 {
			known = append(known, name)
		}
	}
	return spec.Meant(word, known, strings.Clone)
}
