package rules

import (
	"maps"
	"net/netip"
	"slices"
)

// index finds, among many sets of conditions, the few that may hold for the fields of a check,
// without trying each. Each set is filed under one of its conditions: under the literal that its
// values begin or end with, in a tree of the field, or under the presence of the field. The
// condition is the one that the fewest other sets are filed under. The caller checks all
// conditions of the sets that are found.
type index struct {
	always []int32 // sets without a condition
	fields []filed // sorted by field
}

// filed is the sets that are filed under one field.
type filed struct {
	field             int32
	present           []int32
	forward, backward *node
	networks          *netIndex
}

// netIndex is the sets that are filed under networks.
type netIndex struct {
	networks
	sets [][]int32 // of each network

	filing map[netip.Prefix][]int32 // until all are filed
}

// node is a node of a radix tree. Backward trees have the bytes of the values in reverse.
type node struct {
	part     string  // the bytes that lead here from the parent
	exact    []int32 // sets of the value that ends here
	begins   []int32 // sets of the values that begin so
	children []*node // sorted by their first bytes, which differ
}

// place is where a set of conditions is filed.
type place struct {
	field int32
	kind  placeKind
	text  string
	nets  *networks // of atNetworks
}

// alike returns what is counted: how many sets could be filed at such a place.
func (p place) alike() place {
	p.nets = nil
	return p
}

type placeKind uint8

const (
	atPresence placeKind = iota
	atExact
	atBeginning
	atEnd
	atNetworks
)

// place returns where a condition can be filed.
func (c *condition) place() place {
	if c.nets != nil {
		return place{c.field, atNetworks, c.nets.all[0].String(), c.nets}
	}
	if value, ok := c.pattern.exact(); ok {
		return place{field: c.field, kind: atExact, text: value}
	}
	first, last := c.pattern.first(), c.pattern.last()
	switch {
	case first == "" && last == "":
		return place{field: c.field, kind: atPresence}
	case len(first) >= len(last):
		return place{field: c.field, kind: atBeginning, text: first}
	}
	return place{field: c.field, kind: atEnd, text: last}
}

// makeIndex files n sets of conditions, and of fields that must be there.
func makeIndex(n int, conditions func(i int) ([]condition, []int32)) index {
	var x index
	all, count := make([][]place, n), map[place]int{}
	for i := range n {
		cs, needs := conditions(i)
		for j := range cs {
			all[i] = append(all[i], cs[j].place())
		}
		for _, f := range needs {
			all[i] = append(all[i], place{field: f, kind: atPresence})
		}
		for _, p := range all[i] {
			count[p.alike()]++
		}
	}
	for i, places := range all {
		if len(places) == 0 {
			x.always = append(x.always, int32(i))
			continue
		}
		x.file(int32(i), slices.MinFunc(places, func(a, b place) int {
			if a.kind == atPresence != (b.kind == atPresence) { // almost every check has the field
				if a.kind == atPresence {
					return 1
				}
				return -1
			}
			if n, m := count[a.alike()], count[b.alike()]; n != m {
				return n - m
			}
			return len(b.text) - len(a.text)
		}))
	}
	for i := range x.fields {
		if n := x.fields[i].networks; n != nil {
			n.ready()
		}
	}
	return x
}

func (x *index) file(id int32, p place) {
	at, found := slices.BinarySearchFunc(x.fields, p.field, func(f filed, field int32) int { return int(f.field - field) })
	if !found {
		x.fields = slices.Insert(x.fields, at, filed{field: p.field})
	}
	f := &x.fields[at]
	switch p.kind {
	case atPresence:
		f.present = append(f.present, id)
	case atExact:
		n := insert(&f.forward, p.text)
		n.exact = append(n.exact, id)
	case atBeginning:
		n := insert(&f.forward, p.text)
		n.begins = append(n.begins, id)
	case atEnd:
		n := insert(&f.backward, reversed(p.text))
		n.begins = append(n.begins, id)
	case atNetworks:
		if f.networks == nil {
			f.networks = &netIndex{filing: map[netip.Prefix][]int32{}}
		}
		for _, net := range p.nets.all {
			f.networks.filing[net] = append(f.networks.filing[net], id)
		}
	}
}

// ready is called once all sets are filed.
func (n *netIndex) ready() {
	n.networks = makeNetworks(slices.Collect(maps.Keys(n.filing)))
	for _, net := range n.all {
		n.sets = append(n.sets, n.filing[net])
	}
	n.filing = nil
}

// insert returns the node of a text, which it makes if need be.
func insert(root **node, text string) *node {
	if *root == nil {
		*root = &node{}
	}
	n := *root
	for text != "" {
		i, found := n.child(text[0])
		if !found {
			next := &node{part: text}
			n.children = slices.Insert(n.children, i, next)
			return next
		}
		next := n.children[i]
		same := common(next.part, text)
		if same < len(next.part) { // a node in between
			next.part, n.children[i] = next.part[same:], &node{part: next.part[:same], children: []*node{next}}
			next = n.children[i]
		}
		n, text = next, text[same:]
	}
	return n
}

// child finds the child whose part begins with a byte.
func (n *node) child(first byte) (i int, found bool) {
	low, high := 0, len(n.children)
	for low < high {
		mid := (low + high) / 2
		switch c := n.children[mid].part[0]; {
		case c == first:
			return mid, true
		case c < first:
			low = mid + 1
		default:
			high = mid
		}
	}
	return low, false
}

// common returns the length of the longest common prefix of two texts.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// find appends to found the sets whose filed condition holds. They are in no order.
func (x *index) find(q *Query, found []int32) []int32 {
	found = append(found, x.always...)
	for _, field := range q.given {
		f := x.of(field)
		if f == nil {
			continue
		}
		v := q.values[field]
		found = append(found, f.present...)
		found = f.forward.find(v, false, found)
		found = f.backward.find(v, true, found)
		if f.networks != nil {
			found = f.networks.find(q, field, found)
		}
	}
	return found
}

// find appends the sets of the networks that the address in a field is in. Those of one set do not lie in one another, so
// it is found once.
func (n *netIndex) find(q *Query, field int32, found []int32) []int32 {
	a, ok := q.address(field)
	if !ok {
		return found
	}
	for at := n.networks.find(a); at >= 0; at = n.within[at] {
		found = append(found, n.sets[at]...)
	}
	return found
}

// of returns what is filed under a field, or nil.
func (x *index) of(field int32) *filed {
	low, high := 0, len(x.fields)
	for low < high {
		if mid := (low + high) / 2; x.fields[mid].field < field {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(x.fields) && x.fields[low].field == field {
		return &x.fields[low]
	}
	return nil
}

// find appends the sets of a value, which a backward tree reads from its end.
func (n *node) find(v []byte, backward bool, found []int32) []int32 {
	for n != nil {
		found = append(found, n.begins...)
		if len(v) == 0 {
			return append(found, n.exact...)
		}
		at := 0
		if backward {
			at = len(v) - 1
		}
		i, ok := n.child(v[at])
		if !ok {
			return found
		}
		n = n.children[i]
		if v, ok = cut(v, n.part, backward); !ok {
			return found
		}
	}
	return found
}

// cut removes part from the beginning of v, or in reverse from its end.
func cut(v []byte, part string, backward bool) (rest []byte, ok bool) {
	if len(v) < len(part) {
		return nil, false
	}
	if !backward {
		return v[len(part):], string(v[:len(part)]) == part
	}
	for i := range part {
		if v[len(v)-1-i] != part[i] {
			return nil, false
		}
	}
	return v[:len(v)-len(part)], true
}

// shadows reports whether a rule matches every check that another matches.
func (r *Rule) shadows(other *Rule) bool {
	return covers(r.conditions, other.conditions, r.fields, other.fields) &&
		(len(r.except) == 0 || len(other.except) > 0 && covers(other.except, r.except, nil, nil))
}

// disjoint returns the first condition of a that no check meets that meets b, and the condition of b that it contradicts, or -1.
func disjoint(a, b []condition) (i, j int) {
	for i := range a {
		for j := range b {
			if a[i].name == b[j].name && a[i].excludes(&b[j]) {
				return i, j
			}
		}
	}
	return -1, -1
}

// covers reports whether a holds for every check for which b holds: each condition and each
// needed field of a follows from one of b.
func covers(a, b []condition, needsA, needsB []string) bool {
	for i := range a {
		if !slices.ContainsFunc(b, func(c condition) bool { return c.name == a[i].name && a[i].covers(&c) }) &&
			!(a[i].any() && slices.Contains(needsB, a[i].name)) {
			return false
		}
	}
	for _, f := range needsA {
		if !slices.Contains(needsB, f) && !slices.ContainsFunc(b, func(c condition) bool { return c.name == f }) {
			return false
		}
	}
	return true
}
