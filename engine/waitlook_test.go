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
	if due := w.member.Queue().Due(); due != now+d.Wait { // Wake would not return
		t.Fatalf("once it is denied again, the queue is due at %d, want %d", due, now+d.Wait)
	}
	if next := e.Wake(now); next != now+d.Wait || w.Done() {
		t.Errorf("Wake says %d, want %d", next, now+d.Wait)
	}
}

// TestTurnBeforeItsTime has two look at a queue at a time, and both find the same head. One grants it a turn. The other,
// which comes second, leaves it alone.
func TestTurnBeforeItsTime(t *testing.T) {
	limits := parsed(t, "GCRA 1/100ns", "QUEUE 1/70ns BURST 5")
	e := New(Options{Shards: 8, Seed: 1})
	now := int64(start)
	var told []string
	e.AskAll(now, askFor(limits, "a", now, nil))
	w := askFor(limits, "ab", now+500, bell{"w", &told})
	if !e.AskAll(now, w) {
		t.Fatal(outcomeOf(w))
	}
	now += 100
	for range 3 { // they wait for turns
		e.AskAll(now, askFor(limits, "b", now+500, bell{"other", &told}))
	}
	e.serve(now, w.member.Queue())
	if q := w.member.Queue(); q == nil || q.Turn == nil {
		t.Fatal("it has no turn to wait for: ", outcomeOf(w))
	}
	if e.decide(now, &asking{w: w, why: isReady}) || w.Done() {
		t.Error("it is told before its turn: ", outcomeOf(w))
	}
	now += 210
	if e.Wake(now); outcomeOf(w) != "granted" {
		t.Error("when its turn has come: ", outcomeOf(w))
	}
}

// TestLookAtAnotherQueue has a request be looked at for a queue that it has left since, and end with an error. Those behind
// it in the queue where it was are then looked at as well.
func TestLookAtAnotherQueue(t *testing.T) {
	limits := parsed(t, "GCRA 1/100ns", "GCRA 1/300ns")
	e := New(Options{Shards: 8, Seed: 1})
	now := int64(start)
	var told []string
	e.AskAll(now, askFor(limits, "a", now, nil))
	one, two := askFor(limits, "ab", now+1000, bell{"one", &told}), askFor(limits, "b", now+1000, bell{"two", &told})
	if !e.AskAll(now, one) {
		t.Fatal(outcomeOf(one))
	}
	old := one.member.Queue()
	now += 50
	e.AskAll(now, askFor(limits, "b", now, nil))
	now += 50
	if e.Wake(now); one.member.Queue() == old || !e.AskAll(now, two) {
		t.Fatal("they do not wait for b: ", outcomeOf(one), outcomeOf(two))
	}
	err := e.Update(now, nil, func(tx *Txn) error {
		return tx.Put([]byte("a"), limit.LEASE, stateOf(now+second, 8, 1))
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Waits.look(now, old, one)
	if outcomeOf(one) != ErrWrongType.Error() {
		t.Fatal(outcomeOf(one))
	}
	q := two.member.Queue()
	if next := e.Wake(now); next != q.Due() || next <= now {
		t.Errorf("Wake says %d, and the one behind is due at %d", next, q.Due())
	}
}
