package request

import (
	"errors"
	"strconv"

	"limitdb/engine"
	"limitdb/hold"
	"limitdb/limit"
	"limitdb/server/spec"
)

// ErrCostNegative is the reply to a COST below 0.
const ErrCostNegative = "ERR COST is negative"

// A Told is the error that another node has replied with.
type Told string

// Error implements error.
func (t Told) Error() string { return string(t) }

// ErrorText returns the reply for an error of package limit or engine, or for a Told.
func ErrorText(err error) string {
	var told Told
	switch {
	case errors.As(err, &told):
		return string(told)
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
	case errors.Is(err, engine.ErrNoHold):
		return "NOHOLD nothing is known of this ID: it was never held, was settled over 30 s ago, or twice its TTL has passed"
	case errors.Is(err, engine.ErrHeld):
		return "HELD this ID is that of another hold, or of one that is over; use a new ID for each request"
	case errors.Is(err, engine.ErrCancelled):
		return "CANCELLED this ID was cancelled before it was held"
	case errors.Is(err, engine.ErrOnce):
		return "IDUSED this ID is that of another request; use a new ID for each request, and the same only to send it again"
	case errors.Is(err, hold.ErrLive):
		return "ERR the key has " + strconv.Itoa(hold.MaxLive) + " holds, which is the most; commit or cancel some"
	case errors.Is(err, hold.ErrKnown):
		return "ERR the key has too many IDs that are still remembered; use shorter TTLs (of ONCE: FOR), or several keys"
	}
	return "ERR " + spec.Plain(err)
}

// WrongType returns the error for a key that holds another kind of state.
func WrongType(holds, wants limit.Kind) string {
	return spec.ErrWrongType + ": it holds " + holds.String() + ", not " + wants.String() + "; RL.RESET forgets it"
}

// noValue returns the error for an option that ends the command.
func noValue(option string) string {
	return "ERR syntax error: a value is missing after " + strconv.Quote(option)
}
