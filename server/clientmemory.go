package server

import "unsafe"

// connMemory is roughly the memory that the transport uses for a connection, in bytes.
const connMemory = 512

// clientMemory is the memory that the server holds for a client, in bytes.
type clientMemory struct {
	query     int64 // the buffer of input that has not run
	args      int64 // the command that a pause holds back, or that has yielded, with its results so far
	multi     int64 // its transaction
	texts     int64 // its names
	subs      int64 // its subscriptions
	held      int64 // replies that wait for the disk
	unsent    int64 // the buffers of replies that it has not read
	unsentIn  int64 // the number of these buffers
	connected int64 // the session itself
}

// memory returns the memory that the server holds for s. Any goroutine may call it.
func (s *session) memory() clientMemory {
	buffers, unsent := s.conn.Queue()
	return clientMemory{
		query: s.pub.queryMemory.Load(), args: s.pub.argMemory.Load() + s.pub.stepMemory.Load(), multi: s.pub.multiMemory.Load(), texts: s.pub.textMemory.Load(),
		subs: s.pub.subBytes.Load(), held: s.pub.owed.Load(), unsent: unsent, unsentIn: buffers,
		connected: int64(unsafe.Sizeof(*s)) + connMemory,
	}
}

// growing returns the part that a client can make larger, which maxmemory-clients bounds.
func (m *clientMemory) growing() int64 {
	return m.query + m.args + m.multi + m.texts + m.subs + m.held + m.unsent
}

// total returns tot-mem of CLIENT LIST.
func (m *clientMemory) total() int64 { return m.growing() + m.connected }

// holding returns the memory of s that maxmemory-clients bounds.
func (s *session) holding() int64 {
	m := s.memory()
	return m.growing()
}
