package engine

import (
	"testing"

	"limitdb/limit"
)

// A QUEUE gives a turn at once, and only the answer waits for it.
func TestQueueTurns(t *testing.T) {
	l := &limit.Limit{Algorithm: limit.QUEUE, Max: 10, Period: second, Burst: 4}
	s := newWaitScript(t)
	s.steps(l, [][2]string{
		{"a takes 1 for 1s", "granted 1"},
		{"b takes 1 for 1s", "waits"},
		{"c takes 2 for 1s", "waits"},
		{"d takes 1 for 399ms", "denied for 1ms"}, // its turn would come too late
		{"takes 1", "granted 1"},                  // as without WAIT: it is told to wait
		{"e takes 1 for 1s", "denied for 100ms"},  // all places are taken
		{"e takes 9 for 1s", "never"},
		{"takes 0", "granted 0"},
		{"+99999999ns", "next 1ns"},
		{"+1ns", "next 100ms; b: granted 1"},
	})
	if d, n, err := s.waiters["b"].Result(); d != (limit.Decision{Limit: 5, Remaining: 1, Wait: limit.Never, Reset: 400 * ms}) || n != 1 || err != nil {
		t.Errorf("b at its turn: %+v, %d, %v", d, n, err)
	}
	s.steps(l, [][2]string{
		{"f takes 1 for 1s", "waits"},
		{"f leaves", "true"}, // it was the last: its place is free again
		{"g takes 1 for 1s", "waits"},
		{"c is cut off", "true"}, // others have come since: its turn passes unused
		{"h takes 1 for 1s", "denied for 100ms"},
		{"+100ms", "next 300ms"},
		{"h takes 1 for 1s", "waits"},
		{"resets", "true"}, // a turn once given stays
		{"+300ms", "next 100ms; g: granted 1"},
		{"+100ms", "idle; h: granted 1"},
	})
	if d, _, err := s.waiters["f"].Result(); !d.Limited || d.Remaining != 1 || d.Wait != 1 || err != nil {
		t.Errorf("f, which has left: %+v, %v", d, err)
	}
	if d, _, err := s.waiters["h"].Result(); d.Remaining != 4 || d.Reset != 100*ms || err != nil {
		t.Errorf("h, after a reset: %+v, %v", d, err)
	}
	if _, n, err := s.waiters["c"].Result(); n != 0 || err != errLeft {
		t.Errorf("c, which was cut off: %d, %v", n, err)
	}
	if st := s.e.Stats(); st.Waiting != 0 || st.Waited != 5 {
		t.Errorf("%+v", st)
	}
	// While others wait for the key, a denial can name no turn.
	gcra := perSecond(10)
	s = newWaitScript(t)
	s.steps(gcra, [][2]string{{"takes 10", "granted 10"}, {"a takes 1 for 1s", "waits"}})
	if got := s.run(l, "b takes 1 for 10s"); got != "denied for 600ms" {
		t.Errorf("a queue behind others: %s", got)
	}
	s.e.check()
}

// A TakeAll lets the waiters of its keys go first.
func TestTakeAllDoesNotOvertake(t *testing.T) {
	s := newWaitScript(t)
	l := perSecond(10)
	s.steps(l, [][2]string{{"takes 10", "granted 10"}, {"a takes 5 for 10s", "waits"}, {"+400ms", "next 100ms"}})
	limits := []limit.Limit{*perSecond(1), *l}
	ds, at, err := takeAll(s.e, s.now, keysOf(2, 1), limits)
	if err != nil || at != 1 || ds[0].Limited || said(ds[1], 0, nil) != "denied for 100ms" || ds[1].Remaining != 4 {
		t.Errorf("%+v, %d, %v", ds, at, err)
	}
	if ds, at, err = takeAll(s.e, s.now, keysOf(2, 1), limits, 1, 0); err != nil || at != -1 || ds[1].Remaining != 4 {
		t.Errorf("with cost 0: %+v, %d, %v", ds, at, err)
	}
	s.steps(l, [][2]string{{"+100ms", "idle; a: granted 5"}, {"+100ms", "idle"}})
	if ds, at, err = takeAll(s.e, s.now+second, keysOf(2, 1), limits); err != nil || at != -1 {
		t.Errorf("with nobody waiting: %+v, %d, %v", ds, at, err)
	}
}

func TestLeaseWaits(t *testing.T) {
	newWaitScript(t).steps(nil, [][2]string{
		{"a leases 1 of 2", "granted 0"},
		{"+100ms", "idle"},
		{"b leases 1 of 2", "granted 0"},
		{"c leases 1 of 2 for 10s", "waits"},
		{"d leases 2 of 2 for 10s", "waits"},
		{"a leases 1 of 2 for 10s", "granted 0"}, // who holds renews, and overtakes nobody
		{"e leases 1 of 2", "denied for 1s"},
		{"b releases", "1 <nil>; c: granted 0"},
		{"b releases", `0 this ID holds no lease of the key: "b"`},
		{"+1s", "idle; d: granted 0"},
		{"f leases 3 of 2 for 10s", "never"},
		{"f leases 2 of 2 for 10s", "waits"},
		{"g leases 1 of 2 for 10s", "waits"},
		{"d releases", "2 <nil>; f: granted 0"},
		{"+1s", "idle; g: granted 0"},
	})
}
