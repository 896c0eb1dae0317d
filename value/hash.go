package value

// HashOf is a hash. Its elements are pairs of texts, a field and its value, in the
// order in which the fields came.
type HashOf struct{ named }

// OpenHash opens a hash on its body, nil for an empty one.
func OpenHash(body []byte) *HashOf { return &HashOf{named{edit: edit{b: body}, pairs: true}} }

// Get returns the value of a field, and false if there is none. It is valid until
// the next change.
func (h *HashOf) Get(field []byte) ([]byte, bool) {
	p := h.find(field)
	return p.Value, p.There
}

// Set gives fields values, which follow their fields, and returns how many fields are
// new.
func (h *HashOf) Set(pairs ...[]byte) (added int) {
	all := h.Find(pairs, 2)
	for i := range all {
		p := &all[all[i].Same]
		if !p.There {
			added++
		}
		p.There, p.Value = true, pairs[2*i+1]
	}
	h.Put(all)
	return added
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
type SetOf struct{ named }

// OpenSet opens a set on its body, nil for an empty one.
func OpenSet(body []byte) *SetOf { return &SetOf{named{edit: edit{b: body}}} }

// Add adds members, and returns how many are new.
func (s *SetOf) Add(members ...[]byte) (added int) {
	all := s.Find(members, 1)
	for i := range all {
		if p := &all[all[i].Same]; !p.There {
			p.There = true
			added++
		}
	}
	s.Put(all)
	return added
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
