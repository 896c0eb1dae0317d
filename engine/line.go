package engine

import "limitdb/limit"

// A request of a QUEUE gets its turn when it asks, and waits for the turn in a
// queue of its own. If it leaves early, it gives the turn back:
//
//	now ──┬─ a ─┬─ b ─┬─ c ─┬─►      b leaves: its turn is a hole
//	      └─────┴─────┴─────┘        c leaves: c's and b's are given back
//
// Only the last turn of a line can be given back, because the requests behind
// it have been told when to go. So the turns of a key are kept in their order
// as long as anybody waits for one. A turn, once given, stays. If its key is
// reset or flushed, only the turns remain taken. The key is not evicted. (A
// request of another algorithm that moves the key to a faster pace does shorten
// the line.)
type turns struct {
	last    *turn // the last turn given
	waiting int   // number of turns that somebody waits for
}

// turn is the turn of one request. It comes at the due time of its queue.
type turn struct {
	queue   *queue
	granted int64 // how much it took
	// from and full are when the state expired before and after that.
	from, full int64
	// ahead and behind are the turns of its key before and after it.
	ahead, behind *turn
	// hole is the limit of a turn for which no request waits any more.
	hole *limit.Limit
}

// lineUp puts a turn behind the others of its key.
func (l *waitlist) lineUp(t *turn) {
	line := l.lines[string(t.queue.key)]
	if line == nil {
		if l.lines == nil {
			l.lines = map[string]*turns{}
		}
		line = new(turns)
		l.lines[string(t.queue.key)] = line
	}
	if t.ahead = line.last; t.ahead != nil {
		t.ahead.behind = t
	}
	line.last = t
	line.waiting++
}

// hasLine reports whether a request waits for a turn of key. The key must not be
// evicted then.
func (l *waitlist) hasLine(key []byte) bool {
	return len(l.lines) > 0 && l.lines[string(key)] != nil
}

// stepOut takes a turn out of its line.
func (line *turns) stepOut(t *turn) {
	if t.behind == nil {
		line.last = t.ahead
	} else {
		t.behind.ahead = t.ahead
	}
	if t.ahead != nil {
		t.ahead.behind = t.behind
	}
	t.ahead, t.behind = nil, nil
}

// leaveLine notes that no request waits for a turn any more, and forgets the line
// if that was its last turn.
func (l *waitlist) leaveLine(q *queue) {
	line := l.lines[string(q.key)]
	if line.waiting--; line.waiting == 0 {
		delete(l.lines, string(q.key))
	}
}

// merge merges a hole with the hole before it. It forgets a hole if a request
// that did not wait went behind it, because that turn can never be given back.
// So there is at most one more hole than there are waiters.
func (line *turns) merge(t *turn) {
	for _, pair := range [2][2]*turn{{t.ahead, t}, {t, t.behind}} {
		front, back := pair[0], pair[1]
		switch {
		case front == nil || back == nil || front.hole == nil:
		case front.full != back.from:
			line.stepOut(front)
		case back.hole != nil && *front.hole == *back.hole:
			back.granted += front.granted
			back.from = front.from
			line.stepOut(front)
		}
	}
}
