// Package resp is the wire: a bounded, incremental reader of RESP commands
// (RESP2 arrays and inline) and append-style writers for RESP2 and RESP3. It
// knows no command.
package resp

// Limits bounds what a Reader accepts. All are counts or bytes; every field
// must be above 0.
type Limits struct {
	// Args is the most arguments of a command; WideArgs is the same for
	// the commands that Wide names.
	Args, WideArgs int
	// Bulk is the most bytes of one argument.
	Bulk int
	// Inline is the most bytes of an inline command or of a header line.
	Inline int
	// Query is the most bytes held for one command that is not complete.
	Query int
}

// Reader cuts a stream of bytes into commands. The zero value with Limits set
// is ready. Feed gives it what was read, Next yields commands, Keep ends the
// round; see reader.go.
type Reader struct {
	Limits Limits
	// Wide tells whether a command may have WideArgs arguments; nil: none may.
	Wide func(name []byte) bool
}

// Feed hands b to the reader. Without a leftover of earlier rounds, b is parsed in
// place; otherwise it is appended to the leftover.
func (r *Reader) Feed(b []byte) {}

// Next returns the next complete command, or nil when more bytes are needed.
// The arguments are slices into the buffer, valid until Keep or Feed. An
// empty command (an empty line, *0, *-1) is skipped. An error is a
// *ProtocolError and final: the stream cannot be read on.
func (r *Reader) Next() (args [][]byte, err error) { return nil, nil }

// Keep ends the round: what was not consumed is copied to the reader's own
// buffer, which is given up when it is empty.
func (r *Reader) Keep() {}

// Buffered is the number of bytes the reader holds between rounds.
func (r *Reader) Buffered() int { return 0 }

// Partial tells whether a command has begun and is not complete.
func (r *Reader) Partial() bool { return false }

// ProtocolError says why a stream cannot be read on. Its text is what the
// client is told after "-ERR ".
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string { return e.Text }
