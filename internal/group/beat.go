package group

import (
	"slices"
	"sync"
	"time"
)

// A Beat has drainers of one process begin at the same moments. Each drain costs syncs and messages, however little it carries. With a beat, what
// changes for all of them while it is underway is for the next one: drains are fewer and larger, and a reply that waits for several waits for one
// beat.
//
//	asked    a drainer has something to drain
//	flying   the drainers of this beat, until what they have drained is accepted
//	resting  the processors are busy: what comes soon is still for the next beat
//
// Nobody waits for long for a drainer that hears from no majority: after beatLimit, the next beat begins without it. Until it has caught up, it
// drains when it asks, as if there were no beat.
//
// The zero value is ready to use.
type Beat struct {
	mu      sync.Mutex // guards all, and the seats
	asked   []*Seat
	flying  []*Seat
	resting bool
	size    int         // drainers of the beat
	began   int64       // Elapsed when it began
	lag     int64       // how long after that its last drainer began
	busy    int64       // a running mean of lag
	timer   *time.Timer // ends the beat, or the rest
}

const (
	// beatLimit is how long a beat waits for its drainers.
	beatLimit = 20 * time.Millisecond
	// restLags is how long a rest is, in lags, and restMost how long it is at most. A drainer begins some 20 µs after it is told to, but later if
	// the processors have other work. Then more decisions are about to be made, and a drain that begins now takes their time.
	restLags = 8
	restMost = 20 * time.Millisecond
)

// Seat is a drainer's place in a beat.
type Seat struct {
	beat        *Beat // nil: none
	tell        func()
	elapsed     func() int64
	asks        bool // it is among asked
	late, apart bool // it drains when it asks
}

// NewSeat returns a place in a beat, nil for none. elapsed returns a monotonic time in ns, and tell has the drainer begin; it must not block.
func NewSeat(b *Beat, elapsed func() int64, tell func()) *Seat {
	return &Seat{beat: b, elapsed: elapsed, tell: tell}
}

// Alone reports whether there is no beat.
func (s *Seat) Alone() bool { return s.beat == nil }

// Ask has the drainer begin with the next beat; at once, if there is none.
func (s *Seat) Ask() {
	b := s.beat
	if b == nil {
		s.tell()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case s.late || s.apart:
		s.tell()
	case !s.asks:
		s.asks = true
		b.asked = append(b.asked, s)
		b.next()
	}
}

// next begins the next beat, if that may begin. The lock is held.
func (b *Beat) next() {
	if len(b.flying) > 0 || b.resting || len(b.asked) == 0 {
		return
	}
	b.flying, b.asked = b.asked, b.flying
	b.size, b.began, b.lag = len(b.flying), b.flying[0].elapsed(), 0
	for _, s := range b.flying {
		s.asks = false
		s.tell()
	}
	b.after(beatLimit)
}

// after has due called.
func (b *Beat) after(d time.Duration) {
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.due)
	} else {
		b.timer.Reset(d)
	}
}

// due goes on without those who are late, or ends the rest.
func (b *Beat) due() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.flying {
		s.late = true
	}
	clear(b.flying)
	b.flying, b.resting = b.flying[:0], false
	b.next()
}

// Begins notes that the drainer begins to drain.
func (s *Seat) Begins() {
	b := s.beat
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.flying, s) {
		b.lag = s.elapsed() - b.began
	}
}

// Ended notes that nothing which the drainer has drained is in flight.
func (s *Seat) Ended() {
	b := s.beat
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.late = false
	i := slices.Index(b.flying, s)
	if i < 0 {
		return
	}
	if b.flying = slices.Delete(b.flying, i, i+1); len(b.flying) > 0 {
		return
	}
	b.timer.Stop()
	b.busy += (b.lag - b.busy) / 4
	if rest := min(time.Duration(restLags*b.busy), restMost); b.size > 1 && rest > 0 {
		b.resting = true
		b.after(rest)
	}
	b.next()
}

// Leaves says that the drainer stops.
func (s *Seat) Leaves() {
	b := s.beat
	if b == nil {
		return
	}
	s.Ended()
	b.mu.Lock()
	defer b.mu.Unlock()
	s.apart = true
	b.asked = slices.DeleteFunc(b.asked, func(o *Seat) bool { return o == s })
}
