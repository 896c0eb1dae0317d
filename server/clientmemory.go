package server

import "unsafe"

// connMemory is about what a connection takes of the transport's memory.
const connMemory = 512

// clientMemory is what a client makes the server hold, in bytes.
type clientMemory struct {
	query     int64 // the buffer of what it has sent and what has not run
	args      int64 // the command that a pause holds back, or that has yielded, with what it has found
	texts     int64 // its names
	subs      int64 // its subscriptions
	held      int64 // replies that wait for the disk
	unsent    int64 // the buffers of replies that it has not taken
	unsentIn  int64 // the number of these buffers
	connected int64 // the session itself
}

// memory is what s holds. Any goroutine may call it.
func (s *session) memory() clientMemory {
	buffers, unsent := s.conn.Queue()
	return clientMemory{
		query: s.pub.queryMemory.Load(), args: s.pub.argMemory.Load() + s.pub.stepMemory.Load(), texts: s.pub.textMemory.Load(),
		subs: s.pub.subBytes.Load(), held: s.pub.owed.Load(), unsent: unsent, unsentIn: buffers,
		connected: int64(unsafe.Sizeof(*s)) + connMemory,
	}
}

// growing is the part of it that a client can make larger: what maxmemory-clients bounds.
func (m *clientMemory) growing() int64 {
	return m.query + m.args + m.texts + m.subs + m.held + m.unsent
}

// total is CLIENT LIST's tot-mem.
func (m *clientMemory) total() int64 { return m.growing() + m.connected }

// holding is what maxmemory-clients bounds.
func (s *session) holding() int64 {
	m := s.memory()
	return m.growing()
}
