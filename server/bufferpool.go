package server

import "sync"

// bufferPool holds reply buffers for reuse, so that an idle client holds none.
type bufferPool struct{ pool sync.Pool }

const (
	bufferSize = 16 << 10
	bufferKeep = 256 << 10 // larger ones are left to the garbage collector
)

func (p *bufferPool) get() []byte {
	if b, ok := p.pool.Get().(*[bufferSize]byte); ok {
		return b[:0]
	}
	return make([]byte, 0, bufferSize)
}

func (p *bufferPool) put(b []byte) {
	if cap(b) >= bufferSize && cap(b) <= bufferKeep {
		p.pool.Put((*[bufferSize]byte)(b[:bufferSize]))
	}
}
