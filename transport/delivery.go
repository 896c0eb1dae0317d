package transport

import "sync/atomic"

// delivery counts the bytes that a socket has taken, and of these the bytes that the peer's
// system has acknowledged. The system's own buffer holds megabytes, so that it may take nothing for
// seconds while a slow peer reads on.
type delivery struct {
	sent  atomic.Int64 // bytes that the socket took, ever
	taken atomic.Int64 // the most that was seen to be acknowledged
	mark  atomic.Int64 // taken at the last call of goesOn
}

// look asks the socket how much the peer has taken. It reports whether that is more than before.
func (d *delivery) look(fd int) bool {
	taken := d.sent.Load() - unacknowledged(fd) // in this order: what is sent in between counts later
	for {
		before := d.taken.Load()
		if taken <= before {
			return false
		}
		if d.taken.CompareAndSwap(before, taken) {
			return true
		}
	}
}

// goesOn reports whether the peer has taken anything since the last call.
func (d *delivery) goesOn(fd int) bool {
	d.look(fd)
	taken := d.taken.Load()
	return d.mark.Swap(taken) != taken
}
