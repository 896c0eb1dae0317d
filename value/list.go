package value

import "bytes"

// ListOf is a list. Its elements are texts, from the left to the right.
type ListOf struct{ edit }

// OpenList opens a list on its body, nil for an empty one.
func OpenList(body []byte) *ListOf { return &ListOf{edit{b: body}} }

// PushLeft adds an element on the left.
func (l *ListOf) PushLeft(text []byte) {
	at := l.begin()
	l.splice(at, 0, appendText(l.room(), text))
	l.setLen(l.Len() + 1)
}

// PushRight adds an element on the right.
func (l *ListOf) PushRight(text []byte) {
	l.begin()
	l.splice(len(l.b), 0, appendText(l.room(), text))
	l.setLen(l.Len() + 1)
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
func (l *ListOf) Trim(start, stop int64) {
	n := l.Len()
	from, to := bounds(n, start, stop)
	if from >= to {
		l.clear()
		return
	}
	begin := l.skip(headSize, from)
	if to < n {
		end := l.skip(begin, to-from)
		l.splice(end, len(l.b)-end, nil)
	}
	if begin > headSize {
		l.splice(headSize, begin-headSize, nil)
	}
	l.setLen(to - from)
}

// clear removes all elements.
func (l *ListOf) clear() {
	if l.Len() > 0 {
		l.splice(0, len(l.b), nil)
	}
}

// PopLeft removes the first element and returns it; false if there is none.
func (l *ListOf) PopLeft() ([]byte, bool) {
	if l.Len() == 0 {
		return nil, false
	}
	text, next := l.text(headSize)
	text = bytes.Clone(text)
	l.splice(headSize, next-headSize, nil)
	l.setLen(l.Len() - 1)
	return text, true
}

// PopRight removes the last element and returns it; false if there is none.
func (l *ListOf) PopRight() ([]byte, bool) {
	n := l.Len()
	if n == 0 {
		return nil, false
	}
	at := l.skip(headSize, n-1)
	text, _ := l.text(at)
	text = bytes.Clone(text)
	l.splice(at, len(l.b)-at, nil)
	l.setLen(n - 1)
	return text, true
}
