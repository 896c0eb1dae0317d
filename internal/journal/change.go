package journal

import (
	"encoding/binary"

	"limitdb/state"
)

// A Change records how a part of a state has changed, for long strings, collections, and long states of LOG and
// of leases. Its size follows from the change, not from the state.
//
//	┌──────────┬───┬────────────┬───────────────┬─────────┬────────┬─────┐
//	│ kind × 4 │ 1 │ key length │ change length │ version │ change │ key │
//	│ varint   │   │ varint     │ varint        │ varint  │        │     │
//	└──────────┴───┴────────────┴───────────────┴─────────┴────────┴─────┘
//
// Such a state is a head and a body. The head is the expiry, of a Timed kind, a byte in a LOG, and the revision
// (4 bytes, little-endian), which grows by 1 with each Change. A change is the head of the new state, the
// length of the body before (varint), and splices of the body, each of which applies to what the ones before
// it have left. The kind is that of the new state; the old one has the same type, Timed or not.
//
// Other records are idempotent, and a Change is not. The revision makes up for that: a Change applies only to
// the state of the revision before it. A snapshot that is written during changes may have some of the
// Changes that stand behind it; those are skipped.

const (
	revisionSize = state.RevisionSize
	// MinChanged is the least number of bytes of a state before and after a Change. Shorter states are
	// written whole.
	MinChanged = 256
	// maxBody is the largest body that is believed, so that the sums of a splice cannot overflow.
	maxBody = 1 << 30

	// partOfState is the number behind op 0.
	partOfState = 1
)

// InParts reports whether the states of a kind can change in parts. They begin with a head.
func InParts(kind byte) bool { return HeadSize(kind) > 0 }

// HeadSize returns the size of the head of a kind's states, whose last 4 bytes are the revision; 0 if they do
// not change in parts.
func HeadSize(kind byte) int { return state.Kind(kind).HeadSize() }

// CanChange reports whether a Change can apply to a state, or lead to it: the states of its kind have a head, and
// it has at least MinChanged bytes. Nothing else decides this.
func CanChange(kind byte, state []byte) bool { return InParts(kind) && len(state) >= MinChanged }

// ChangesMayFollow reports whether a Change may apply to the state of a Set or a Change. Then the record counts
// even if the state has expired: a Change may have made it expire later.
func (r *Record) ChangesMayFollow() bool {
	return r.Op == Change || r.Op == Set && CanChange(r.Kind, r.State)
}

// Revision returns the revision of a head.
func Revision(head []byte) uint32 {
	return binary.LittleEndian.Uint32(head[len(head)-revisionSize:])
}

// SetRevision changes the revision of a head.
func SetRevision(head []byte, to uint32) {
	binary.LittleEndian.PutUint32(head[len(head)-revisionSize:], to)
}

// AppendSplice appends a splice: ins replaces the del bytes from at on.
func AppendSplice(b []byte, at, del int, ins []byte) []byte {
	b = binary.AppendUvarint(b, uint64(at))
	b = binary.AppendUvarint(b, uint64(del))
	b = binary.AppendUvarint(b, uint64(len(ins)))
	return append(b, ins...)
}

// Change adds a record that a key's state has changed in part: it has a new head now, and splices have changed
// its body, which had before bytes.
func (b *Buffer) Change(version uint64, kind byte, key, head []byte, before int, splices []byte) {
	var number [binary.MaxVarintLen64]byte
	length := binary.AppendUvarint(number[:0], uint64(before))
	buf := append(appendHead(b.Bytes, 0, kind), partOfState)
	buf = binary.AppendUvarint(buf, uint64(len(key)))
	buf = binary.AppendUvarint(buf, uint64(len(head)+len(length)+len(splices)))
	buf = binary.AppendUvarint(buf, version)
	buf = append(append(append(buf, head...), length...), splices...)
	b.Bytes = append(buf, key...)
	b.Records++
}

// Edit is the effect of a Change on a state. Its slices belong to the record.
type Edit struct {
	// Head is the head of the new state.
	Head []byte
	// Before and After are the lengths of the body. Most is the greatest length between two splices, or at the
	// end.
	Before, After, Most int
	splices             []byte
}

// Edit returns the effect of a Change.
func (r *Record) Edit() Edit {
	e, _ := parseEdit(r.Kind, r.State)
	return e
}

// parseEdit parses the change of a record, and checks that its splices fit the body.
func parseEdit(kind byte, b []byte) (e Edit, ok bool) {
	n := HeadSize(kind)
	if n == 0 || len(b) < n {
		return e, false
	}
	before, rest, ok := number(b[n:])
	if !ok || before > maxBody {
		return e, false
	}
	return MakeEdit(b[:n:n], int(before), rest)
}

// MakeEdit returns the effect that a head and splices have on a body of before bytes. It is false if they do not fit.
func MakeEdit(head []byte, before int, splices []byte) (e Edit, ok bool) {
	e = Edit{Head: head, Before: before, After: before, Most: before, splices: splices}
	for b := splices; len(b) > 0; {
		var s splice
		if s, b, ok = parseSplice(b); !ok || s.at > e.After || s.del > e.After-s.at || len(s.ins) > maxBody-e.After {
			return e, false
		}
		e.After += len(s.ins) - s.del
		e.Most = max(e.Most, e.After)
	}
	return e, true
}

type splice struct {
	at, del int
	ins     []byte
}

func parseSplice(b []byte) (s splice, rest []byte, ok bool) {
	var numbers [3]uint64
	for i := range numbers {
		if numbers[i], b, ok = number(b); !ok || numbers[i] > maxBody {
			return s, nil, false
		}
	}
	n := int(numbers[2])
	if n > len(b) {
		return s, nil, false
	}
	return splice{int(numbers[0]), int(numbers[1]), b[:n]}, b[n:], true
}

// Apply changes a body of Before bytes in place, whose capacity is at least Most. Between two splices, the room
// that the body does not use is where the last one was, so splices in ascending order move each byte once.
func (e *Edit) Apply(body []byte) []byte {
	left, right := len(body), e.Most // of that room
	body = body[:e.Most]
	for b := e.splices; len(b) > 0; {
		var s splice
		s, b, _ = parseSplice(b)
		if len(s.ins) == s.del && s.at+s.del <= left {
			copy(body[s.at:], s.ins)
			continue
		}
		if n := left - s.at; n >= 0 {
			left, right = s.at, right-n
			copy(body[right:], body[left:left+n])
		} else {
			copy(body[left:], body[right:right-n])
			left, right = s.at, right-n
		}
		left += copy(body[left:], s.ins)
		right += s.del
	}
	return body[:left+copy(body[left:], body[right:])]
}
