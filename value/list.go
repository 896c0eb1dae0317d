package value

// ListOf is a list. Its elements are texts, from the left to the right. A long list of numbers has
// a form of its own: see numbers.go.
type ListOf struct {
	edit
	numbers
}

// OpenList opens a list on its body, nil for an empty one.
func OpenList(body []byte) *ListOf {
	l := &ListOf{edit: edit{b: body}}
	if Packed(body) {
		l.openNumbers()
	}
	return l
}

// Len returns the number of elements.
func (l *ListOf) Len() int {
	if l.packed {
		return l.length()
	}
	return l.edit.Len()
}

// Body returns the body after all changes, or before them if Late says so; nil if the list is empty.
func (l *ListOf) Body() []byte {
	if l.packed {
		return l.numberBody()
	}
	return l.edit.Body()
}

// Splices returns the changes, in order. Each applies to the body that the ones before it have left. It returns nil if
// the body has got another form.
func (l *ListOf) Splices() []Splice {
	switch {
	case l.packed:
		return l.numberSplices()
	case l.unpacked:
		return nil
	}
	return l.edit.Splices()
}

// Changed reports whether there were changes.
func (l *ListOf) Changed() bool {
	if l.packed {
		return l.numbersChanged()
	}
	return l.unpacked || l.edit.Changed()
}

// PushLeft adds elements on the left, one after the other.
func (l *ListOf) PushLeft(texts ...[]byte) {
	if l.push(texts, true) {
		return
	}
	b := l.room()
	for i := len(texts) - 1; i >= 0; i-- {
		b = appendText(b, texts[i])
	}
	l.change(l.Len()+len(texts), Splice{At: min(headSize, len(l.b)), Ins: l.piece(b)})
}

// PushRight adds elements on the right, one after the other.
func (l *ListOf) PushRight(texts ...[]byte) {
	if l.push(texts, false) {
		return
	}
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
	if l.packed {
		for ; from < to; from++ {
			fn(l.numberText(from))
		}
		return
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
	if l.packed {
		return l.numberText(int(i)), true
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
	if l.packed {
		l.trimNumbers(from, to)
		return
	}
	begin := l.skip(headSize, from)
	end := l.skip(begin, to-from)
	l.change(to-from, Splice{At: headSize, Del: begin - headSize}, Splice{At: end, Del: len(l.b) - end})
}

// PopLeft removes n elements on the left, at most all, and calls fn for each, the first
// one first.
func (l *ListOf) PopLeft(n int, fn func(text []byte)) {
	if l.packed {
		for i := range n {
			fn(l.numberText(i))
		}
		l.trim(n, l.Len())
		return
	}
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
	if l.packed {
		for i := l.Len() - 1; i >= keep; i-- {
			fn(l.numberText(i))
		}
		l.trim(0, keep)
		return
	}
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
