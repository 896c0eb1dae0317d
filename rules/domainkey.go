package rules

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"unsafe"
)

// The key of a caller of a domain:
//
//	┌────────┬────────┬───┬──────┬───┬───┬────────┬───┬────────────┬───┬───────┬─
//	│ \x00rl │ family │ < │ unit │ > │ : │ domain │ : │ key, key … │ : │ value │ …
//	└────────┴────────┴───┴──────┴───┴───┴────────┴───┴────────────┴───┴───────┴─
//
// It has what the descriptor says and not the branch that limits it, as that of Envoy's rate limit service: a caller keeps what
// was used when the tree changes. Limits with another unit count apart. No tag of a rule's keys has an angle bracket.
//
// In all parts % : # { and } are written as in other keys, and in a key the comma is %2C. If a domain's name is long, most of it is
// replaced by # and a hash, and so are keys and values that would make the key longer than MaxKey.

// maxStem is the most bytes of a domain in a key.
const maxStem = 128

// domainStem returns what keys have for a domain.
func domainStem(name string) string { return string(AppendNamespace(nil, asBytes(name))) }

// AppendNamespace appends what the keys of callers have for a namespace or a domain: its name, unless that has bytes which keys write in
// another way, or is long.
func AppendNamespace(b, name []byte) []byte {
	start := len(b)
	b = appendEscaped(b, name)
	if len(b)-start <= maxStem {
		return b
	}
	sum := sha256.Sum256(name)
	hash := base64.RawURLEncoding.EncodeToString(sum[:hashBits/8])
	b = b[:start+maxStem-len(hash)-1]
	for i := len(b) - 2; i < len(b); i++ { // no half of an escape
		if b[i] == '%' {
			b = b[:i]
		}
	}
	return append(append(b, '#'), hash...)
}

// appendKey appends the key of the caller that a descriptor describes, some of whose values l.shared replaces.
func (l *Lookup) appendKey(b []byte, unit Unit, family byte, entries []Entry) []byte {
	start := len(b)
	b = append(b, Prefix...)
	b = append(b, family, '<', units[unit].letter, '>', ':')
	b = append(b, l.domain.stem...)
	b = append(b, ':')
	rest := len(b)
	size := rest - start
	for i := range entries {
		size += len(entries[i].Key) + 1 + len(l.value(entries, i))
	}
	if size <= MaxKey {
		for i := range entries {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendEscapedKey(b, asBytes(entries[i].Key))
		}
		for i := range entries {
			b = append(b, ':')
			b = appendEscaped(b, asBytes(l.value(entries, i)))
		}
		if len(b)-start <= MaxKey {
			return b
		}
	}
	b = append(b[:rest], '#')
	return l.appendHash(b, entries)
}

// appendHash appends a hash of a descriptor.
func (l *Lookup) appendHash(b []byte, entries []Entry) []byte {
	h := sha256.New()
	h.Write(l.Secret)
	var n [8]byte
	write := func(text string) {
		h.Write(binary.LittleEndian.AppendUint64(n[:0], uint64(len(text))))
		h.Write(asBytes(text))
	}
	write(l.domain.name)
	for i := range entries {
		write(entries[i].Key)
		write(l.value(entries, i))
	}
	var sum [sha256.Size]byte
	return base64.RawURLEncoding.AppendEncode(b, h.Sum(sum[:0])[:hashBits/8])
}

// value returns the value of an entry, or what stands for it.
func (l *Lookup) value(entries []Entry, i int) string {
	if i < len(l.shared) && l.shared[i] != "" {
		return l.shared[i]
	}
	return entries[i].Value
}

// appendEscapedKey is appendEscaped with the comma escaped as well.
func appendEscapedKey(b, v []byte) []byte {
	start := len(b)
	b = appendEscaped(b, v)
	for i := start; i < len(b); i++ {
		if b[i] == ',' {
			b = append(b, 0, 0)
			copy(b[i+3:], b[i+1:])
			b[i], b[i+1], b[i+2] = '%', '2', 'C'
		}
	}
	return b
}

// ofDomain reports whether the key of a caller is that of a domain.
func ofDomain(key []byte) bool { return key[familyAt+1] == '<' }

// asText returns bytes as a string, while they do not change.
func asText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
