package users

import (
	"strings"

	"limitdb/internal/glob"
	"limitdb/server/spec"
)

// A keyPattern says which keys may be read, changed, or both.
type keyPattern struct {
	channelPattern
	access spec.Access
}

// A channelPattern says which channels may be used. Most patterns are a text and a star, which is compared as such.
type channelPattern struct {
	text   string
	prefix string        // of a pattern that is this and a star
	star   bool          // the pattern is prefix and a star
	glob   *glob.Pattern // any other pattern
}

// newPattern compiles a pattern, and reports whether it is short enough.
func newPattern(text string) (p channelPattern, ok bool) {
	p.text = text
	if prefix, star := strings.CutSuffix(text, "*"); star && !strings.ContainsAny(prefix, `*?[\`) {
		p.prefix, p.star = prefix, true
		return p, len(text) <= glob.MaxPattern
	}
	p.glob, ok = glob.Compile(text)
	return p, ok
}

// every returns the pattern for all keys.
func every(access spec.Access) keyPattern {
	return keyPattern{channelPattern{text: "*", star: true}, access}
}

// everything reports whether the pattern matches every name.
func (p *channelPattern) everything() bool { return p.star && p.prefix == "" }

func (p *channelPattern) match(name []byte) bool {
	if p.star {
		return len(name) >= len(p.prefix) && string(name[:len(p.prefix)]) == p.prefix
	}
	return p.glob.Match(name)
}

// open reports whether what begins with a name that matches does match, too.
func (p *channelPattern) open() bool { return p.star || p.glob.Open() }

func (p *channelPattern) cost(n int) int {
	if p.star {
		return 1
	}
	return p.glob.Cost(n)
}

// appendRule appends the pattern as a rule: ~text for both, %R~text or %W~text for one.
func (p *keyPattern) appendRule(b []byte) []byte {
	switch p.access {
	case spec.Reads:
		b = append(b, "%R"...)
	case spec.Changes:
		b = append(b, "%W"...)
	}
	return append(append(b, '~'), p.text...)
}

// Words splits a line of rules into its words. The spaces of Unicode are part of a word: a key may have them.
func Words(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(spaces, r) })
}

const spaces = " \t\n\v\f\r"

// hasSpace reports whether a text has a space or a NUL byte, which would end it in a line of rules.
func hasSpace(text string) bool { return strings.ContainsAny(text, spaces+"\x00") }
