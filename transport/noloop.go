//go:build !linux

package transport

import (
	"net"
	"time"
)

// loops do not exist here.
type loops struct{}

func (g *Group) stopLoops() {}

// Stuck returns 0: there are no loops.
func (g *Group) Stuck() int64 { return 0 }

// loopListener serves each connection with a goroutine instead.
func (g *Group) loopListener(l net.Listener) (*listener, error) {
	return g.streamListener(l, nil), nil
}

// setTCP leaves the options to package net, which sets them on each connection.
func setTCP(int, time.Duration) error { return nil }

// setBacklog leaves the queue as package net makes it.
func setBacklog(net.Listener, int) error { return nil }
