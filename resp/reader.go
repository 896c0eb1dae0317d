package resp

import "bytes"

// Reader cuts a stream of bytes into commands. The zero value with Limits set is ready to use. A round
// consists of one Feed with what was read, calls of Next until it returns nil, and one Keep:
//
//	r.Feed(b)
//	for {
//		args, err := r.Next()
//		if args == nil { break }
//		…
//	}
//	r.Keep()
//
// Where the bytes are: a command that lies whole in b is parsed there, and its arguments point there. Only a
// command that is cut in two is copied to the reader's own buffer: Keep copies its first part, and Next the
// rest of it (and no more) when the next b has come. After that command, parsing continues in place.
//
//	own:  [consumed | first part of a command] + [its rest]
//	b:                                           [its rest | commands, parsed in place | first part …]
//
// Each byte is looked at and copied a bounded number of times, however the stream is cut. Memory grows with
// the bytes received, never with an announced length.
type Reader struct {
	Limits Limits
	// Wide reports whether a command may have WideArgs arguments; nil means that none may. It is called when
	// the first argument of such a command has come.
	Wide func(name []byte) bool
	// Long reports whether a command may have an argument of LongBulk bytes; nil means that none may. It is called
	// when the length of such an argument has come.
	Long func(name []byte) bool

	buf     []byte // what is parsed: own, or what Feed got
	rest    []byte // what Feed got, while buf is own
	own     []byte // holds what must outlive a round
	start   int    // where the current command begins in buf
	size    int    // the length of the command before
	inPlace bool   // buf is what Feed got

	args [][]byte // returned by Next
	at   progress
	err  *ProtocolError
}

// What a Reader may keep between rounds, and how it begins.
const (
	minOwn     = 128 // bytes; the minimum size of its own buffer
	minArgs    = 8
	maxOldArgs = 64 // a longer slice of arguments is dropped at the end of the round
)

// Feed passes b to the reader, which may use it until Keep. Without a rest from earlier rounds, b is parsed
// in place; otherwise it completes the rest. The reader never writes to b.
func (r *Reader) Feed(b []byte) {
	if r.err != nil {
		return
	}
	if r.inPlace || len(r.rest) > 0 {
		r.Keep()
	}
	if len(r.buf) > 0 {
		r.rest = b
		return
	}
	r.buf, r.start, r.inPlace = b, 0, true
}

// Next returns the next complete command, or nil if more bytes are needed. The arguments are slices of the
// buffer, valid until Keep or Feed; the slice that holds them is valid until the next call. Next skips empty
// commands (an empty line, *0, *-1). An error is a *ProtocolError and final: the stream cannot be read any
// further.
func (r *Reader) Next() (args [][]byte, err error) {
	for {
		b := r.buf[r.start:]
		if len(b) > 0 && b[0] == '*' && r.at.left|r.at.scanned == 0 {
			n := r.cut(b[:min(len(b), r.Limits.Query)], r.Limits.Args, r.Limits.Bulk)
			if n > 0 {
				r.start += n
				r.size = n
				return r.args, nil
			}
		}
		n, perr := r.step(b)
		switch {
		case perr != nil:
			return nil, r.fail(perr)
		case n > 0:
			r.start += n
			r.size = n
			r.at = progress{}
			if len(r.args) > 0 {
				return r.args, nil
			}
		case !r.pull():
			return nil, nil
		}
	}
}

// fail ends the stream.
func (r *Reader) fail(err *ProtocolError) error {
	*r = Reader{Limits: r.Limits, Wide: r.Wide, err: err}
	return err
}

// pull continues with what Feed got: all of it, in place, if the reader holds nothing, and otherwise what the
// current command lacks. It returns false if there is nothing more.
func (r *Reader) pull() bool {
	if len(r.rest) == 0 {
		return false
	}
	if r.start == len(r.buf) {
		r.buf, r.rest, r.start, r.inPlace = r.rest, nil, 0, true
		return true
	}
	n := r.lacking()
	r.own = append(r.buf, r.rest[:n]...)
	r.buf, r.rest = r.own, r.rest[n:]
	return true
}

// lacking returns how many bytes of rest the current element of the current command needs. If it takes bytes
// beyond the end of the command because its line end is wrong, they belong to an error.
func (r *Reader) lacking() int {
	all := len(r.rest)
	if r.at.payload {
		missing := r.at.bulk - (len(r.buf) - r.start - r.at.pos)
		if missing < all-2 {
			return missing + 2
		}
		return all
	}
	if i := bytes.IndexByte(r.rest, '\n'); i >= 0 {
		return i + 1
	}
	return all
}

// Keep ends the round. It copies the unread bytes to the reader's own buffer, or releases that buffer if
// there are none. The unread bytes may contain complete commands, which Next returns without another Feed.
func (r *Reader) Keep() {
	r.dropArgs()
	tail := r.buf[r.start:]
	held := len(tail) + len(r.rest)
	switch {
	case held == 0:
		r.own, r.start = nil, 0
	case r.inPlace:
		r.own = append(roomFor(r.own, held), tail...)
		r.start = 0
	default:
		// The tail is moved only if it is no longer than what was consumed since the last move. So the cost
		// of a long backlog that is taken command by command stays linear.
		if r.start > 0 && r.start >= len(tail) {
			r.own = append(roomFor(r.own, held), tail...)
			r.start = 0
		}
		r.own = append(r.own, r.rest...)
	}
	r.buf, r.rest, r.inPlace = r.own, nil, false
}

// Prepend puts commands back in front of the unread bytes, between two rounds. It returns false if the stream
// cannot be read any further, or if a part of a command was skipped, which cannot be read again.
func (r *Reader) Prepend(b []byte) bool {
	if r.err != nil || len(b) > 0 && r.at.skip != kept {
		return false
	}
	if len(b) > 0 {
		r.own = append(append(make([]byte, 0, len(b)+len(r.buf)-r.start), b...), r.buf[r.start:]...)
		r.buf, r.start, r.at = r.own, 0, progress{}
	}
	return true
}

// Unread puts the last n bytes of the commands that were read in this round back: Next returns them again.
func (r *Reader) Unread(n int) {
	if n > r.start { // pull has moved from own to the bytes that Feed got
		r.buf, r.rest, r.inPlace = r.own, r.buf, false
		r.start += len(r.own)
	}
	r.start -= n
	r.at = progress{}
}

// roomFor returns own, emptied, or a new buffer if own is too small for n bytes or much too large.
func roomFor(own []byte, n int) []byte {
	if cap(own) < n || cap(own) > max(4*n, 4*minOwn) {
		return make([]byte, 0, max(n, minOwn))
	}
	return own[:0]
}

// dropArgs clears the slice of arguments, so that it keeps no buffer alive.
func (r *Reader) dropArgs() {
	if cap(r.args) > maxOldArgs {
		r.args = nil
		return
	}
	clear(r.args[:cap(r.args)])
	r.args = r.args[:0]
}

// Buffered returns the number of bytes that were fed and not consumed. Between rounds, the reader holds a
// copy of them.
func (r *Reader) Buffered() int { return len(r.buf) - r.start + len(r.rest) }

// Size returns the number of bytes of the command that Next has returned last.
func (r *Reader) Size() int { return r.size }

// Last returns the bytes of the command that Next or NextOf has returned last, valid until Keep or Feed. If they do not begin
// with *, the command is inline.
func (r *Reader) Last() []byte { return r.buf[r.start-r.size : r.start] }

// Memory returns the number of bytes allocated for the reader's own buffer and its slice of arguments.
func (r *Reader) Memory() int { return cap(r.own) + 24*cap(r.args) }

// Partial reports, after Next has returned nil, whether a command has begun and is incomplete.
func (r *Reader) Partial() bool { return r.Buffered() > 0 || r.at.skip != kept }
