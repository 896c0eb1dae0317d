package stats

import "strings"

// A Step gathers what the commands of one step of the engine count, so that each counts once, even if the step begins again. The
// zero value is ready to use.
type Step struct {
	calls  []stepCalls
	errors []stepErrors
}

// stepCalls is the calls of one command.
type stepCalls struct {
	row
	ns int64 // of all of them
}

// stepErrors is the errors with one prefix.
type stepErrors struct {
	prefix string
	n      uint64
}

// Call counts one call of the command with number id, which took ns nanoseconds.
func (s *Step) Call(id int, ns int64, failed bool) {
	at := len(s.calls) - 1
	for at >= 0 && s.calls[at].id != id {
		at--
	}
	if at < 0 {
		at = len(s.calls)
		s.calls = append(s.calls, stepCalls{row: row{id: id}})
	}
	c := &s.calls[at]
	c.calls++
	c.ns += max(ns, 0)
	if failed {
		c.failed++
	}
}

// Error counts an error reply with that text.
func (s *Step) Error(text string) {
	prefix, _, _ := strings.Cut(text, " ")
	for i := range s.errors {
		if s.errors[i].prefix == prefix {
			s.errors[i].n++
			return
		}
	}
	if len(s.errors) < prefixesMost {
		s.errors = append(s.errors, stepErrors{prefix, 1})
	}
}

// Flush moves the counts to a stripe and to the counts of errors.
func (s *Step) Flush(to *Stripe, errors *Errors) {
	for _, c := range s.calls {
		to.add(c.row, c.ns/int64(c.calls))
	}
	for _, e := range s.errors {
		errors.add(e.prefix, e.n)
	}
	s.Reset()
}

// Reset forgets the counts.
func (s *Step) Reset() {
	clear(s.errors)
	s.calls, s.errors = s.calls[:0], s.errors[:0]
}

// keptCalls is the most commands and prefixes for which an idle client keeps room.
const keptCalls = 4

// Large reports whether it has more room than an idle client may keep.
func (s *Step) Large() bool { return cap(s.calls) > keptCalls || cap(s.errors) > keptCalls }
