package server

import (
	"sync"

	"limitdb/uplink"
)

// inbox has what a stream has brought and its session has not yet taken. It implements uplink.Receiver.
type inbox struct {
	wake func()

	mu    sync.Mutex // guards what follows
	b     []byte
	ended bool
	cause uplink.Cause
}

// Received implements uplink.Receiver.
func (i *inbox) Received(b []byte) {
	i.mu.Lock()
	i.b = append(i.b, b...)
	i.mu.Unlock()
	i.wake()
}

// Ended implements uplink.Receiver.
func (i *inbox) Ended(cause uplink.Cause) {
	i.mu.Lock()
	i.ended, i.cause = true, cause
	i.mu.Unlock()
	i.wake()
}

// take returns what has come, and whether and why the stream is over.
func (i *inbox) take() (b []byte, ended bool, cause uplink.Cause) {
	i.mu.Lock()
	defer i.mu.Unlock()
	b, i.b = i.b, nil
	return b, i.ended, i.cause
}
