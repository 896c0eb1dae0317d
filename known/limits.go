package known

import (
	"math"
	"slices"

	"limitdb/resp"
	"limitdb/script"
	"limitdb/value"
)

// limits, a Python package that Flask-Limiter and slowapi use: fixed windows are counters,
// moving windows are lists of times, the newest first, and sliding windows are the
// counters of two windows.

var pythonLimits = [...]Script{
	{"628bd136a573a06b346879695681af12ccef300f", "limits (Python)", "incr_expire", "2.3.0 on", 1, 2, limitsIncr},
	{"ab9a35aa62ed8fa50cf1c655a522698512c9b126", "limits (Python)", "incr_expire", "2.1 – 2.2", 1, 1, limitsIncrOne},
	{"f2994557f1daca13bfef97c2a31ca4b174e031ca", "limits (Python)", "clear_keys", "2.1.0b1 on", 0, 0, nil},
	{"ad795214f59fe26d6fdec07973836dd16586f5ec", "limits (Python)", "moving_window", "5.0.0rc1 on", 1, 2, limitsSearch},
	{"f2ef2962263bbe72f66f5bbd0da234e74d880068", "limits (Python)", "moving_window", "4.x", 1, 2, limitsWindow{texts: true, lowest: true}.get},
	{"bf95c654b6be0a54713252ef2362a25546faf877", "limits (Python)", "moving_window", "3.10 – 3.14", 1, 2, limitsWindow{lowest: true}.get},
	{"3136f0028c572d2959b5cdc5ec15b287fab6a9ff", "limits (Python)", "moving_window", "2.1 – 3.9", 1, 2, limitsWindow{}.get},
	{"741eab638ba93ed71020bb821c45c022d0fa02c4", "limits (Python)", "acquire_moving_window", "5.0.0rc1 on", 1, 4, limitsAcquire{}.take},
	{"19c9778cd6391e2ee9f90aa518bf56256d15b4ae", "limits (Python)", "acquire_moving_window", "3.5 – 4.8", 1, 4, limitsAcquire{}.take},
	{"bec85d5af0739203306474d2cac591c3d6f907d2", "limits (Python)", "acquire_moving_window", "3.1.6 – 3.4", 1, 4, limitsAcquire{}.take},
	{"d19f37c18768a509dbf1310a257bfc35be65609f", "limits (Python)", "acquire_moving_window", "2.5 – 3.1.5", 1, 4, limitsAcquire{lax: true}.take},
	{"d2a3aeb88bc5648c36fed2636c03c52d5ae2ce18", "limits (Python)", "acquire_moving_window", "2.3 – 2.4", 1, 4, limitsAcquire{lax: true, short: true}.take},
	{"e7a0a27d4101baabb124af209bb0245197a359a1", "limits (Python)", "sliding_window", "4.1 on", 2, 1, limitsSliding},
	{"e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7", "limits (Python)", "acquire_sliding_window", "4.1 on", 2, 3, limitsTakeSliding},
}

// limitsIncr counts ARGV[2] in a window of ARGV[1] seconds.
func limitsIncr(r *Run) bool {
	by, ok := r.whole(1)
	return ok && limitsCount(r, by)
}

// limitsIncrOne counts 1 in a window of ARGV[1] seconds.
func limitsIncrOne(r *Run) bool { return limitsCount(r, 1) }

func limitsCount(r *Run, by int64) bool {
	before, ok := r.countIn(by, 0)
	r.Int(before + by)
	return ok
}

// list opens the list that the key holds.
func (r *Run) list() (l *value.ListOf, ok bool) {
	v, ok := r.Store.Get(r.Keys[0])
	return value.OpenList(v.Body), ok && (!v.exists() || v.Type == value.List)
}

// limitsAcquire is what differs between the versions of acquire_moving_window.
type limitsAcquire struct {
	lax   bool // it has no rule for an amount above the limit
	short bool // it keeps fewer times than the limit
}

// mostTimes is the largest amount that a handler takes at once.
const mostTimes = 1000

// take adds the time ARGV[1] to the list, ARGV[4] times, unless that would be more than
// ARGV[2] times in ARGV[3] seconds.
func (a limitsAcquire) take(r *Run) bool {
	now, ok1 := plain(r.Args[0])
	limit, ok2 := r.whole(1)
	window, ok3 := r.span(2, 1)
	amount, ok4 := r.whole(3)
	l, ok5 := r.list()
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || amount < 1 || amount > mostTimes {
		return false
	}
	if amount > limit {
		if a.lax {
			return false
		}
		r.Null()
		return true
	}
	if text, there := l.Index(limit - amount); there {
		at, ok := plain(text)
		if !ok {
			return false
		}
		if at >= now-float64(window) {
			r.Null()
			return true
		}
	}
	var text [32]byte
	l.PushLeft(slices.Repeat([][]byte{script.AppendNumber(text[:0], now, 17)}, int(amount))...)
	keep := limit - 1
	if a.short {
		keep = limit - amount
	}
	if l.Trim(0, keep); l.Err() != nil {
		return false
	}
	r.keep(value.List, l, r.millis()+window*1000)
	r.Int(1)
	return true
}

// limitsWindow is what differs between the versions of moving_window.
type limitsWindow struct {
	texts  bool // the time is a text; without one, the reply is null
	lowest bool // it looks for the oldest time; else the newest will do
}

// movingWindow reads the time ARGV[1], the limit ARGV[2] and the list of times.
func movingWindow(r *Run) (from float64, most int64, l *value.ListOf, ok bool) {
	from, ok = plain(r.Args[0])
	most, also := r.whole(1)
	l, there := r.list()
	return from, most, l, ok && also && there
}

// get replies with the oldest time that is not before ARGV[1], and how many such times
// begin the list. It looks at no more than ARGV[2] and one.
func (w limitsWindow) get(r *Run) bool {
	from, most, l, ok := movingWindow(r)
	if !ok || most < 0 {
		return false
	}
	oldest, n, over := 0.0, int64(0), false
	see := func(at float64, number bool) {
		ok = ok && (over || number)
		if over = over || at < from; over {
			return
		}
		if n == 0 || w.lowest && at < oldest {
			oldest = at
		}
		n++
	}
	if !l.Numbers(0, most, func(at float64) { see(at, isPlain(at)) }) {
		l.Range(0, most, nil, func(text []byte) { see(plain(text)) })
	}
	return ok && w.reply(r, oldest, n)
}

func (w limitsWindow) reply(r *Run, oldest float64, n int64) bool {
	whole, ok := truncated(oldest)
	switch {
	case n == 0 && w.texts:
		r.Null()
	case n == 0:
		r.Array(0)
	case w.texts:
		r.Array(2)
		r.tostring(oldest)
		r.Int(n)
	default:
		r.pair(whole, n)
	}
	return ok || w.texts
}

// limitsSearch is limitsWindow.get by binary search, in the first ARGV[2] times.
func limitsSearch(r *Run) bool {
	from, most, l, ok := movingWindow(r)
	if !ok {
		return false
	}
	oldest, n := 0.0, int64(0)
	for low, high := int64(0), most-1; low <= high; {
		mid := (low + high) / 2
		text, there := l.Index(mid)
		at, number := plain(text)
		switch {
		case there && !number:
			return false
		case there && at >= from:
			oldest, n, low = at, mid+1, mid+1
		default:
			high = mid - 1
		}
	}
	return limitsWindow{texts: true}.reply(r, oldest, n)
}

// sliding holds the counters of two windows: KEYS[1] of the previous one and KEYS[2] of
// the current one, which lives for two windows.
type sliding struct {
	before, current           Value
	beforeCount, currentCount int64
}

// slidingOf reads both counters for a window in ms. If the current window is over, it
// becomes the previous one; shifted reports whether that must be stored.
func slidingOf(r *Run, window int64) (s sliding, shifted, ok bool) {
	var ok1, ok2 bool
	s.before, s.beforeCount, ok1 = r.counter(r.Keys[0])
	s.current, s.currentCount, ok2 = r.counter(r.Keys[1])
	if !ok1 || !ok2 || string(r.Keys[0]) == string(r.Keys[1]) {
		return s, false, false
	}
	if left := r.ttl(&s.current); left > 0 && left < window {
		shifted = true
		s.before, s.beforeCount = s.current, s.currentCount
		s.current.Expires, s.currentCount = s.current.Expires+window, 0
	}
	return s, shifted, true
}

// storeSliding stores both counters after a shift.
func storeSliding(r *Run, s *sliding) {
	r.setCounter(r.Keys[0], s.beforeCount, s.before.Expires)
	r.setCounter(r.Keys[1], s.currentCount, s.current.Expires)
}

// limitsSliding replies with the counts of both windows, of ARGV[1] seconds, and their
// times to live.
func limitsSliding(r *Run) bool {
	window, ok := r.span(0, 1000)
	s, shifted, plain := slidingOf(r, window)
	if !ok || !plain {
		return false
	}
	if shifted {
		storeSliding(r, &s)
	}
	r.Array(4)
	r.countText(&s.before, s.beforeCount)
	r.Int(r.ttl(&s.before))
	r.countText(&s.current, s.currentCount)
	r.Int(r.ttl(&s.current))
	return true
}

// countText replies with the text of a counter, null if the key is absent.
func (r *Run) countText(v *Value, count int64) {
	if !v.exists() {
		r.Null()
		return
	}
	r.Out = resp.AppendBulkInt(r.Out, count)
}

// limitsTakeSliding takes ARGV[3] of ARGV[1] in ARGV[2] seconds.
func limitsTakeSliding(r *Run) bool {
	limit, ok1 := r.whole(0)
	window, ok2 := r.span(1, 1000)
	amount, ok3 := r.whole(2)
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	if amount > limit {
		r.Null()
		return true
	}
	s, shifted, ok := slidingOf(r, window)
	if !ok {
		return false
	}
	left := max(0, r.ttl(&s.before))
	weighted := math.Floor(float64(s.beforeCount)*float64(left)/float64(window)) + float64(s.currentCount)
	if weighted+float64(amount) > float64(limit) {
		if shifted {
			storeSliding(r, &s)
		}
		r.Null()
		return true
	}
	if !s.current.exists() {
		s.current.Expires = r.millis() + 2*window
	}
	s.currentCount += amount
	if shifted {
		storeSliding(r, &s)
	} else {
		r.setCounter(r.Keys[1], s.currentCount, s.current.Expires)
	}
	r.Int(1)
	return true
}
