package forward

import (
	"slices"
	"sync"

	"limitdb/uplink"
)

// maxKept is the most idle streams that are kept.
const maxKept = 64

// Stream is a stream for one command at a time.
type Stream struct {
	*uplink.Stream
	In     Inbox
	Woken  Waker // the inbox has something
	client uplink.Client
}

// Streams holds idle streams.
type Streams struct {
	mu   sync.Mutex
	kept []*Stream // guarded by mu
}

// Take returns a stream of an uplink for a caller that client describes to the leader, or nil if it cannot get one.
func (d *Streams) Take(link *uplink.Link, client uplink.Client) *Stream {
	for {
		st := d.pop(&client)
		if st == nil {
			break
		}
		if _, ended, _ := st.In.Take(); !ended && st.Of(link) {
			return st
		}
		st.Close()
	}
	st := &Stream{Woken: make(Waker, 1), client: client}
	st.In.Wake = st.Woken.Wake
	if st.Stream = link.Open(&client, &st.In); st.Stream == nil {
		return nil
	}
	return st
}

// pop returns the latest stream of a caller, nil if none is kept.
func (d *Streams) pop(client *uplink.Client) *Stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, st := range slices.Backward(d.kept) {
		if st.client == *client {
			d.kept = slices.Delete(d.kept, i, i+1)
			return st
		}
	}
	return nil
}

// Put keeps a stream for the next command of its caller, in place of the one that was kept first if there are too many.
func (d *Streams) Put(st *Stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) == maxKept {
		d.kept[0].Close()
		d.kept = slices.Delete(d.kept, 0, 1)
	}
	d.kept = append(d.kept, st)
}

// Kept returns the number of idle streams.
func (d *Streams) Kept() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.kept)
}
