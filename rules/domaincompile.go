package rules

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"limitdb/limit"
)

// maxNodes is the most descriptors of a file, and of a directory of files.
const maxNodes = 100_000

// domain makes a domain of what a file says.
func (c *compiler) domain(name string, doc *domainDoc) *Domain {
	d := &Domain{name: name, allOrNone: doc.allOrNone, stem: domainStem(name), fixed: familyOf(limit.FIXED)}
	t := treeCompiler{compiler: c, domain: d, names: map[string]int32{}, sum: sha256.New()}
	t.name(doc.descriptors)
	fmt.Fprintln(t.sum, doc.allOrNone)
	t.children(&d.root, doc.descriptors, 1)
	d.sum = [sha256.Size]byte(t.sum.Sum(nil))
	return d
}

// treeCompiler makes one tree.
type treeCompiler struct {
	*compiler
	domain *Domain
	names  map[string]int32 // of limits that others replace
	sum    hash.Hash
}

// name numbers the names that limits replace.
func (t *treeCompiler) name(list []*descriptorDoc) {
	for _, doc := range list {
		if doc.rate != nil {
			for _, name := range doc.rate.replaces {
				if _, ok := t.names[name.text]; !ok {
					t.names[name.text] = int32(len(t.names))
					t.domain.names = append(t.domain.names, name.text)
				}
			}
		}
		t.name(doc.children)
	}
}

// children makes the descriptors of a list, at a depth.
func (t *treeCompiler) children(parent *branch, list []*descriptorDoc, depth int) {
	if len(list) == 0 {
		return
	}
	parent.children = make(map[string]*branch, len(list))
	all := make([]*branch, len(list))
	for i, doc := range list {
		if t.nodes++; t.nodes > maxNodes {
			t.fail(doc.at, "there are more than %d descriptors", maxNodes)
			panic(errGiveUp)
		}
		n := t.branch(doc)
		n.parent = parent
		t.domain.depth = max(t.domain.depth, depth)
		parent.longest = max(parent.longest, len(n.word))
		parent.children[n.word], all[i] = n, n
		io.WriteString(t.sum, "[")
		t.children(n, doc.children, depth+1)
		io.WriteString(t.sum, "]")
	}
	parent.wild = makeWildcards(all)
}

// branch makes a descriptor, without its children.
func (t *treeCompiler) branch(doc *descriptorDoc) *branch {
	n := &branch{
		word: doc.word(), nameID: -1, shadow: doc.shadow, quota: doc.quota, share: doc.share,
		detailed: doc.detailed, valueToMetric: doc.valueToMetric,
	}
	fmt.Fprintf(t.sum, "%q %v %v %v %v %v\n", n.word, n.shadow, n.quota, n.share, n.detailed, n.valueToMetric)
	if doc.rate != nil {
		t.rate(n, doc.rate)
		fmt.Fprintf(t.sum, "%v %s %v %q", n.unlimited, n.limit.String(), n.rate, n.name)
		for _, name := range n.replaces {
			fmt.Fprintf(t.sum, " %q", t.domain.names[name])
		}
		fmt.Fprintln(t.sum)
	}
	return n
}

// rate gives a node the limit that a file says.
func (t *treeCompiler) rate(n *branch, doc *rateDoc) {
	n.index = len(t.domain.limits)
	t.domain.limits = append(t.domain.limits, n)
	n.limited, n.unlimited, n.name = true, doc.unlimited, doc.name
	if id, ok := t.names[doc.name]; ok {
		n.nameID = id
	}
	for _, name := range doc.replaces {
		n.replaces = append(n.replaces, t.names[name.text])
	}
	unit, _ := ParseUnit(doc.unit.text)
	n.rate = Rate{uint32(doc.count), unit}
	switch {
	case doc.unlimited || !unit.known():
	case doc.algorithm.given():
		t.algorithm(n, doc)
	default:
		n.limit, n.windows = n.rate.limit(!t.domain.allOrNone), true
	}
	if !n.unlimited {
		n.family = familyOf(n.limit.Algorithm)
	}
}

// algorithm gives a branch a limit with an algorithm and options of ours.
func (t *treeCompiler) algorithm(n *branch, doc *rateDoc) {
	u, text := units[n.rate.Unit], doc.algorithm.text
	s := spell(text)
	if _, known := limit.Lookup([]byte(s.algorithm)); !known {
		t.fail(doc.algorithm.at, "algorithm must begin with an algorithm, as in gcra burst 20, not %s", quote(text))
		return
	}
	if s.rate != nil {
		t.fail(doc.algorithm.at, "algorithm must be without a rate, which unit and requests_per_unit have, not %s", quote(text))
		return
	}
	s.rate = []string{fmt.Sprintf("%d/%d%s", n.rate.PerUnit, u.number, u.rate)}
	if s.has("calendar") && strings.EqualFold(s.algorithm, limit.FIXED.String()) {
		if !strings.EqualFold(s.calendar(), u.name) {
			t.fail(doc.algorithm.at, "algorithm must have calendar %s, as the unit is %[1]s, not %s", strings.ToLower(u.name), quote(text))
			return
		}
		s.rate = []string{strconv.FormatUint(uint64(n.rate.PerUnit), 10)}
	}
	made, err := s.terms(beside{}, t.zones)
	if err != nil {
		t.fail(doc.algorithm.at, "%v", err)
	}
	n.limit = made.limit
}
