package transport

import "time"

// pacer decides whether a connection with many unsent bytes is read from. A peer that reads is
// made to wait until it has read more. But a peer that writes everything before it reads would wait for
// ever, as would we; it shows by no byte being sent for a while. Such a peer is read from without
// further pauses until it begins to read.
type pacer struct {
	above int64         // unsent bytes at which to pause
	after time.Duration // of silence that mean a stall

	waiting bool  // a pause is on
	stalled bool  // the peer was found not to read
	mark    int64 // bytes sent, ever, when the wait or the stall began
	since   int64 // when mark was last seen to move, in nanoseconds
}

// read tells whether to read now, given the bytes unsent, the bytes sent ever and a monotonic
// time in nanoseconds. If not, ask again when bytes were sent, at the latest after wait.
func (p *pacer) read(unsent, sent, now int64) (ok bool, wait time.Duration) {
	if unsent <= p.above {
		p.waiting = false
		return true, 0
	}
	if p.stalled {
		if sent == p.mark {
			return true, 0
		}
		p.stalled = false
	}
	if !p.waiting || sent != p.mark {
		p.waiting, p.mark, p.since = true, sent, now
	}
	if silent := time.Duration(now - p.since); silent < p.after {
		return false, p.after - silent
	}
	p.waiting, p.stalled = false, true
	return true, 0
}
