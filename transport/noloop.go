//go:build !linux

package transport

import (
	"net"
	"time"
)

// loops do not exist on this system.
type loops struct{}

func (g *Group) stopLoops() {}

// Stuck returns 0, since there are no loops.
func (g *Group) Stuck() int64 { return 0 }

// loopListener returns a listener that serves each connection with a goroutine.
func (g *Group) loopListener(l net.Listener) (*listener, error) {
	return g.streamListener(l, nil), nil
}

// setTCP does nothing: package net sets the options on each connection.
func setTCP(int, time.Duration) error { return nil }

// setBacklog does nothing: the queue stays as package net makes it.
func setBacklog(net.Listener, int) error { return nil }
