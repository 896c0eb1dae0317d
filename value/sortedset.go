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

func (z *SortedSetOf) find(member []byte) (score float64, at, end int, ok bool) {
	at = headSize
	for n := z.Len(); n > 0; n-- {
		x, m, next := z.element(at)
		if bytes.Equal(m, member) {
			return x, at, next, true
		}
		at = next
	}
	return 0, 0, 0, false
}

// Score returns the score of a member, and false if there is none.
func (z *SortedSetOf) Score(member []byte) (float64, bool) {
	score, _, _, ok := z.find(member)
	return score, ok
}

// Set gives a member a score, which is not NaN, and reports whether the member is
// new. A score of -0 is kept as 0, as Redis does in small sets.
func (z *SortedSetOf) Set(member []byte, score float64) (added bool) {
	score += 0 // -0 + 0 is 0
	old, at, end, there := z.find(member)
	if there {
		if old == score {
			return false
		}
		z.splice(at, end-at)
	}
	z.begin()
	to := headSize
	for to < len(z.b) {
		x, m, next := z.element(to)
		if x > score || x == score && bytes.Compare(m, member) > 0 {
			break
		}
		to = next
	}
	var b [scoreSize]byte
	binary.LittleEndian.PutUint64(b[:], math.Float64bits(score))
	z.splice(to, 0, b[:], prefix(len(member)), member)
	if !there {
		z.setLen(z.Len() + 1)
	}
	return !there
}

// Remove removes a member, and reports whether it was there.
func (z *SortedSetOf) Remove(member []byte) bool {
	_, at, end, ok := z.find(member)
	if ok {
		z.splice(at, end-at)
		z.setLen(z.Len() - 1)
	}
	return ok
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
		z.splice(s.from, s.to-s.from)
		z.setLen(z.Len() - s.Count)
	}
}

// Rank returns the number of elements before a member, -1 if it is not there.
func (z *SortedSetOf) Rank(member []byte) int {
	at := headSize
	for rank := range z.Len() {
		_, m, next := z.element(at)
		if bytes.Equal(m, member) {
			return rank
		}
		at = next
	}
	return -1
}
