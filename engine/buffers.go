package engine

import "sync"

// buffers holds the buffers that steps write their next states to, so that no step
// leaves them to the garbage collector. All shards of an engine share it.
type buffers struct {
	// steps holds buffers (*[]byte) for the states of leases and of Step, which
	// may not be written over the old ones. There is at most one for each
	// processor.
	steps sync.Pool
	// long is a buffer of a long state that has outgrown its box, for the next such
	// step: the box gets a copy. It matters to a table that has no room for the new
	// states.
	long struct {
		mu  sync.Mutex
		buf []byte
	}
}

const (
	// maxBuffer is the size of the largest buffer that steps holds.
	maxBuffer = 1 << 20
	// growth is at least what one step adds to a long state of leases or of LOG.
	growth = 512
	// fixedState is the length of most bucket states (GCRA to QUEUE): a time and
	// its pace.
	fixedState = 10
)

// get returns an empty buffer for a state, which put takes back.
func (b *buffers) get() *[]byte {
	if buf, _ := b.steps.Get().(*[]byte); buf != nil {
		return buf
	}
	return new([]byte)
}

// put takes a buffer back. Its new memory is now or, if that is nil, unchanged.
func (b *buffers) put(buf *[]byte, now []byte) {
	if now != nil && cap(now) <= maxBuffer {
		*buf = now[:0]
	}
	b.steps.Put(buf)
}

// getLong returns the buffer of a long state, empty, if it has room for n bytes;
// else nil.
func (b *buffers) getLong(n int) []byte {
	b.long.mu.Lock()
	defer b.long.mu.Unlock()
	buf := b.long.buf
	if b.long.buf = nil; cap(buf) < n {
		return nil
	}
	return buf[:0]
}

// putLong keeps the buffer of next, unless that is state, changed in place, or is
// short.
func (b *buffers) putLong(next, state []byte) {
	if cap(next) <= growth || len(next) == 0 || len(state) > 0 && &next[0] == &state[0] {
		return
	}
	b.long.mu.Lock()
	b.long.buf = next
	b.long.mu.Unlock()
}
