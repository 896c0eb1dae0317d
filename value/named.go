package value

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// named is a collection whose elements have names, each a name of its own: the fields of a
// hash, and the members of a set or a sorted set. It is changed in two steps: Find, and Put.
// Both go through it once, for however many names.
type named struct {
	edit
	scores bool // a score stands before each name
	pairs  bool // a value stands behind it
	last   int  // where the last element begins, if Find has come so far; else 0

	words [][]byte // the names of the places: one every so many
	every int
	one   [1]Place // room for the place of one name
}

// fewNames is the most names that Find looks for one by one.
const fewNames = 4

// A Place is where a name is in a collection, until that changes, and what Put makes of it.
type Place struct {
	There bool
	Score float64 // of a member of a sorted set
	Value []byte  // of a field of a hash
	// Same is the index of the first place of this name, which is the one that Put reads.
	Same int32

	at, middle, end int32 // where the element, its value, and the next one begin; 0: nowhere
}

// name returns the name of place i.
func (c *named) name(i int32) []byte { return c.words[int(i)*c.every] }

// element returns the name of the element at an offset, and where its value and the next
// element begin.
func (c *named) element(at int) (name []byte, middle, end int) {
	if c.scores {
		at += scoreSize
	}
	name, middle = c.text(at)
	if end = middle; c.pairs {
		_, end = c.text(middle)
	}
	return name, middle, end
}

// scoreAt returns the score of the element at an offset.
func (c *named) scoreAt(at int) float64 {
	if at+scoreSize > len(c.b) {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(c.b[at:]))
}

// fill notes that a place is that of an element.
func (c *named) fill(p *Place, at, middle, end int) {
	p.There, p.at, p.middle, p.end = true, int32(at), int32(middle), int32(end)
	if c.scores {
		p.Score = c.scoreAt(at)
	}
	if c.pairs {
		p.Value, _ = c.text(middle)
	}
}

// find returns where a name is.
func (c *named) find(name []byte) (p Place) {
	last, at, score := 0, headSize, 0
	if c.scores {
		score = scoreSize
	}
	pairs := c.pairs
	for n := c.Len(); n > 0; n-- {
		last = at
		text, end := c.text(at + score)
		middle := end
		if pairs {
			_, end = c.text(middle)
		}
		if same(text, name) {
			c.fill(&p, last, middle, end)
			return p
		}
		at = end
	}
	c.last = last
	return p
}

// Find returns where names are: words begins with one, and every so many words another
// one follows.
func (c *named) Find(words [][]byte, every int) []Place {
	c.words, c.every, c.last = words, every, 0
	n := (len(words) + every - 1) / every
	if n == 1 {
		c.one[0] = c.find(words[0])
		return c.one[:]
	}
	all := make([]Place, n)
	if n > fewNames {
		c.findMany(all)
		return all
	}
	for i := range int32(n) {
		for all[i].Same < i && !same(c.name(all[i].Same), c.name(i)) {
			all[i].Same++
		}
		if all[i].Same == i {
			all[i] = c.find(c.name(i))
			all[i].Same = i
		}
	}
	return all
}

// findMany is Find for many names.
func (c *named) findMany(all []Place) {
	first := make(map[string]int32, len(all))
	for i := range int32(len(all)) {
		name := c.name(i)
		at, again := first[string(name)]
		if !again {
			at = i
			first[string(name)] = i
		}
		all[i].Same = at
	}
	at := headSize
	for n := c.Len(); n > 0; n-- {
		name, middle, end := c.element(at)
		if i, ok := first[string(name)]; ok {
			c.fill(&all[i], at, middle, end)
		}
		c.last, at = at, end
	}
}

// Remove removes names, and returns how many were there.
func (c *named) Remove(names ...[]byte) (removed int) {
	all := c.Find(names, 1)
	for i := range all {
		if p := &all[all[i].Same]; p.There {
			p.There = false
			removed++
		}
	}
	c.Put(all)
	return removed
}

// Put makes a collection have the names that are there, and not have the others, with their
// scores and values. The places are those that Find has returned last.
func (c *named) Put(all []Place) {
	var few [fewNames]Splice
	var added [fewNames]int32
	splices, in, n := few[:0], added[:0], c.Len()
	for i := range all {
		p := &all[i]
		was, at := p.at > 0, int(p.at)
		switch {
		case int(p.Same) != i:
		case was && !p.There:
			splices = append(splices, Splice{At: at, Del: int(p.end) - at})
			n--
		case p.There && !was:
			in = append(in, p.Same)
			n++
		case was && c.scores && p.Score != c.scoreAt(at):
			splices = append(splices, Splice{At: at, Del: int(p.end) - at})
			in = append(in, p.Same)
		case was && c.pairs:
			if old, _ := c.text(int(p.middle)); !bytes.Equal(old, p.Value) {
				splices = append(splices, Splice{At: int(p.middle), Del: int(p.end - p.middle), Ins: c.piece(appendText(c.room(), p.Value))})
			}
		}
	}
	if len(in) > 0 {
		splices = c.insert(splices, all, in)
	}
	if len(splices) > 1 {
		slices.SortStableFunc(splices, func(a, b Splice) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(min(a.Del, 1), min(b.Del, 1)))
		})
	}
	c.change(n, splices...)
}

// insert appends splices that insert elements, given by their places' indexes: in a sorted set
// where they belong, else at the end.
func (c *named) insert(splices []Splice, all []Place, in []int32) []Splice {
	at := len(c.b)
	if c.scores {
		if len(in) > 1 {
			slices.SortFunc(in, func(a, b int32) int {
				return cmp.Or(cmp.Compare(all[a].Score, all[b].Score), bytes.Compare(c.name(a), c.name(b)))
			})
		}
		if c.last == 0 || !c.isBefore(c.last, all[in[0]].Score, c.name(in[0])) { // a log grows at its end
			at = min(at, headSize)
		}
	}
	for _, i := range in {
		p, name := &all[i], c.name(i)
		for at < len(c.b) && c.isBefore(at, p.Score, name) {
			_, _, at = c.element(at)
		}
		b := c.room()
		if c.scores {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.Score+0)) // -0 + 0 is 0
		}
		if b = appendText(b, name); c.pairs {
			b = appendText(b, p.Value)
		}
		splices = append(splices, Splice{At: at, Ins: c.piece(b)})
	}
	return splices
}

// isBefore reports whether the element at an offset comes before a member with a score.
func (c *named) isBefore(at int, score float64, name []byte) bool {
	x := c.scoreAt(at)
	if x != score {
		return x < score
	}
	other, _, _ := c.element(at)
	return bytes.Compare(other, name) <= 0
}
