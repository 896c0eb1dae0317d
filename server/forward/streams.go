package forward

import "limitdb/uplink"

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
type Streams struct{ idle[*Stream] }

// Take returns a stream of an uplink for a caller that client describes to the leader, or nil if it cannot get one.
func (d *Streams) Take(link *uplink.Link, client uplink.Client) *Stream {
	fits := func(st *Stream) bool { return st.client == client }
	for st, ok := d.pop(fits); ok; st, ok = d.pop(fits) {
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

// Put keeps a stream for the next command of its caller, in place of the one that was kept first if there are too many.
func (d *Streams) Put(st *Stream) { d.put(st, maxKept) }
