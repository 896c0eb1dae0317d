// Package resp is the wire: a bounded, incremental reader of RESP commands
// (RESP2 arrays and inline), append-style writers for RESP2 and RESP3, and a
// reader of replies for tools and tests. It knows no command.
package resp

// Limits bounds what a Reader accepts. All are counts or bytes; every number
// must be above 0. They may be changed between two calls of Reader.Next, and
// hold for what is parsed from then on.
type Limits struct {
	// Args is the most arguments of a command; WideArgs is the same for
	// the commands that Wide names.
	Args, WideArgs int
	// Bulk is the most bytes of one argument.
	Bulk int
	// Inline is the most bytes of an inline command before its LF, and of a
	// header line before its CR; a header line of 24 bytes is always taken.
	Inline int
	// Query is the most bytes of one command as it is sent, whether it
	// comes in one piece or in many.
	Query int
	// Unauthenticated says that these are the limits of a client that has
	// yet to give its password. Errors then have the words that Redis has for it,
	// and no command may have WideArgs arguments.
	Unauthenticated bool
}

// ProtocolError says why a stream cannot be read on. Its text is what the
// client is told after "-ERR ".
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string { return e.Text }

// What a client is told; the words are Redis' own where Redis has any.
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
