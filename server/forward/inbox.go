// Package forward has what the forwarding of commands needs beside sessions: where replies arrive, streams for callers
// without a connection, and those who wait for a leader.
package forward

import (
	"sync"

	"limitdb/uplink"
)

// Inbox holds what a stream has received until its owner takes it. It implements uplink.Receiver.
type Inbox struct {
	Wake func() // is called when there is something to take

	mu    sync.Mutex // guards what follows
	b     []byte
	ended bool
	cause uplink.Cause
}

// Received implements uplink.Receiver.
func (i *Inbox) Received(b []byte) {
	i.mu.Lock()
	i.b = append(i.b, b...)
	i.mu.Unlock()
	i.Wake()
}

// Ended implements uplink.Receiver.
func (i *Inbox) Ended(cause uplink.Cause) {
	i.mu.Lock()
	i.ended, i.cause = true, cause
	i.mu.Unlock()
	i.Wake()
}

// Take returns what the stream has received, and whether and why it is over.
func (i *Inbox) Take() (b []byte, ended bool, cause uplink.Cause) {
	i.mu.Lock()
	defer i.mu.Unlock()
	b, i.b = i.b, nil
	return b, i.ended, i.cause
}
