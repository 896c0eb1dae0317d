package transport

import "time"

// pacer decides whether to read from a peer that has many replies unread. A peer that
// reads is made to wait until it has read more. A peer that writes everything before it reads
// would wait for ever, and so would we. It is silent: it takes nothing for a while. For such
// a peer the bound is doubled, again and again while the silence lasts, up to most.
//
// A slow peer is silent between two reads. Silence that has ended was no stall, so from
// then on twice as much of it is needed, until the peer has caught up.
type pacer struct {
	above int64         // unsent bytes at which to pause
	after time.Duration // of silence that doubles the bound
	most  func() int64  // unsent bytes at which nothing is read any more; nil: no such bound

	waiting  bool          // more than above is unsent
	mark     int64         // bytes taken, ever, when the silence began
	since    int64         // when the silence began, in nanoseconds
	patience time.Duration // the silence that is no stall
}

// maxPatience bounds patience: a peer that reads more seldom is read up to most.
const maxPatience = 5 * time.Second

// free reports whether so few bytes are unsent that the peer is read from at once.
func (p *pacer) free(unsent int64) bool {
	if unsent == 0 || unsent <= p.above && (p.most == nil || unsent <= p.most()) {
		p.waiting = false
		return true
	}
	return false
}

// read reports whether to read now, given the bytes unsent, the bytes that the peer has taken
// ever and a monotonic time in nanoseconds. If not, ask again when bytes were sent, at the
// latest after wait.
func (p *pacer) read(unsent, taken, now int64) (ok bool, wait time.Duration) {
	if p.free(unsent) {
		return true, 0
	}
	switch {
	case !p.waiting:
		p.waiting, p.mark, p.since, p.patience = true, taken, now, p.after
	case taken != p.mark:
		p.patience = max(p.patience, min(maxPatience, 2*time.Duration(now-p.since)))
		p.mark, p.since = taken, now
	}
	stalled := time.Duration(now-p.since) - p.patience
	switch {
	case stalled < 0:
		return false, -stalled
	case p.most != nil && unsent > p.most():
		return false, p.after
	case unsent>>min(62, 1+stalled/p.after) < p.above:
		return true, 0
	}
	return false, p.after - stalled%p.after
}
