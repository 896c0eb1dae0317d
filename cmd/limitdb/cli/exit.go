// Package cli has what the server and the subcommands of limitdb share.
package cli

import "fmt"

// ExitCode is the exit status of the process. The error that WithStatus attaches it to has the message.
type ExitCode int

// ExitCorrupt is the exit status for data that cannot be trusted: EX_DATAERR of sysexits.h.
const ExitCorrupt = ExitCode(65)

func (c ExitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// UsageError makes err a mistake on the command line, with exit status 2.
func UsageError(err error) error { return WithStatus(err, 2) }

// WithStatus makes err end the process with an exit status.
func WithStatus(err error, code ExitCode) error { return withStatus{err, code} }

// withStatus is an error with the exit status that it causes.
type withStatus struct {
	error
	code ExitCode
}

func (e withStatus) Unwrap() []error { return []error{e.error, e.code} }
