package simulate

import (
	"errors"
	"io"
)

// RunOptions says what to do with lines that are not requests.
type RunOptions struct {
	// Strict makes the first such line end the run, as its error.
	Strict bool
	// Bad is called for each such line, if it is not nil.
	Bad func(*LineError)
}

// Run replays a trace from its current line to its end. Several traces can be run one after the other, such
// as the pieces of a rotated log, oldest first. The error is that of the trace's reader or, with Strict, a
// *LineError. A request without a caller is only counted.
func Run(t *Trace, r *Replay, o RunOptions) error {
	var req Request
	var wrong *LineError
	for {
		err := t.Next(&req)
		switch {
		case err == nil:
			r.lines++
			r.Add(&req)
		case errors.Is(err, ErrNoCaller):
			r.lines++
			r.anonymous++
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &wrong) && !o.Strict:
			r.lines++
			r.bad++
			if o.Bad != nil {
				o.Bad(wrong)
			}
		default:
			return err
		}
	}
}
