package wait

import "limitdb/limit"

// Line is the turns of a key. A request of a QUEUE gets its turn when it asks, and waits for the turn in a
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
// the line.) A turn of a request for several limits is in no line: if the request leaves, it passes unused.
type Line struct {
	last    *Turn // the last turn given
	waiting int   // number of turns that somebody waits for
}

// Turn is the turn of one request. It comes at the due time of its queue.
type Turn struct {
	// Limit is under which it was given, and Amount how much was taken.
	Limit  *limit.Limit
	Amount int64
	// From and Full are when the state expired before and after that.
	From, Full int64
	// Given is when it was given.
	Given int64
	// InLine is set if it can be given back.
	InLine bool

	queue         *Queue
	ahead, behind *Turn // the turns of its key before and after it
	hole          bool  // no request waits for it any more
}

// WaitForTurn has m wait until a turn comes at due.
func (l *List) WaitForTurn(m *Member, hash uint64, key []byte, due int64, t Turn) {
	q := l.newQueue(hash, key)
	t.queue, q.Turn = q, &t
	l.join(q, m)
	q.due = due
	if t.InLine {
		l.lineUp(&t)
	}
	l.alarms.set(q, due)
}

// lineUp puts a turn behind the others of its key.
func (l *List) lineUp(t *Turn) {
	line := l.lines[string(t.queue.key)]
	if line == nil {
		if l.lines == nil {
			l.lines = map[string]*Line{}
		}
		line = new(Line)
		l.lines[string(t.queue.key)] = line
	}
	if t.ahead = line.last; t.ahead != nil {
		t.ahead.behind = t
	}
	line.last = t
	line.waiting++
}

// HasLine reports whether a request waits for a turn of key. The key must not be
// evicted then.
func (l *List) HasLine(key []byte) bool {
	return len(l.lines) > 0 && l.lines[string(key)] != nil
}

// LastTurn returns the last turn of a key's line, or nil.
func (l *List) LastTurn(key []byte) *Turn {
	if line := l.lines[string(key)]; line != nil {
		return line.last
	}
	return nil
}

// LastTurns calls fn with the last turn of every line.
func (l *List) LastTurns(fn func(t *Turn)) {
	for _, line := range l.lines {
		fn(line.last)
	}
}

// Key returns the key of a turn. It must not be changed.
func (t *Turn) Key() []byte { return t.queue.key }

// Hash returns the hash of the key of a turn.
func (t *Turn) Hash() uint64 { return t.queue.Hash }

// IsHole reports whether no request waits for a turn any more.
func (t *Turn) IsHole() bool { return t.hole }

// GiveUp makes the turn of a queue a hole, and merges it with the holes around it.
func (l *List) GiveUp(t *Turn) {
	t.hole = true
	l.lines[string(t.queue.key)].merge(t)
}

// Pass takes a turn out of its line, which has come, or has been given back.
func (l *List) Pass(t *Turn) {
	l.lines[string(t.queue.key)].stepOut(t)
}

// leaveLine ends the wait for the turn of q, and forgets the line if that was its last. If the turn has come, the
// holes ahead of it have passed unused.
func (l *List) leaveLine(q *Queue) {
	if !q.Turn.InLine {
		return
	}
	line := l.lines[string(q.key)]
	if t := q.Turn; !t.hole {
		for t.ahead != nil && t.ahead.hole {
			line.stepOut(t.ahead)
		}
		line.stepOut(t)
	}
	if line.waiting--; line.waiting == 0 {
		delete(l.lines, string(q.key))
	}
}

// stepOut takes a turn out of its line.
func (line *Line) stepOut(t *Turn) {
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

// merge merges a hole with the hole before it. It forgets a hole if a request
// that did not wait went behind it, because that turn can never be given back.
// So there is at most one more hole than there are waiters.
func (line *Line) merge(t *Turn) {
	for _, pair := range [2][2]*Turn{{t.ahead, t}, {t, t.behind}} {
		front, back := pair[0], pair[1]
		switch {
		case front == nil || back == nil || !front.hole:
		case front.Full != back.From:
			line.stepOut(front)
		case back.hole && *front.Limit == *back.Limit:
			back.Amount += front.Amount
			back.From = front.From
			line.stepOut(front)
		}
	}
}
