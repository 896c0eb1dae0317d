package rules

import (
	"crypto/sha256"
	"slices"
	"strings"

	"limitdb/limit"
)

// Domain is a namespace with a tree of descriptors, which has the meaning that Envoy's rate limit service gives it. A
// step down the tree looks for the entry as key_value, then for the first wildcard that fits, and then for the key alone. It
// never goes back up. Only the branch of the last entry limits a descriptor.
type Domain struct {
	name      string
	allOrNone bool
	stem      string // what the keys of the callers have for the domain
	fixed     byte   // the family of FIXED, as keys have it
	root      branch
	depth     int       // of the deepest branch
	limits    []*branch // those that have a limit, in the order of the file
	names     []string  // of limits that others replace
	sum       [sha256.Size]byte
}

// Name returns the domain's name.
func (d *Domain) Name() string { return d.name }

// AllOrNone reports whether a request takes from all limits that its descriptors have, or from none.
func (d *Domain) AllOrNone() bool { return d.allOrNone }

// Limits returns how many descriptors of the tree have a limit.
func (d *Domain) Limits() int { return len(d.limits) }

// LimitName returns the name of the limit with an index: the keys, and the values that it is for, with dots between them.
func (d *Domain) LimitName(index int) string {
	var words []string
	for n := d.limits[index]; n.parent != nil; n = n.parent {
		words = append(words, n.word)
	}
	slices.Reverse(words)
	return strings.Join(words, ".")
}

// LimitMode returns the mode of the limit with an index: enforce, shadow or quota.
func (d *Domain) LimitMode(index int) string {
	switch n := d.limits[index]; {
	case n.shadow:
		return "shadow"
	case n.quota:
		return "quota"
	}
	return "enforce"
}

// branch is a descriptor of the tree.
type branch struct {
	word     string // the key, or key_value
	children map[string]*branch
	longest  int // the longest word of a child
	wild     wildcards

	limited   bool // there is a limit, or is unlimited
	index     int  // in Domain.limits
	unlimited bool
	limit     limit.Limit
	family    byte // of the algorithm, as keys have it
	windows   bool // of fixed windows of the rate's unit
	rate      Rate
	name      string
	nameID    int32   // of a name that others replace; -1: none
	replaces  []int32 // names

	shadow, quota, share    bool
	detailed, valueToMetric bool
	parent                  *branch
}

// step returns the child for an entry, or nil, and whether it was found as a wildcard.
func (l *Lookup) step(n *branch, e *Entry) (child *branch, wildcard bool) {
	l.word = appendWord(l.word[:0], e, n.longest+1) // no word is that long, so it may end there
	if child = n.children[string(l.word)]; child != nil {
		return child, false
	}
	if child = n.wild.find(asText(l.word)); child != nil {
		return child, true
	}
	return n.children[e.Key], false
}

// appendWord appends the first bytes of an entry as the tree has it.
func appendWord(b []byte, e *Entry, most int) []byte {
	b = append(b, e.Key[:min(len(e.Key), most)]...)
	if len(e.Key) < most {
		b = append(b, '_')
		b = append(b, e.Value[:min(len(e.Value), most-len(e.Key)-1)]...)
	}
	return b
}

// pattern returns what stands for the value of an entry that fits a wildcard.
func (n *branch) pattern(e *Entry) string {
	if rest, ok := strings.CutPrefix(n.word, e.Key); ok && strings.HasPrefix(rest, "_") {
		return rest[1:]
	}
	return n.word
}

// wildcards are the words with a star at their end, without it, in the order of bytes. One that an earlier one of the file hides
// is left out. So of several that fit, the longest comes first in the file.
type wildcards struct {
	prefixes []string
	nodes    []*branch
	shorter  []int32 // by index: that of the longest other prefix that it begins with; -1: none
}

// makeWildcards makes the wildcards of a list in the order of the file.
func makeWildcards(nodes []*branch) (w wildcards) {
	type wildcard struct {
		prefix string
		order  int
	}
	var all, kept []wildcard
	for i, n := range nodes {
		if prefix, ok := strings.CutSuffix(n.word, "*"); ok {
			all = append(all, wildcard{prefix, i})
		}
	}
	slices.SortFunc(all, func(a, b wildcard) int { return strings.Compare(a.prefix, b.prefix) })
	for _, one := range all {
		at := int32(len(kept)) - 1
		for at >= 0 && !strings.HasPrefix(one.prefix, kept[at].prefix) {
			at = w.shorter[at]
		}
		if at >= 0 && kept[at].order < one.order {
			continue // the earlier one fits whatever this one fits
		}
		kept = append(kept, one)
		w.prefixes, w.nodes, w.shorter = append(w.prefixes, one.prefix), append(w.nodes, nodes[one.order]), append(w.shorter, at)
	}
	return w
}

// find returns the first of the file that fits, or nil.
func (w *wildcards) find(word string) *branch {
	if len(w.prefixes) == 0 {
		return nil
	}
	// All that fit are among the last prefix up to the word, and those that it begins with.
	next, found := slices.BinarySearch(w.prefixes, word)
	at := int32(next) - 1
	if found {
		at++
	}
	if at < 0 {
		return nil
	}
	same := common(w.prefixes[at], word)
	for at >= 0 && len(w.prefixes[at]) > same {
		at = w.shorter[at]
	}
	if at < 0 {
		return nil
	}
	return w.nodes[at]
}
