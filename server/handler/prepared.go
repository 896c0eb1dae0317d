package handler

import "limitdb/engine"

// Prepared is what Row.Prepare has made of the words of a command: Call.Prepared, in Do. Every call has its own.
type Prepared interface {
	// Keys returns the keys on which the command decides.
	Keys() [][]byte
	// Keep returns it in a form that stays valid, also without the words, and holds little. Nothing uses the former form afterwards.
	Keep() Prepared
	// Free gives it back for reuse.
	Free()
	// Waits returns for how many nanoseconds it waits at most, as Asks; a negative number if it does not ask.
	Waits() int64
}

// Asks is a Prepared that may wait for the engine's decision. By itself such a command asks, and its session is parked until it is told; in a step it
// is decided at once, by Do.
type Asks interface {
	Prepared
	// Ask returns what it asks for, and the key, which is nil for several limits.
	Ask() (key []byte, w *engine.Waiter)
	// Told replies with the decision on the key.
	Told(c *Call, key []byte, w *engine.Waiter)
	// Size returns roughly how many bytes it holds while it waits.
	Size() int64
}

// Crosses is a Prepared whose keys may be in several groups, each of which does its part.
type Crosses interface {
	Prepared
	// Cross returns the requests to make, or the text of the error if that needs all its keys in one group. Each request is decided by itself.
	Cross() (all []Asked, text string)
	// Crossed replies with the decisions, which the requests have. Several have all been decided, or one has an error.
	Crossed(c *Call, all []Answered)
}

// Asked is a request to groups, and what every group does with its part.
type Asked struct {
	*engine.Together
	Each
}

// Answered is what has become of a request.
type Answered struct {
	At      int   // the limit that denies, or that Err is about; -1: none
	Sum     int64 // how many leases the groups have given back, together
	Err     error
	Decided bool // the request has the decisions
}

// ErrOneSlot returns the text of the error for a command with an option that needs all its keys in one group.
func ErrOneSlot(option string) string {
	return "CROSSSLOT " + option + " needs all keys in one slot: give them one hash tag, such as {user:17}, or the namespace of rules shard_by"
}

// Outdates is what asks under rules that may change while it waits.
type Outdates interface {
	// Outdated reports whether it must be prepared and asked again.
	Outdated() bool
}
