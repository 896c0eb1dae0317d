package value

// ListOf is a list. Its elements are texts, from the left to the right.
type ListOf struct{ edit }

// OpenList opens a list on its body, nil for an empty one.
func OpenList(body []byte) *ListOf { return &ListOf{edit{b: body}} }

// PushLeft adds elements on the left, one after the other.
func (l *ListOf) PushLeft(texts ...[]byte) {
	b := l.room()
	for i := len(texts) - 1; i >= 0; i-- {
		b = appendText(b, texts[i])
	}
	l.change(l.Len()+len(texts), Splice{At: min(headSize, len(l.b)), Ins: l.piece(b)})
}

// PushRight adds elements on the right, one after the other.
func (l *ListOf) PushRight(texts ...[]byte) {
	b := l.room()
	for _, t := range texts {
		b = appendText(b, t)
	}
	l.change(l.Len()+len(texts), Splice{At: len(l.b), Ins: l.piece(b)})
}

// Range calls fn for the elements from start to stop, as LRANGE counts them, and
// returns how many they are. first, if not nil, is called before with that number.
func (l *ListOf) Range(start, stop int64, first func(n int), fn func(text []byte)) {
	from, to := bounds(l.Len(), start, stop)
	if first != nil {
		first(to - from)
	}
	at := l.skip(headSize, from)
	for ; from < to; from++ {
		var text []byte
		text, at = l.text(at)
		fn(text)
	}
}

// skip returns the offset behind n elements from an offset on.
func (l *ListOf) skip(at, n int) int {
	for ; n > 0; n-- {
		_, at = l.text(at)
	}
	return at
}

// Index returns the element at an index, and false if there is none.
func (l *ListOf) Index(i int64) (text []byte, ok bool) {
	n := int64(l.Len())
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return nil, false
	}
	text, _ = l.text(l.skip(headSize, int(i)))
	return text, true
}

// Trim removes the elements that are not from start to stop, as LTRIM does.
func (l *ListOf) Trim(start, stop int64) { l.trim(bounds(l.Len(), start, stop)) }

// trim removes the elements that are not between two indexes, the second excluded.
func (l *ListOf) trim(from, to int) {
	if to-from == l.Len() {
		return
	}
	begin := l.skip(headSize, from)
	end := l.skip(begin, to-from)
	l.change(to-from, Splice{At: headSize, Del: begin - headSize}, Splice{At: end, Del: len(l.b) - end})
}

// PopLeft removes n elements on the left, at most all, and calls fn for each, the first
// one first.
func (l *ListOf) PopLeft(n int, fn func(text []byte)) {
	at := headSize
	for range n {
		var text []byte
		text, at = l.text(at)
		fn(text)
	}
	l.trim(n, l.Len())
}

// PopRight removes n elements on the right, at most all, and calls fn for each, the last
// one first.
func (l *ListOf) PopRight(n int, fn func(text []byte)) {
	keep := l.Len() - n
	at, offsets := l.skip(headSize, keep), make([]int, n)
	for i := range offsets {
		offsets[i] = at
		_, at = l.text(at)
	}
	for i := n - 1; i >= 0; i-- {
		text, _ := l.text(offsets[i])
		fn(text)
	}
	l.trim(0, keep)
}
