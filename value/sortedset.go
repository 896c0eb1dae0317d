package value

import (
	"bytes"
	"encoding/binary"
	"math"
)

// SortedSetOf is a sorted set. Its elements are a score, a float64 in 8 bytes,
// and a member, in the order of the scores and of the members of one score.
type SortedSetOf struct{ edit }

const scoreSize = 8

// OpenSortedSet opens a sorted set on its body, nil for an empty one.
func OpenSortedSet(body []byte) *SortedSetOf { return &SortedSetOf{edit{b: body}} }

// at returns the element at an offset, and the offset of the next one.
func (z *SortedSetOf) element(at int) (score float64, member []byte, next int) {
	if at+scoreSize > len(z.b) {
		return 0, nil, len(z.b)
	}
	score = math.Float64frombits(binary.LittleEndian.Uint64(z.b[at:]))
	member, next = z.text(at + scoreSize)
	return score, member, next
}

// A Place is where a member is in a sorted set, until the set changes.
type Place struct {
	There   bool
	Score   float64
	at, end int // offsets of the element; without one, at is that of the last one in the set
}

// Find returns where a member is.
func (z *SortedSetOf) Find(member []byte) (p Place) {
	next := headSize
	for n := z.Len(); n > 0; n-- {
		p.at = next
		var m []byte
		if m, next = z.text(p.at + scoreSize); same(m, member) {
			p.Score, _, p.end = z.element(p.at)
			p.There = true
			return p
		}
	}
	return p
}

// Score returns the score of a member, and false if there is none.
func (z *SortedSetOf) Score(member []byte) (float64, bool) {
	p := z.Find(member)
	return p.Score, p.There
}

// Set gives a member a score, which is not NaN, and reports whether the member is
// new. A score of -0 is kept as 0, as Redis does in small sets.
func (z *SortedSetOf) Set(member []byte, score float64) (added bool) {
	p := z.Find(member)
	z.SetAt(&p, member, score)
	return !p.There
}

// SetAt is Set for a member whose place is known.
func (z *SortedSetOf) SetAt(p *Place, member []byte, score float64) {
	score += 0 // -0 + 0 is 0
	if p.There {
		if p.Score == score {
			return
		}
		z.splice(p.at, p.end-p.at, nil)
	}
	to := z.begin()
	if !p.There && p.at > 0 && z.isBefore(p.at, member, score) {
		to = len(z.b) // a log grows at its end
	}
	for to < len(z.b) && z.isBefore(to, member, score) {
		_, _, to = z.element(to)
	}
	ins := binary.LittleEndian.AppendUint64(z.room(), math.Float64bits(score))
	z.splice(to, 0, appendText(ins, member))
	if !p.There {
		z.setLen(z.Len() + 1)
	}
}

// isBefore reports whether the element at an offset comes before a member with a score.
func (z *SortedSetOf) isBefore(at int, member []byte, score float64) bool {
	x, m, _ := z.element(at)
	return x < score || x == score && bytes.Compare(m, member) <= 0
}

// Remove removes a member, and reports whether it was there.
func (z *SortedSetOf) Remove(member []byte) bool {
	p := z.Find(member)
	if p.There {
		z.splice(p.at, p.end-p.at, nil)
		z.setLen(z.Len() - 1)
	}
	return p.There
}

// Span is a run of elements.
type Span struct {
	First, Count int // the rank of the first one, and how many they are
	from, to     int // offsets
}

// Scores is a range of scores.
type Scores struct {
	Min, Max         float64
	MinOpen, MaxOpen bool // without the bound itself
}

func (r *Scores) below(x float64) bool { return x < r.Min || r.MinOpen && x == r.Min }
func (r *Scores) above(x float64) bool { return x > r.Max || r.MaxOpen && x == r.Max }

// ByScore returns the elements whose scores are in a range.
func (z *SortedSetOf) ByScore(r Scores) Span {
	s := Span{from: headSize}
	at, n := headSize, z.Len()
	for ; s.First < n; s.First++ {
		x, _, next := z.element(at)
		if !r.below(x) {
			break
		}
		at = next
	}
	s.from, s.to = at, at
	for s.First+s.Count < n {
		x, _, next := z.element(s.to)
		if r.above(x) {
			break
		}
		s.to = next
		s.Count++
	}
	return s
}

// ByRank returns the elements from rank start to rank stop, as ZRANGE counts them.
func (z *SortedSetOf) ByRank(start, stop int64) Span {
	from, to := bounds(z.Len(), start, stop)
	s := Span{First: from, from: headSize}
	s.from = z.skip(headSize, from)
	s.to = s.from
	if to > from {
		s.Count = to - from
		s.to = z.skip(s.from, s.Count)
	}
	return s
}

func (z *SortedSetOf) skip(at, n int) int {
	for ; n > 0; n-- {
		_, _, at = z.element(at)
	}
	return at
}

// Each calls fn for the elements of a span. It stops if fn returns false.
func (z *SortedSetOf) Each(s Span, fn func(member []byte, score float64) bool) {
	for at := s.from; s.Count > 0; s.Count-- {
		score, member, next := z.element(at)
		if !fn(member, score) {
			return
		}
		at = next
	}
}

// EachBack is Each from the last element to the first.
func (z *SortedSetOf) EachBack(s Span, fn func(member []byte, score float64) bool) {
	offsets := make([]int, 0, s.Count)
	at := s.from
	for range s.Count {
		offsets = append(offsets, at)
		_, _, at = z.element(at)
	}
	for i := len(offsets) - 1; i >= 0; i-- {
		score, member, _ := z.element(offsets[i])
		if !fn(member, score) {
			return
		}
	}
}

// RemoveSpan removes the elements of a span, which is of the set as it is.
func (z *SortedSetOf) RemoveSpan(s Span) {
	if s.Count > 0 {
		z.splice(s.from, s.to-s.from, nil)
		z.setLen(z.Len() - s.Count)
	}
}

// Rank returns the number of elements before a member, -1 if it is not there.
func (z *SortedSetOf) Rank(member []byte) int {
	at := headSize
	for rank := range z.Len() {
		_, m, next := z.element(at)
		if same(m, member) {
			return rank
		}
		at = next
	}
	return -1
}
