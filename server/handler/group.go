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
	// Ahead is how far the group's time is ahead of the process's clock, in ns. It changes only when the node begins to lead.
	Ahead atomic.Int64
}

// At returns the time of the group when the process's clock has a time.
func (g *Group) At(now int64) int64 { return now + g.Ahead.Load() }
