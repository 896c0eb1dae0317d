package engine

import (
	"testing"

	"limitdb/limit"
)

// TestWaitForLongLog has a request wait for a key whose state is in a box. It is looked at and denied again, and the queue
// is then due when it can be granted.
func TestWaitForLongLog(t *testing.T) {
	e := New(Options{Shards: 1})
	l := logLimit(20000)
	k, now := key(1), int64(start)
	var d limit.Decision
	for range l.Max {
		now += second / 1000
		if err := e.Take(now, k, l, 1, &d); err != nil || d.Limited {
			t.Fatal(d, err)
		}
	}
	if boxCount(e) != 1 {
		t.Fatal("the log is not in a box")
	}
	var told []string
	w := &Waiter{Request: Request{Limit: *l, Cost: 10}, Until: now + 2*l.Period, Owner: bell{"w", &told}}
	if !e.Ask(now, k, w) {
		t.Fatal(w.Result())
	}
	if err := e.Refund(now, k, l, 1, &d); err != nil {
		t.Fatal(err)
	}
	if err := e.Peek(now, k, l, 10, &d); err != nil || !d.Limited {
		t.Fatal(d, err)
	}
	if due := w.member.Queue().Due(); due != now+d.Wait {
		t.Errorf("once it is denied again, the queue is due at %d, want %d", due, now+d.Wait)
	}
	if next := e.Wake(now); next != now+d.Wait || w.Done() {
		t.Errorf("Wake says %d, want %d", next, now+d.Wait)
	}
}
