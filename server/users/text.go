package users

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"limitdb/server/spec"
)

// The texts of errors in a rule, in Redis' words where it has some.
const (
	errSyntax        = "Syntax error"
	errUnknown       = "Unknown command or category name in ACL"
	errFirstArg      = "limitdb has no rules about first arguments: allow the whole command"
	errAfterAllKeys  = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
	errAfterAllChans = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
	errNoPassword    = "The password you are trying to remove from the user does not exist"
	errHash          = "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
	errSelectors     = "limitdb has no selectors: make a second user for the other rights"
	errMost          = "a user may have 64 passwords, and 256 patterns with 8192 bytes together, each of up to 1024"
)

const (
	mostPasswords    = 64
	mostPatterns     = 256
	mostPatternBytes = 8192
	// MaxName is the most bytes of a user's name.
	MaxName = 256
)

// A RuleError says which rule of several is wrong, and why. It shows no password.
type RuleError struct{ Rule, Problem string }

// Error returns the text of the error, in Redis' words.
func (e *RuleError) Error() string {
	return "Error in ACL SETUSER modifier '" + e.Rule + "': " + e.Problem
}

// With returns the rights after rules, as ACL SETUSER has them, in their order. The error is a *RuleError.
func (r *Rights) With(rules []string, known Catalog) (*Rights, error) {
	n := r.clone()
	for _, rule := range rules {
		if problem := n.apply(rule, known); problem != "" {
			return nil, &RuleError{shown(rule), problem}
		}
	}
	n.derive(known.Commands())
	return n, nil
}

// shown returns a rule without its password.
func shown(rule string) string {
	if rule != "" && strings.ContainsRune("><#!", rune(rule[0])) {
		return rule[:1] + "(redacted)"
	}
	if len(rule) > 128 {
		return rule[:128] + "..."
	}
	return rule
}

// apply changes the rights by one rule. It returns the error, or "".
func (r *Rights) apply(rule string, known Catalog) (problem string) {
	switch strings.ToLower(rule) {
	case "on", "off":
		r.on = strings.EqualFold(rule, "on")
	case "nopass":
		r.open, r.passwords = true, nil
	case "resetpass":
		r.open, r.passwords = false, nil
	case "allkeys":
		r.keys = []keyPattern{every(spec.Reads | spec.Changes)}
	case "resetkeys":
		r.keys = nil
	case "allchannels":
		r.channels = []channelPattern{{text: "*", star: true}}
	case "resetchannels":
		r.channels = nil
	case "allcommands":
		return r.commands.apply("@all", true, known)
	case "nocommands":
		return r.commands.apply("@all", false, known)
	case "sanitize-payload", "skip-sanitize-payload", "clearselectors": // there are no payloads and no selectors
	case "reset":
		*r = *Reset(r.Name, r.Serial)
	case "":
		return errSyntax
	default:
		return r.applySigned(rule, known)
	}
	return ""
}

// applySigned is apply for a rule that begins with a sign.
func (r *Rights) applySigned(rule string, known Catalog) (problem string) {
	switch sign, rest := rule[0], rule[1:]; sign {
	case '+', '-':
		return r.commands.apply(rest, sign == '+', known)
	case '>':
		return r.addPassword(sha256.Sum256([]byte(rest)))
	case '#':
		hash, ok := parseHash(rest)
		if !ok {
			return errHash
		}
		return r.addPassword(hash)
	case '<':
		return r.removePassword(sha256.Sum256([]byte(rest)))
	case '!':
		hash, ok := parseHash(rest)
		if !ok {
			return errHash
		}
		return r.removePassword(hash)
	case '~':
		return r.addKeys(rest, spec.Reads|spec.Changes)
	case '%':
		return r.addSome(rest)
	case '&':
		return r.addChannel(rest)
	case '(':
		return errSelectors
	}
	return errSyntax
}

// parseHash reads a hash in lower-case hexadecimal digits.
func parseHash(text string) (h Hash, ok bool) {
	if len(text) != 2*len(h) || strings.ToLower(text) != text {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(text))
	return h, err == nil
}

func (r *Rights) addPassword(h Hash) (problem string) {
	r.open = false
	switch {
	case slices.Contains(r.passwords, h):
		return ""
	case len(r.passwords) == mostPasswords:
		return errMost
	}
	r.passwords = append(r.passwords, h)
	return ""
}

func (r *Rights) removePassword(h Hash) (problem string) {
	i := slices.Index(r.passwords, h)
	if i < 0 {
		return errNoPassword
	}
	r.passwords = slices.Delete(r.passwords, i, i+1)
	return ""
}

// addSome adds a pattern with its permissions, as in R~text.
func (r *Rights) addSome(rest string) (problem string) {
	letters, pattern, ok := strings.Cut(rest, "~")
	var how spec.Access
	for _, c := range strings.ToUpper(letters) {
		switch {
		case c == 'R' && how&spec.Reads == 0:
			how |= spec.Reads
		case c == 'W' && how&spec.Changes == 0:
			how |= spec.Changes
		default:
			return errSyntax
		}
	}
	if !ok || how == 0 {
		return errSyntax
	}
	return r.addKeys(pattern, how)
}

func (r *Rights) addKeys(pattern string, how spec.Access) (problem string) {
	if hasSpace(pattern) {
		return errSyntax
	}
	i := slices.IndexFunc(r.keys, func(p keyPattern) bool { return p.text == pattern })
	whole := len(r.keys) == 1 && r.keys[0].text == "*" && r.keys[0].access == spec.Reads|spec.Changes
	switch {
	case pattern == "*" && how == spec.Reads|spec.Changes:
		r.keys = []keyPattern{every(how)}
		return ""
	case whole:
		return errAfterAllKeys
	case i >= 0:
		if r.keys[i].access |= how; pattern == "*" && r.keys[i].access == spec.Reads|spec.Changes {
			r.keys = []keyPattern{every(spec.Reads | spec.Changes)}
		}
		return ""
	}
	p, ok := newPattern(pattern)
	if r.keys = append(r.keys, keyPattern{p, how}); !ok || !r.few() {
		return errMost
	}
	return ""
}

func (r *Rights) addChannel(pattern string) (problem string) {
	known := slices.ContainsFunc(r.channels, func(p channelPattern) bool { return p.text == pattern })
	switch {
	case hasSpace(pattern):
		return errSyntax
	case pattern == "*":
		r.channels = []channelPattern{{text: "*", star: true}}
		return ""
	case len(r.channels) == 1 && r.channels[0].text == "*":
		return errAfterAllChans
	case known:
		return ""
	}
	p, ok := newPattern(pattern)
	if r.channels = append(r.channels, p); !ok || !r.few() {
		return errMost
	}
	return ""
}

// few reports whether the patterns are few and short enough.
func (r *Rights) few() bool {
	bytes := 0
	for i := range r.keys {
		bytes += len(r.keys[i].text)
	}
	for i := range r.channels {
		bytes += len(r.channels[i].text)
	}
	return len(r.keys)+len(r.channels) <= mostPatterns && bytes <= mostPatternBytes
}

// Flags returns the words that ACL GETUSER shows first.
func (r *Rights) Flags() []string {
	flags := []string{"off"}
	if r.on {
		flags[0] = "on"
	}
	if r.open {
		flags = append(flags, "nopass")
	}
	return flags
}

// Passwords returns the hashes of the passwords, as text.
func (r *Rights) Passwords() []string {
	all := make([]string, len(r.passwords))
	for i := range r.passwords {
		all[i] = hex.EncodeToString(r.passwords[i][:])
	}
	return all
}

// Commands returns the rules about commands, as text.
func (r *Rights) Commands() string { return r.commands.text() }

// Keys returns the patterns of keys, as text.
func (r *Rights) Keys() string {
	var b []byte
	for i := range r.keys {
		if i > 0 {
			b = append(b, ' ')
		}
		b = r.keys[i].appendRule(b)
	}
	return string(b)
}

// Channels returns the patterns of channels, as text.
func (r *Rights) Channels() string {
	all := make([]string, len(r.channels))
	for i := range r.channels {
		all[i] = "&" + r.channels[i].text
	}
	return strings.Join(all, " ")
}

// Line returns the rules that make the rights, with the name before them, as a line of an ACL file has them after the word user.
// passwords are shown in place of the hashes.
func (r *Rights) Line(flags, passwords []string) string {
	words := append([]string{r.Name}, flags...)
	for _, p := range passwords {
		words = append(words, "#"+p)
	}
	if len(r.keys) > 0 {
		words = append(words, r.Keys())
	}
	if !r.allChannels {
		words = append(words, "resetchannels")
	}
	if len(r.channels) > 0 {
		words = append(words, r.Channels())
	}
	return strings.Join(append(words, r.Commands()), " ")
}

// Text returns the line with the true hashes.
func (r *Rights) Text() string { return r.Line(r.Flags(), r.Passwords()) }

// NameProblem returns what is wrong with the name of a user, or "".
func NameProblem(name string) string {
	switch {
	case hasSpace(name):
		return "Usernames can't contain spaces or null characters"
	case name == "" || len(name) > MaxName:
		return "the name of a user has from 1 to 256 bytes"
	}
	return ""
}
