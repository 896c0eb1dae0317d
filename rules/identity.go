package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"unsafe"

	"limitdb/limit"
)

// The key of a caller:
//
//	┌────────┬────────┬─────┬───┬───────────┬───┬──────┬───┬───────┬─
//	│ \x00rl │ family │ tag │ : │ namespace │ : │ rule │ : │ value │ …
//	└────────┴────────┴─────┴───┴───────────┴───┴──────┴───┴───────┴─
//	    3        1       3    1
//
// There is a value for each field of the rule's key, in the order of the rule. In a value, % : # { and }
// are written %25, %3A, %23, %7B and %7D, so two callers never share a key. The value of the field that shard_by
// names is a hash tag, see shard.go; no other key has one.
//
// The family is a letter for the algorithm's family, since the states of one family mean nothing
// to another; in upper case it is a candidate's. The tag is a hash of what the values are: if a
// rule is changed so that other fields or networks identify a caller, no caller inherits what
// somebody else has used. A limit is in neither, so what was used stays used when it changes.
//
// Values that would make the key longer than MaxKey are replaced by # and a hash of 128 bits, with
// a secret, so that nobody can make two callers meet.

const (
	// Prefix is what the keys of all callers begin with.
	Prefix = "\x00rl"
	// MaxKey is the most bytes of a caller's key. A stem has at most 137.
	MaxKey = 256

	familyAt = len(Prefix)
	tagBytes = 3
	nameAt   = familyAt + 1 + tagBytes + 1
	hashBits = 128
)

// familyOf returns the letter of an algorithm's family.
func familyOf(a limit.Algorithm) byte {
	for _, first := range limit.Algorithms() {
		if limit.SameFamily(first.Kind(), a.Kind()) {
			return 'a' + byte(first)
		}
	}
	return '?'
}

// makeStem returns what the keys of a rule's callers begin with. Its family is still to be filled in.
func (r *Rule) makeStem() string {
	h := sha256.New()
	for i, name := range r.fields {
		h.Write([]byte(name))
		h.Write([]byte{0})
		if i == r.address {
			h.Write([]byte{byte(r.v4), byte(r.v6), 0})
		}
	}
	tag := base64.RawURLEncoding.EncodeToString(h.Sum(nil))[:tagBytes]
	return Prefix + "?" + tag + ":" + r.Namespace + ":" + r.Name
}

// appendKey appends the key of the caller that q describes.
func (r *Rule) appendKey(b []byte, q *Query, family byte) []byte {
	start := len(b)
	b = append(b, r.stem...)
	b[start+familyAt] = family
	values := len(b)
	for i, field := range r.key {
		b = append(b, ':')
		switch from := len(b); {
		case i == r.shard:
			b = append(b, q.Tag()...)
		case i == r.address:
			b = appendNetwork(b, q.values[field], r.v4, r.v6)
		case q.escaped != nil && q.escapedOf == field:
			b = append(b, q.escaped...)
		default:
			b = appendEscaped(b, q.values[field])
			q.escaped, q.escapedOf = b[from:], field
		}
	}
	if len(b)-start <= MaxKey {
		return b
	}
	h := sha256.New()
	h.Write(q.Secret)
	h.Write(b[start:values])
	h.Write(b[values:])
	b, q.escaped = b[:values], nil // which was in b
	if r.shard >= 0 {
		b = append(append(b, ':'), q.Tag()...)
	}
	b = append(b, ":#"...)
	var sum [sha256.Size]byte
	return base64.RawURLEncoding.AppendEncode(b, h.Sum(sum[:0])[:hashBits/8])
}

// escapes has a bit for each byte that is escaped, from '#' on, but for the braces.
const escapes = 1<<('%'-'#') | 1<<(':'-'#') | 1

const hexDigits = "0123456789ABCDEF"

// appendEscaped appends a value as keys have it.
func appendEscaped(b, v []byte) []byte {
	from := 0
	for i, c := range v {
		if d := c - '#'; (d > ':'-'#' || escapes>>d&1 == 0) && c != '{' && c != '}' {
			continue
		}
		b = append(b, v[from:i]...)
		b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		from = i + 1
	}
	return append(b, v[from:]...)
}

// appendNetwork appends the network of an address: its first v4 or v6 bits. An IPv4 address in the
// form of IPv6 (::ffff:192.0.2.1) is an IPv4 address. A zone (%eth0) is left out. What is no
// address is appended as it is.
func appendNetwork(b, v []byte, v4, v6 int) []byte {
	a, ok := parseAddress(v)
	if !ok {
		return appendEscaped(b, v)
	}
	bits := v6
	if a.Is4() {
		bits = v4
	}
	net, err := a.Prefix(bits)
	if err != nil {
		return appendEscaped(b, v)
	}
	var buf [64]byte
	if bits == a.BitLen() {
		return appendEscaped(b, a.AppendTo(buf[:0]))
	}
	return appendEscaped(b, net.AppendTo(buf[:0]))
}

// asBytes returns the bytes of a string, which must not be changed.
func asBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Caller describes a caller, as read from its key.
type Caller struct {
	// Namespace and Rule say whose. In a namespace with a tree of descriptors, the keys of the entries, with commas between
	// them, stand for a rule.
	Namespace, Rule string
	// Values are the values of the fields of the rule's key, or of the entries.
	Values []string
	// Hashed reports whether the values are too long, and Values has a hash in place of one or of all. In front of one of all, it has
	// that of the field that shard_by names.
	Hashed bool
	// Candidate reports whether the state is that of the rule's candidate.
	Candidate bool
}

// ParseKey reads the key of a caller. It returns false for any other key.
func ParseKey(key []byte) (Caller, bool) {
	if len(key) < nameAt || string(key[:len(Prefix)]) != Prefix || key[nameAt-1] != ':' {
		return Caller{}, false
	}
	parts := strings.Split(string(key[nameAt:]), ":")
	if len(parts) < 2 {
		return Caller{}, false
	}
	unescape := strings.NewReplacer("%25", "%", "%3A", ":", "%23", "#", "%2C", ",", "%7B", "{", "%7D", "}")
	c := Caller{Namespace: parts[0], Rule: parts[1], Values: parts[2:], Candidate: key[familyAt] <= 'Z'}
	if ofDomain(key) {
		if c.Namespace = unescape.Replace(c.Namespace); strings.HasPrefix(c.Rule, "#") {
			c.Rule, c.Values = "", parts[1:]
		}
		c.Rule = unescape.Replace(c.Rule)
	}
	for i, v := range c.Values {
		if tag, ok := strings.CutPrefix(v, "{"); ok {
			if v = strings.TrimSuffix(tag, "}"); v == emptyTag {
				v = ""
			}
		}
		c.Hashed = c.Hashed || strings.HasPrefix(v, "#")
		c.Values[i] = unescape.Replace(v)
	}
	return c, true
}

// KeyText returns any key for people: that of a caller becomes the rule and the values. Texts that cannot be printed are
// quoted.
func KeyText(key string) string {
	c, ok := ParseKey([]byte(key))
	if !ok {
		return printable(key)
	}
	text := printable(c.Namespace) + "/" + printable(c.Rule)
	for _, v := range c.Values {
		text += " " + printable(v)
	}
	if c.Candidate {
		text += " (candidate)"
	}
	return text
}

// printable returns a text as it is if all of it can be printed, and otherwise quoted.
func printable(text string) string {
	if q := strconv.Quote(text); q[1:len(q)-1] != text {
		return q
	}
	return text
}

// IsOf reports whether a key, or its first bytes with the names, is that of a caller of a rule.
func IsOf(key []byte, namespace, rule string) bool {
	if !IsKey(key) || len(key) < nameAt {
		return false
	}
	own, ok := bytes.CutPrefix(key[nameAt:], []byte(namespace+":"+rule))
	return ok && (len(own) == 0 || own[0] == ':')
}

// IsKey reports whether a key is that of a caller.
func IsKey(key []byte) bool { return len(key) >= len(Prefix) && string(key[:len(Prefix)]) == Prefix }

// CallerName returns the part of a caller's key that says whose it is: NAMESPACE:RULE:VALUES. It returns false for a key that only begins like one.
func CallerName(key []byte) ([]byte, bool) {
	if len(key) < nameAt || !IsKey(key) || key[nameAt-1] != ':' {
		return nil, false
	}
	return key[nameAt:], true
}
