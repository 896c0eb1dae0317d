package transport

import "sync/atomic"

// delivery counts the bytes that a socket has taken, and how many of these the peer's system has
// acknowledged. The local system's buffer holds megabytes, so it may take nothing for seconds although a slow
// peer reads on.
type delivery struct {
	sent  atomic.Int64 // bytes that the socket ever took
	taken atomic.Int64 // the highest count of acknowledged bytes seen
	mark  atomic.Int64 // taken at the last call of goesOn
}

// look asks the socket how much the peer has taken. It reports whether that is more than before.
func (d *delivery) look(fd int) bool {
	taken := d.sent.Load() - unacknowledged(fd) // in this order, so that bytes sent in between count later
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
