// Package resp is the wire protocol: a bounded, incremental reader of RESP commands (RESP2 arrays and
// inline), append-style writers for RESP2 and RESP3, and a reader of replies for tools and tests. It knows no
// commands.
package resp

// Limits bounds what a Reader accepts. All fields are counts or bytes, and must be above 0. They may be
// changed between two calls of Reader.Next, and apply to what is parsed after that.
type Limits struct {
	// Args is the maximum number of arguments of a command. WideArgs is the same for the commands that Wide
	// accepts.
	Args, WideArgs int
	// Bulk is the maximum number of bytes of one argument.
	Bulk int
	// LongBulk is the same for the commands that Long accepts, if it is more. Such a command may be longer than
	// Query by as much.
	LongBulk int
	// Inline is the maximum number of bytes of an inline command before its LF, and of a header line before
	// its CR. A header line of 24 bytes is always accepted.
	Inline int
	// Query is the maximum number of bytes of one command as it is sent, in one piece or in many.
	Query int
	// Skip is the maximum number of bytes of one argument of a command that is skipped. A command is skipped if
	// an argument has more than Bulk bytes, or if it has too many arguments: see TooLong. 0 means that such a
	// command ends the stream.
	Skip int
	// Unauthenticated means that the client has not given its password yet. Errors then have Redis' words for
	// that case, no command may have WideArgs arguments, and none is skipped.
	Unauthenticated bool
}

// TooLong and TooMany are returned in the place of a command that was skipped, as its only argument. Nothing of it
// is held, so its size needs no memory. Whoever runs commands replies with an error, and the stream goes on. A
// client that sends such a word itself gets that error as well.
const (
	TooLong = "\x00an argument is too long"
	TooMany = "\x00too many arguments"
)

// ProtocolError says why a stream cannot be read any further. Clients get its text after "-ERR ".
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string { return e.Text }

// Error texts for clients, in Redis' words if Redis has them.
const (
	errArgs          = "Protocol error: invalid multibulk length"
	errArgsUnauth    = "Protocol error: unauthenticated multibulk length"
	errArgsHeader    = "Protocol error: too big mbulk count string"
	errArgsEnd       = "Protocol error: expected CRLF after multibulk length"
	errBulk          = "Protocol error: invalid bulk length"
	errBulkUnauth    = "Protocol error: unauthenticated bulk length"
	errBulkHeader    = "Protocol error: too big bulk count string"
	errBulkHeaderEnd = "Protocol error: expected CRLF after bulk length"
	errBulkEnd       = "Protocol error: expected CRLF after bulk"
	errBulkExpected  = "Protocol error: expected '$', got '"
	errInline        = "Protocol error: too big inline request"
	errQuotes        = "Protocol error: unbalanced quotes in request"
	errQuery         = "Protocol error: too big query"
)
