package hold

import "encoding/binary"

// A list is a Set that stands for one hold of several keys: pieces of a text, which names the keys, are where other
// entries have a limit. Only its owner knows which sets are lists.

// MaxList is the largest length of the text of a list, in bytes.
const MaxList = 1 << 16

// MakeList makes w a list in place of s. Of e, all but ID and Limit count; text has at most MaxList bytes.
func (s Set) MakeList(w *Edit, e Entry, text []byte) {
	b := beginCompact(w, never)
	for i := range len(text)/MaxLimit + 1 {
		piece := text[:min(len(text), MaxLimit)]
		text = text[len(piece):]
		e.ID, e.Limit = binary.BigEndian.AppendUint16(nil, uint16(i)), piece
		b = appendEntry(b, &e)
	}
	begin(b, e.Forgotten(), s)
	w.whole(b)
}

// List returns what is known of a list at now, and its text. It is false if there is none.
func (s Set) List(now int64) (e Entry, text []byte, ok bool) {
	s.Each(now, func(piece *Entry) bool {
		e, ok = *piece, true
		text = append(text, piece.Limit...)
		return true
	})
	return e, text, ok
}
