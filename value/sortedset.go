package value

// SortedSetOf is a sorted set. Its elements are a score, a float64 in 8 bytes,
// and a member, in the order of the scores and of the members of one score. No score is
// NaN, and -0 is kept as 0, as Redis does in small sets.
type SortedSetOf struct{ named }

const scoreSize = 8

// OpenSortedSet opens a sorted set on its body, nil for an empty one.
func OpenSortedSet(body []byte) *SortedSetOf {
	return &SortedSetOf{named{edit: edit{b: body}, scores: true}}
}

// member returns the element at an offset, and the offset of the next one.
func (z *SortedSetOf) member(at int) (score float64, member []byte, next int) {
	member, _, next = z.element(at)
	return z.scoreAt(at), member, next
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
		x, _, next := z.member(at)
		if !r.below(x) {
			break
		}
		at = next
	}
	s.from, s.to = at, at
	for s.First+s.Count < n {
		x, _, next := z.member(s.to)
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
		_, _, at = z.member(at)
	}
	return at
}

// Each calls fn for the elements of a span. It stops if fn returns false.
func (z *SortedSetOf) Each(s Span, fn func(member []byte, score float64) bool) {
	for at := s.from; s.Count > 0; s.Count-- {
		score, member, next := z.member(at)
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
		_, _, at = z.member(at)
	}
	for i := len(offsets) - 1; i >= 0; i-- {
		score, member, _ := z.member(offsets[i])
		if !fn(member, score) {
			return
		}
	}
}

// RemoveSpan removes the elements of a span, which is of the set as it is.
func (z *SortedSetOf) RemoveSpan(s Span) {
	z.change(z.Len()-s.Count, Splice{At: s.from, Del: s.to - s.from})
}

// Rank returns the number of elements before a member, -1 if it is not there.
func (z *SortedSetOf) Rank(member []byte) int {
	at := headSize
	for rank := range z.Len() {
		_, m, next := z.member(at)
		if same(m, member) {
			return rank
		}
		at = next
	}
	return -1
}
