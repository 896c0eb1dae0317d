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

// Outdates is what asks under rules that may change while it waits.
type Outdates interface {
	// Outdated reports whether it must be prepared and asked again.
	Outdated() bool
}
