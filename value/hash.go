package value

import (
	"bytes"
	"encoding/binary"
)

// HashOf is a hash. Its elements are pairs of texts, a field and its value, in the
// order in which the fields came.
type HashOf struct{ edit }

// OpenHash opens a hash on its body, nil for an empty one.
func OpenHash(body []byte) *HashOf { return &HashOf{edit{b: body}} }

// find returns the value of a field, and where the field begins, its value begins
// and the pair ends; false if there is no such field.
func (h *HashOf) find(field []byte) (value []byte, at, middle, end int, ok bool) {
	at = headSize
	for n := h.Len(); n > 0; n-- {
		var name []byte
		name, middle = h.text(at)
		value, end = h.text(middle)
		if same(name, field) {
			return value, at, middle, end, true
		}
		at = end
	}
	return nil, 0, 0, 0, false
}

// Get returns the value of a field, and false if there is none. It is valid until
// the next change.
func (h *HashOf) Get(field []byte) ([]byte, bool) {
	value, _, _, _, ok := h.find(field)
	return value, ok
}

// Set gives a field a value, and reports whether the field is new.
func (h *HashOf) Set(field, value []byte) (added bool) {
	h.begin()
	if old, _, middle, end, ok := h.find(field); ok {
		if !bytes.Equal(old, value) {
			h.splice(middle, end-middle, appendText(h.room(), value))
		}
		return false
	}
	h.splice(len(h.b), 0, appendText(appendText(h.room(), field), value))
	h.setLen(h.Len() + 1)
	return true
}

// Remove removes a field, and reports whether it was there.
func (h *HashOf) Remove(field []byte) bool {
	_, at, _, end, ok := h.find(field)
	if ok {
		h.splice(at, end-at, nil)
		h.setLen(h.Len() - 1)
	}
	return ok
}

// Each calls fn for every field.
func (h *HashOf) Each(fn func(field, value []byte)) {
	at := headSize
	for n := h.Len(); n > 0; n-- {
		var field, value []byte
		field, at = h.text(at)
		value, at = h.text(at)
		fn(field, value)
	}
}

// SetOf is a set of texts, in the order in which they came.
type SetOf struct{ edit }

// OpenSet opens a set on its body, nil for an empty one.
func OpenSet(body []byte) *SetOf { return &SetOf{edit{b: body}} }

func (s *SetOf) find(member []byte) (at, end int, ok bool) {
	at = headSize
	for n := s.Len(); n > 0; n-- {
		var text []byte
		text, end = s.text(at)
		if same(text, member) {
			return at, end, true
		}
		at = end
	}
	return 0, 0, false
}

// Has reports whether the set has a member.
func (s *SetOf) Has(member []byte) bool {
	_, _, ok := s.find(member)
	return ok
}

// Add adds a member, and reports whether it is new.
func (s *SetOf) Add(member []byte) bool {
	if s.Has(member) {
		return false
	}
	s.begin()
	s.splice(len(s.b), 0, appendText(s.room(), member))
	s.setLen(s.Len() + 1)
	return true
}

// Remove removes a member, and reports whether it was there.
func (s *SetOf) Remove(member []byte) bool {
	at, end, ok := s.find(member)
	if ok {
		s.splice(at, end-at, nil)
		s.setLen(s.Len() - 1)
	}
	return ok
}

// Each calls fn for every member.
func (s *SetOf) Each(fn func(member []byte)) {
	at := headSize
	for n := s.Len(); n > 0; n-- {
		var text []byte
		text, at = s.text(at)
		fn(text)
	}
}

// CollectionEncoding returns what OBJECT ENCODING says of a collection. Redis does
// not turn back to the small form; here the encoding follows from what there is.
func CollectionEncoding(t Type, body []byte) string {
	e := edit{b: body}
	small := e.Len() <= 128
	for at := headSize; at < len(body) && small; {
		if t == SortedSet {
			at += scoreSize
		}
		var text []byte
		text, at = e.text(at)
		small = len(text) <= 64
	}
	switch t {
	case List:
		return "quicklist"
	case Set:
		if allInts(&e) {
			return "intset"
		}
		return "hashtable"
	case Hash:
		if small {
			return "listpack"
		}
		return "hashtable"
	}
	if small {
		return "listpack"
	}
	return "skiplist"
}

// allInts reports whether a set is one of at most 512 integers.
func allInts(e *edit) bool {
	if e.Len() > 512 {
		return false
	}
	for at := headSize; at < len(e.b); {
		var text []byte
		text, at = e.text(at)
		if _, err := StringInt(append([]byte{tagText}, text...)); err != nil {
			return false
		}
	}
	return true
}

// Valid reports whether body is that of a value of the type. What has been read
// from a disk is checked with it.
func Valid(t Type, body []byte) bool {
	if t == String {
		return len(body) > 0 && (body[0] == tagInt && len(body) <= 9 || body[0] == tagText || body[0] == tagRaw)
	}
	if t > Set || t == None || len(body) <= headSize {
		return false
	}
	e := edit{b: body}
	at := headSize
	for n := e.Len(); n > 0; n-- {
		texts := 1
		switch t {
		case SortedSet:
			at += scoreSize
		case Hash:
			texts = 2
		}
		for ; texts > 0; texts-- {
			if at >= len(body) {
				return false
			}
			size, k := binary.Uvarint(body[at:])
			if k <= 0 || size > uint64(len(body)-at-k) {
				return false
			}
			at += k + int(size)
		}
	}
	return at == len(body)
}
