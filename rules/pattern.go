package rules

import (
	"bytes"
	"slices"
	"strings"
)

// condition is one field of a match and the values that it accepts.
type condition struct {
	field   int32
	nets    *networks // that the address must be in; nil: the value must match the pattern
	pattern pattern
	name    string // of the field
	text    string // the pattern or the networks as they were written
}

// match reports whether the value of the field in q, which is v, is accepted.
func (c *condition) match(q *Query, v []byte) bool {
	if c.nets == nil {
		return c.pattern.match(v)
	}
	a, ok := q.address(c.field)
	return ok && c.nets.has(a)
}

// any reports whether c accepts every value.
func (c *condition) any() bool { return c.nets == nil && c.pattern.any() }

// covers reports whether c accepts every value that o accepts. It may be wrong when it returns false, but never when it returns true.
func (c *condition) covers(o *condition) bool {
	switch {
	case c.nets == nil && o.nets == nil:
		return c.pattern.covers(&o.pattern)
	case c.nets == nil:
		return c.pattern.any()
	case o.nets == nil:
		return c.nets.hasOnly(&o.pattern)
	}
	return c.nets.covers(o.nets)
}

// excludes reports whether no value is accepted by both. It may return false where that is so.
func (c *condition) excludes(o *condition) bool {
	switch {
	case c.nets == nil && o.nets == nil:
		return c.pattern.excludes(&o.pattern)
	case c.nets == nil:
		_, exact := c.pattern.exact()
		return exact && !o.nets.hasOnly(&c.pattern)
	case o.nets == nil:
		return o.excludes(c)
	}
	return c.nets.excludes(o.nets)
}

// pattern is a value, or literals with stars between them. A star matches any bytes, also none.
// A backslash makes the byte after it literal. Nothing else is special, since values are often
// paths and queries, in which ? and [ are common.
//
// Stars alone need no automaton: taking each literal at its first place finds a match if there is
// one. So a pattern takes no more memory than its text, and a match one pass over the value.
type pattern struct {
	parts []string // the literals, those before the first and after the last star included
}

func parsePattern(text string) pattern {
	var parts []string
	var part []byte
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '*':
			if len(parts) == 0 || len(part) > 0 {
				parts = append(parts, string(part)) // several stars in a row are one
			}
			part = part[:0]
			continue
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		part = append(part, text[i])
	}
	return pattern{append(parts, string(part))}
}

// exact returns the only value that p matches, if there is only one.
func (p *pattern) exact() (value string, ok bool) { return p.parts[0], len(p.parts) == 1 }

// first and last return the literals that every value begins and ends with.
func (p *pattern) first() string { return p.parts[0] }
func (p *pattern) last() string  { return p.parts[len(p.parts)-1] }

// any reports whether p matches every value.
func (p *pattern) any() bool { return len(p.parts) == 2 && p.first()+p.last() == "" }

func (p *pattern) match(v []byte) bool {
	if len(p.parts) == 1 {
		return string(v) == p.parts[0]
	}
	first, last := p.first(), p.last()
	if len(v) < len(first)+len(last) || string(v[:len(first)]) != first || string(v[len(v)-len(last):]) != last {
		return false
	}
	v = v[len(first) : len(v)-len(last)]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		i := bytes.Index(v, asBytes(part))
		if i < 0 {
			return false
		}
		v = v[i+len(part):]
	}
	return true
}

// covers reports whether p matches every value that q matches. It may be wrong when it returns
// false, but never when it returns true.
func (p *pattern) covers(q *pattern) bool {
	if value, ok := q.exact(); ok {
		return p.match([]byte(value))
	}
	if _, ok := p.exact(); ok {
		return false
	}
	if len(p.parts) == 2 {
		return strings.HasPrefix(q.first(), p.first()) && strings.HasSuffix(q.last(), p.last())
	}
	return slices.Equal(p.parts, q.parts)
}

// excludes reports whether no value matches both. It may return false where that is so.
func (p *pattern) excludes(q *pattern) bool {
	if value, ok := q.exact(); ok {
		return !p.match([]byte(value))
	}
	if value, ok := p.exact(); ok {
		return !q.match([]byte(value))
	}
	f, g := p.first(), q.first()
	l, m := p.last(), q.last()
	return !strings.HasPrefix(f, g) && !strings.HasPrefix(g, f) || !strings.HasSuffix(l, m) && !strings.HasSuffix(m, l)
}
