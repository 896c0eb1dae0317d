package limit

import (
	"bytes"
	"encoding/binary"

	"limitdb/state"
)

// What has changed in a long state, for a record that has the changes only.
//
// A long state of LOG, and one of leases of 256 bytes or more, has a revision (see package state), which
// grows by one with each such record. Whoever makes records notes a state before its
// first change with Note, and each state that follows with Changed. Edits then says
// which bytes differ. A state that comes from another than a long one of its own kind
// must be recorded whole.
//
// LOG states change in place, so Note keeps the head only. Of the body, changes only
// cut bytes off in front, and replace the end: the last token, and what a refund takes
// back. base says how much was cut off.

const (
	longLeases = state.LongLeases
	longLog    = state.LongLog
	logStart   = timeSize + 1 + revisionSize
)

// Since notes what a state was. The zero value notes none.
type Since struct {
	kind Kind
	was  []byte // leases: all of it; LOG: its head
	size int    // of the state
	kept uint32 // LOG: where the bytes of the body end that have stayed; counted like base
}

// Note notes a state of kind k, and reports whether it has a revision.
func (s *Since) Note(k Kind, state []byte) bool {
	s.kind, s.size, s.was = k.Recorded(state), len(state), s.was[:0]
	switch s.kind {
	case longLeases:
		s.was = append(s.was, state...)
	case longLog:
		head := logHead(state)
		s.was = append(s.was, state[:head]...)
		s.kept = logBase(state) + uint32(len(state)-head)
	default:
		s.size = 0
		return false
	}
	return true
}

// Noted returns how many bytes the note takes.
func (s *Since) Noted() int { return len(s.was) }

// Size returns the size of the state that was noted, 0 if there is none.
func (s *Since) Size() int { return s.size }

// Expires returns when the state that was noted expires.
func (s *Since) Expires() int64 { return int64(binary.LittleEndian.Uint64(s.was)) }

// Changed notes the next state.
func (s *Since) Changed(state []byte) {
	if s.kind != longLog {
		return
	}
	head := logHead(state)
	last := len(state) - 1 // where the last token begins
	for last > head && state[last-1]&0x80 != 0 {
		last--
	}
	if kept := logBase(state) + uint32(last-head); int32(kept-s.kept) < 0 {
		s.kept = kept
	}
}

// Edits yields what leads from the state that was noted to the last one that
// Changed was given. An edit replaces the del bytes at an offset by ins. Offsets count
// from behind the revision, and each edit applies to what the ones before it leave.
func (s *Since) Edits(state []byte, yield func(at, del int, ins []byte)) {
	if s.kind == longLog {
		s.logEdits(state, yield)
	} else {
		leaseEdits(s.was[leaseStart:], state[leaseStart:], yield)
	}
}

func (s *Since) logEdits(state []byte, yield func(at, del int, ins []byte)) {
	was, is := s.was[logStart:], state[logStart:logHead(state)]
	if len(was) != len(is) {
		yield(0, len(was), is)
	} else {
		diff(was, is, yield)
	}
	base, old := logBase(s.was), s.size-len(s.was) // the rest of the old body
	cut := min(int(logBase(state)-base), old)
	if old -= cut; cut > 0 {
		yield(len(is), cut, nil)
	}
	kept := max(0, int(s.kept-base)-cut)
	yield(len(is)+kept, old-kept, state[logHead(state)+kept:])
}

// diff yields the runs of bytes in which two slices of one length differ. Runs that are
// closer than the numbers before an edit are one.
func diff(was, is []byte, yield func(at, del int, ins []byte)) {
	const near = 3
	for i := 0; i < len(is); i++ {
		if was[i] == is[i] {
			continue
		}
		end := i + 1
		for j := end; j < min(len(is), end+near); j++ {
			if was[j] != is[j] {
				end = j + 1
			}
		}
		yield(i, end-i, is[i:end])
		i = end
	}
}

// leaseEdits is Edits for two lists of leases, the soonest to end first.
func leaseEdits(was, is []byte, yield func(at, del int, ins []byte)) {
	for i, j := 0, 0; i < len(was) || j < len(is); {
		a, del := nextLease(was[i:])
		b, ins := nextLease(is[j:])
		switch {
		case bytes.Equal(was[i:i+del], is[j:j+ins]):
			i, j = i+del, j+ins
		case ins == 0 || del > 0 && a <= b:
			yield(j, del, nil)
			i += del
		default:
			yield(j, 0, is[j:j+ins])
			j += ins
		}
	}
}

// nextLease returns the end and the size of the first lease of a list: 0 for none.
func nextLease(b []byte) (end int64, size int) {
	h, size := lease(b)
	if size == 0 {
		size = len(b) // damaged
	}
	return h.End, size
}

// logHead returns the size of the head of a long LOG.
func logHead(state []byte) int {
	if state[timeSize]&heldBit != 0 {
		return longHead + heldSize
	}
	return longHead
}

// logBase returns how many bytes came before the body of a long LOG.
func logBase(state []byte) uint32 { return binary.LittleEndian.Uint32(state[logStart:]) }
