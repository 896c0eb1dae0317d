package transport

import "time"

// pacer decides whether to read from a peer that has many unread replies. A peer that reads must wait until
// it has read more. A peer that writes everything before it reads would wait forever, and so would we. Such a
// peer is silent: it takes nothing for a while. For a silent peer the bound is doubled, again and again while
// the silence lasts, up to most.
//
// A slow peer is silent between two reads. When a silence ends, it was not a stall; from then on a silence
// must last twice as long, until the peer has caught up.
type pacer struct {
	above int64         // the number of unsent bytes at which to pause
	after time.Duration // the silence that doubles the bound
	most  func() int64  // the number of unsent bytes at which reading stops for any peer; nil means no bound

	waiting  bool          // more than above is unsent
	mark     int64         // bytes ever taken when the silence began
	since    int64         // when the silence began, in ns
	patience time.Duration // how long a silence may last without being a stall
}

// maxPatience bounds patience. A peer that reads less often is read from until most bytes are unsent.
const maxPatience = 5 * time.Second

// free reports whether few enough bytes are unsent to read without asking read.
func (p *pacer) free(unsent int64) bool {
	if unsent == 0 || unsent <= p.above && (p.most == nil || unsent <= p.most()) {
		p.waiting = false
		return true
	}
	return false
}

// read reports whether to read now, given the number of unsent bytes, the number of bytes that the peer has
// ever taken, and a monotonic time in ns. If not, ask again when bytes were sent, and at the latest after
// wait, in ns.
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
