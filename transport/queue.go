package transport

import (
	"math/bits"
	"sync"
)

const (
	minChunk = 12 // log2 of the smallest chunk, 4 kB
	maxChunk = 16 // log2 of the largest chunk, 64 kB
	readSize = 1 << maxChunk
)

// chunk is a piece of a queue. buf[r:w] is unsent.
type chunk struct {
	next *chunk
	buf  []byte
	r, w int
}

// buffers lends chunks of 4 to 64 kB. A connection holds one only while it has bytes in it, so an idle
// connection has none.
type buffers struct {
	pools [maxChunk - minChunk + 1]sync.Pool
}

// get returns an empty chunk for about n more bytes.
func (b *buffers) get(n int) *chunk {
	class := min(max(bits.Len(uint(max(n, 1)-1)), minChunk), maxChunk)
	if c, ok := b.pools[class-minChunk].Get().(*chunk); ok {
		return c
	}
	return &chunk{buf: make([]byte, 1<<class)}
}

// put takes back c.
func (b *buffers) put(c *chunk) {
	c.next, c.r, c.w = nil, 0, 0
	b.pools[bits.Len(uint(len(c.buf)))-1-minChunk].Put(c)
}

// queue holds unsent bytes in order. Its memory is less than twice the bytes it holds, plus 4 kB. The zero
// value is an empty queue. A queue is not safe for concurrent use.
type queue struct {
	first, last *chunk
	size        int
	chunks      int
	memory      int // of the chunks
}

// push appends a copy of p.
func (q *queue) push(b *buffers, p []byte) {
	q.size += len(p)
	for len(p) > 0 {
		if q.last == nil || q.last.w == len(q.last.buf) {
			// As large as what the queue already holds: this gives few chunks with little empty space.
			c := b.get(max(len(p), q.size-len(p)))
			if q.last == nil {
				q.first = c
			} else {
				q.last.next = c
			}
			q.last = c
			q.chunks++
			q.memory += len(c.buf)
		}
		n := copy(q.last.buf[q.last.w:], p)
		q.last.w += n
		p = p[n:]
	}
}

// head returns the first stretch of bytes, empty if the queue is. It stays valid while others push.
func (q *queue) head() []byte {
	if q.first == nil {
		return nil
	}
	return q.first.buf[q.first.r:q.first.w]
}

// pop drops the first n bytes of head.
func (q *queue) pop(b *buffers, n int) {
	q.size -= n
	c := q.first
	c.r += n
	if c.r < c.w {
		return
	}
	// A chunk that was sent goes back even if it has room, so that an idle queue holds nothing.
	q.first = c.next
	if q.first == nil {
		q.last = nil
	}
	q.chunks--
	q.memory -= len(c.buf)
	b.put(c)
}

// clear drops everything.
func (q *queue) clear(b *buffers) {
	for q.first != nil {
		c := q.first
		q.first = c.next
		b.put(c)
	}
	q.last, q.size, q.chunks, q.memory = nil, 0, 0, 0
}
