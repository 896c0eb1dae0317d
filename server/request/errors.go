package request

import (
	"errors"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/spec"
)

// ErrCostNegative is the reply to a COST below 0.
const ErrCostNegative = "ERR COST is negative"

// ErrorText returns the reply for an error of package limit or engine.
func ErrorText(err error) string {
	switch {
	case errors.Is(err, engine.ErrWrongType):
		return spec.ErrWrongType
	case errors.Is(err, engine.ErrOOM):
		return spec.ErrOOM
	case errors.Is(err, engine.ErrClosed):
		return spec.ErrNoLeader
	case errors.Is(err, engine.ErrTooMany):
		return spec.ErrTooMany
	case errors.Is(err, limit.ErrNoLease):
		return "NOLEASE " + err.Error()
	}
	return "ERR " + spec.Plain(err)
}

// WrongType returns the error for a key that holds another kind of state.
func WrongType(holds, wants limit.Kind) string {
	return spec.ErrWrongType + ": it holds " + holds.String() + ", not " + wants.String() + "; RL.RESET forgets it"
}
