package envoyrls

import (
	"context"
	"errors"
	"strconv"
)

// A code is a status code of gRPC.
type code int

// The codes that the port uses.
const (
	codeCancelled code = 1
	codeArgument  code = 3
	codeDeadline  code = 4
	codeNotFound  code = 5
	codeDenied    code = 7
	codeExhausted code = 8
	codeState     code = 9
	codeNoMethod  code = 12
	codeInternal  code = 13
	codeNotNow    code = 14 // UNAVAILABLE
	codeUnknown   code = 16 // UNAUTHENTICATED
)

// A failure is the status of a call that has no answer.
type failure struct {
	code code
	text string
}

// Error implements error.
func (f *failure) Error() string { return strconv.Itoa(int(f.code)) + ": " + f.text }

// failed returns a failure.
func failed(c code, text string) *failure { return &failure{c, text} }

// maxText is the most bytes of a text that a client is sent.
const maxText = 1024

// block returns the fields that end a call with the failure.
func (f *failure) block() string {
	text := f.text
	if len(text) > maxText {
		text = text[:maxText]
	}
	b := appendText([]byte(grpcStatus), strconv.Itoa(int(f.code)))
	return string(appendText(append(b, grpcMessage...), percent(text)))
}

// errLate is the failure of a call whose deadline is over.
var errLate = failed(codeDeadline, "the deadline is over")

// failureOf returns the failure for an error of a command that was waited for. late is set if the deadline of the call is over.
func failureOf(err error, late bool) *failure {
	switch {
	case errors.Is(err, context.DeadlineExceeded) && late:
		return errLate
	case errors.Is(err, context.DeadlineExceeded):
		return failed(codeNotNow, "the decision was not durable in time: it may have been counted")
	case errors.Is(err, context.Canceled):
		return failed(codeCancelled, "the call was cancelled")
	}
	return failed(codeNotNow, err.Error())
}
