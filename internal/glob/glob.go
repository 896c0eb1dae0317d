// Package glob matches patterns as Redis does: * ? [a-z] [^a] and \.
package glob

import "math/bits"

// MaxPattern is the maximum length of a pattern, in bytes.
const MaxPattern = 1024

// Pattern is a compiled pattern. Matching does not change it, so several goroutines may use it.
//
// It is an automaton whose states are bits: bit i is set while the first i elements of the pattern match what
// has been read. Each byte moves every state whose next element accepts it one up; a star keeps its state
// where it is. The time for each byte depends only on the length of the pattern. See Navarro and Raffinot,
// "Flexible Pattern Matching in Strings" (2002), chapter 4.
type Pattern struct {
	words int      // 64-bit words of a set of states
	last  int      // the state that means a match
	stars []uint64 // the states that a star keeps
	any   []uint64 // the states that every byte leads to
	// next has, for each byte, the states that it leads to in addition to any. It is nil if the pattern has
	// only stars and question marks.
	next []uint64
}

// Compile compiles a pattern. It returns false if the pattern has more than MaxPattern bytes. An unfinished
// class or backslash ends with the pattern, as in Redis.
func Compile[P ~string | ~[]byte](pattern P) (*Pattern, bool) {
	if len(pattern) > MaxPattern {
		return nil, false
	}
	var elements []element
	p, first := &Pattern{}, uint64(0) // whether the pattern begins with a star
	for i := 0; i < len(pattern); {
		if pattern[i] == '*' {
			i++
			if n := len(elements); n > 0 {
				elements[n-1].star = true
			} else {
				first = 1
			}
			continue
		}
		e, n := read(pattern[i:])
		elements = append(elements, e)
		i += n
	}
	p.build(first, elements)
	return p, true
}

// Open reports whether the pattern ends in a star: what begins with bytes that match does, too.
func (p *Pattern) Open() bool { return p.stars[p.last>>6]&(1<<(p.last&63)) != 0 }

// Size returns about how many bytes the pattern takes in memory.
func (p *Pattern) Size() int { return 128 + 8*(2*p.words+len(p.next)) }

// Cost returns about how long Match takes for n bytes, in steps of one word.
func (p *Pattern) Cost(n int) int { return n * p.words }

// element is what one byte is matched with.
type element struct {
	any     bool      // accepts every byte
	star    bool      // a star follows
	accepts [4]uint64 // a bit for each byte, unless any is set
}

// read parses the element, not a star, at the start of the pattern, and returns its length.
func read[P ~string | ~[]byte](pattern P) (e element, n int) {
	switch c := pattern[0]; {
	case c == '?':
		return element{any: true}, 1
	case c == '[':
		e.accepts, n = class(pattern)
		return e, n
	case c == '\\' && len(pattern) > 1:
		set(e.accepts[:], int(pattern[1]))
		return e, 2
	default:
		set(e.accepts[:], int(c))
		return e, 1
	}
}

// build makes the automaton.
func (p *Pattern) build(first uint64, elements []element) {
	p.last = len(elements)
	p.words = p.last/64 + 1
	p.stars, p.any = make([]uint64, p.words), make([]uint64, p.words)
	p.stars[0] = first
	for i := range elements {
		e := &elements[i]
		state := i + 1
		if e.star {
			set(p.stars, state)
		}
		if e.any {
			set(p.any, state)
			continue
		}
		if p.next == nil {
			p.next = make([]uint64, 256*p.words)
		}
		for w, word := range e.accepts {
			for ; word != 0; word &= word - 1 {
				c := w<<6 + bits.TrailingZeros64(word)
				set(p.next[c*p.words:], state)
			}
		}
	}
}

func set(s []uint64, i int) { s[i>>6] |= 1 << (i & 63) }

// class parses a class from "[" to its end, and returns the bytes that it accepts and its length.
func class[P ~string | ~[]byte](pattern P) (accepted [4]uint64, n int) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		low := pattern[i]
		high := low
		switch {
		case low == '\\' && i+1 < len(pattern):
			i++
			low, high = pattern[i], pattern[i]
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high = min(low, pattern[i+2]), max(low, pattern[i+2])
			i += 2
		}
		for c := int(low); c <= int(high); c++ {
			set(accepted[:], c)
		}
	}
	if not {
		for w := range accepted {
			accepted[w] = ^accepted[w]
		}
	}
	return accepted, min(i+1, len(pattern))
}

// Match reports whether all of s matches. It takes len(s) steps, each of one word for 64 bytes of the
// pattern.
func (p *Pattern) Match(s []byte) bool {
	if p.words == 1 {
		return p.matchShort(s)
	}
	const most = MaxPattern/64 + 1
	var states [most]uint64
	states[0] = 1
	at := states[:p.words]
	for _, c := range s {
		var next []uint64
		if p.next != nil {
			next = p.next[int(c)*p.words:][:p.words]
		}
		carry, alive := uint64(0), uint64(0)
		for w, old := range at {
			to := p.any[w]
			if next != nil {
				to |= next[w]
			}
			now := (old<<1|carry)&to | old&p.stars[w]
			carry = old >> 63
			at[w] = now
			alive |= now
		}
		if alive == 0 {
			return false
		}
	}
	return at[p.last>>6]>>(p.last&63)&1 == 1
}

// matchShort is Match for patterns whose states fit into one word.
func (p *Pattern) matchShort(s []byte) bool {
	stars, any, at := p.stars[0], p.any[0], uint64(1)
	for _, c := range s {
		to := any
		if p.next != nil {
			to |= p.next[c]
		}
		if at = at<<1&to | at&stars; at == 0 {
			return false
		}
	}
	return at>>p.last&1 == 1
}
