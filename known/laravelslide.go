package known

import (
	"math"
	"strconv"

	"limitdb/resp"
	"limitdb/value"
)

// slide is what the sliding window of Redis::throttle keeps in a hash: when the window
// began, in seconds, its count of requests and that of the window before.
type slide struct {
	key                      Value
	start, current, previous int64

	now, window, most int64 // of the call: ARGV[2] to ARGV[4]
}

// slideOf reads the arguments and the hash. It returns false if those are anything but what
// Laravel writes.
func slideOf(r *Run) (s slide, ok bool) {
	s.now, s.window, s.most, ok = throttleArgs(r)
	var plain bool
	if s.key, plain = r.Store.Get(r.Keys[0]); !ok || !plain || !s.key.exists() {
		return s, ok && plain
	}
	if s.key.Type != value.Hash {
		return s, false
	}
	h := value.OpenHash(s.key.Body)
	for _, f := range [...]struct {
		name string
		into *int64
	}{{"window_start", &s.start}, {"current", &s.current}, {"previous", &s.previous}} {
		text, _ := h.Get([]byte(f.name))
		if *f.into, ok = resp.ParseInt(text); !ok || *f.into <= -maxWhole || *f.into >= maxWhole {
			return s, false
		}
	}
	return s, true
}

// over reports whether both windows are over.
func (s *slide) over() bool { return !s.key.exists() || s.now >= s.start+2*s.window }

// next reports whether the window is over.
func (s *slide) next() bool { return s.now >= s.start+s.window }

// used returns how many requests count: those of a window and, in proportion to what the
// last window still covers, those of the window before. It is false if they are too many.
func (s *slide) used() (n int64, ok bool) {
	start, current, previous := s.start, s.current, s.previous
	if s.next() {
		start, current, previous = s.start+s.window, 0, s.current
	}
	overlap := max(0, 1-float64(s.now-start)/float64(s.window))
	n, ok = truncated(math.Floor(float64(overlap * float64(previous))))
	return n + current, ok
}

// laravelSlide takes one of ARGV[4] requests in ARGV[3] seconds. It replies whether it
// could, when the window ends and how many remain. The first request of a window counts
// even if it is denied.
func laravelSlide(r *Run) bool {
	s, ok := slideOf(r)
	if !ok {
		return false
	}
	if s.over() {
		putSlide(r, &s, s.now, 1, 0)
		return slideReply(r, 1, s.now+s.window, s.most-1)
	}
	used, ok := s.used()
	if !ok {
		return false
	}
	left := s.most - used - 1
	if s.next() {
		putSlide(r, &s, s.now, 1, s.current)
		s.start = s.now
	} else if left >= 0 {
		putSlide(r, &s, s.start, s.current+1, s.previous)
	}
	if left < 0 {
		return slideReply(r, 0, s.start+s.window, 0)
	}
	return slideReply(r, 1, s.start+s.window, left)
}

// slideReply replies with three integers.
func slideReply(r *Run, granted, end, left int64) bool {
	r.Array(3)
	r.Int(granted)
	r.Int(end)
	r.Int(left)
	return true
}

// putSlide stores a window. A new one is kept for twice its length.
func putSlide(r *Run, s *slide, start, current, previous int64) {
	h := value.OpenHash(s.key.Body)
	var text [20]byte
	for _, f := range [...]struct {
		name string
		n    int64
	}{{"window_start", start}, {"current", current}, {"previous", previous}} {
		h.Set([]byte(f.name), strconv.AppendInt(text[:0], f.n, 10))
	}
	expires := s.key.Expires
	if s.over() || s.next() {
		expires = r.millis() + s.window*2000
	}
	r.put(r.Keys[0], value.Hash, h.Body(), expires)
}

// laravelSlideTooMany replies when the window ends, and how many requests remain; with 0
// first if nothing counts any more.
func laravelSlideTooMany(r *Run) bool {
	s, ok := slideOf(r)
	if !ok {
		return false
	}
	if s.over() {
		r.pair(0, s.now+s.window)
		return true
	}
	used, ok := s.used()
	end := s.start + s.window
	if s.next() {
		end = s.now + s.window
	}
	r.pair(end, max(0, s.most-used))
	return ok
}
