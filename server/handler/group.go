package handler

import (
	"sync/atomic"

	"limitdb/engine"
)

// A Group is what handlers see of a group: a part of the keys on which one node at a time decides.
type Group struct {
	// Engine is the engine in force. A node uses a new engine each time that it becomes leader, so that a late
	// decision meets a closed engine.
	Engine atomic.Pointer[engine.Engine]
}
