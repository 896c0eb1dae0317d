// Package glob matches patterns as Redis does: * ? [a-z] [^a] and \.
package glob

// Match tells whether all of s matches pattern. It goes back only to the last
// star, so that its time is at most len(pattern) × len(s).
func Match[P, S ~string | ~[]byte](pattern P, s S) bool {
	p, i := 0, 0
	star, from := -1, 0 // after the last star; where in s it was
	for i < len(s) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				p++
				star, from = p, i
				continue
			}
			if n, ok := matchOne(pattern[p:], s[i]); ok {
				p += n
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, i = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches c with the one element, not a star, at the start of the
// pattern, and returns the element's length.
func matchOne[P ~string | ~[]byte](pattern P, c byte) (n int, ok bool) {
	switch {
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '[':
		return matchClass(pattern, c)
	case pattern[0] == '\\' && len(pattern) > 1:
		return 2, pattern[1] == c
	}
	return 1, pattern[0] == c
}

// matchClass is matchOne for "[abc]", "[a-c]" and "[^a]". A class that is not
// closed ends with the pattern, as in Redis.
func matchClass[P ~string | ~[]byte](pattern P, c byte) (n int, ok bool) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			ok = ok || pattern[i] == c
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			ok = ok || low <= c && c <= high
			i += 2
		default:
			ok = ok || pattern[i] == c
		}
	}
	return min(i+1, len(pattern)), ok != not
}
