package forward

import (
	"sync"

	"limitdb/uplink"
)

// maxKept is the most idle streams that are kept.
const maxKept = 64

// Stream is a stream for one command at a time.
type Stream struct {
	*uplink.Stream
	In    Inbox
	Woken Waker // the inbox has something
}

// Streams holds idle streams.
type Streams struct {
	// Client describes the callers to the leader.
	Client uplink.Client

	mu   sync.Mutex
	kept []*Stream // guarded by mu
}

// Take returns a stream of an uplink, or nil if it cannot get one.
func (d *Streams) Take(link *uplink.Link) *Stream {
	for {
		st := d.pop()
		if st == nil {
			break
		}
		if _, ended, _ := st.In.Take(); !ended && st.Of(link) {
			return st
		}
		st.Close()
	}
	st := &Stream{Woken: make(Waker, 1)}
	st.In.Wake = st.Woken.Wake
	client := d.Client
	if st.Stream = link.Open(&client, &st.In); st.Stream == nil {
		return nil
	}
	return st
}

func (d *Streams) pop() *Stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.kept)
	if n == 0 {
		return nil
	}
	st := d.kept[n-1]
	d.kept = d.kept[:n-1]
	return st
}

// Put keeps a stream for the next caller.
func (d *Streams) Put(st *Stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) == maxKept {
		st.Close()
		return
	}
	d.kept = append(d.kept, st)
}

// Kept returns the number of idle streams.
func (d *Streams) Kept() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.kept)
}
