package wait

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// ids returns the members of a queue, in order.
func (q *Queue) ids() (ids []any) {
	for m := q.first; m != nil; m = m.next {
		ids = append(ids, m.Of)
	}
	return ids
}

// TestQueueSteps goes through a queue: order, stepping aside, moving, deadlines.
func TestQueueSteps(t *testing.T) {
	a := NewAlarms()
	var l List
	l.Init(a, 0)
	key, other := []byte("k"), []byte("o")
	one, two, three := &Member{Of: 1, Until: 500}, &Member{Of: 2, Until: 50}, &Member{Of: 3, Until: 400}
	want := func(step string, m *Member, now, due int64) {
		t.Helper()
		q := l.Find(key)
		if got := l.Next(now, q); got != m {
			t.Errorf("%s: next at %d is %v, want %v", step, now, got, m)
		}
		if q.Due() != due {
			t.Errorf("%s: due at %d, want %d", step, q.Due(), due)
		}
	}
	l.Wait(0, two, 7, key, 100) // not within its time
	if q := l.Find(key); q.Holds(nil) || q.Due() != math.MaxInt64 {
		t.Error("one that cannot be granted in time holds up others")
	}
	l.Wait(0, one, 7, key, 100)
	if q, _ := a.Pop(math.MaxInt64); q != l.Find(key) {
		t.Error("the queue has no alarm")
	}
	want("one waits", nil, 49, 100)
	if q, next := a.Pop(49); q != nil || next != 50 {
		t.Errorf("somebody must look at %d, want 50: two gives up", next)
	}
	want("the time of two is over", two, 50, 100)
	l.Wait(0, three, 8, other, 30)
	l.Leave(three)
	l.Wait(0, three, 7, key, 120)
	want("three comes from another queue", nil, 49, 100)
	if q := l.Find(key); !slices.Equal(q.ids(), []any{2, 1, 3}) || !q.Holds(three) || q.Holds(one) || l.Find(other) != nil {
		t.Errorf("the queue is %v", q.ids())
	}
	q := l.Find(key)
	q.Note(&limit.Limit{Max: 1})
	want("the key has changed", two, 0, unknown)
	l.Wait(0, two, 7, key, 90)
	want("two steps aside again", one, 0, unknown)
	q.Note(&limit.Limit{Max: 1})
	want("the same limit", one, 0, unknown)
	l.Leave(one)
	want("one leaves", three, 0, unknown)
	l.Leave(two)
	l.Leave(three)
	if waiting, keys, waited := l.Figures(); waiting != 0 || keys != 0 || waited != 3 || l.Any() {
		t.Errorf("%d wait for %d keys, %d have", waiting, keys, waited)
	}
	if q, next := a.Pop(math.MaxInt64 - 1); q != nil || next != math.MaxInt64 {
		t.Errorf("an alarm is left: %v, %d", q, next)
	}
}

// TestAlarmsInOrder checks that queues come in the order of their deadlines, and that Sooner tells of each that is
// earlier than was told.
func TestAlarmsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewAlarms()
		told := int64(math.MaxInt64)
		due := map[*Queue]int64{}
		queues := make([]*Queue, 8)
		for i := range queues {
			queues[i] = &Queue{index: -1}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			q := queues[rapid.IntRange(0, len(queues)-1).Draw(t, "queue")]
			switch at := rapid.Int64Range(0, 100).Draw(t, "at"); rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				before, there := due[q]
				a.set(q, at)
				rang := len(a.sooner) == 1
				if sooner := at < told && !(there && before == at); rang != sooner {
					t.Fatalf("set to %d, told %d: sooner %v", at, told, rang)
				}
				if rang {
					<-a.sooner
					told = at
				}
				due[q] = at
			case 2:
				a.drop(q)
				delete(due, q)
			default:
				got, next := a.Pop(at)
				least := int64(math.MaxInt64)
				for _, d := range due {
					least = min(least, d)
				}
				if got == nil && (next != least || least <= at) || got != nil && due[got] != least {
					t.Fatalf("at %d: %v, next %d; the first is due at %d", at, got, next, least)
				}
				if told = least; got != nil {
					delete(due, got)
				}
			}
		}
	})
}

// TestLine has turns leave and come. Holes at the end that have the same limit are one.
func TestLine(t *testing.T) {
	l := List{alarms: NewAlarms()}
	key := []byte("k")
	lim := &limit.Limit{Max: 1}
	var ms [4]Member
	for i := range ms {
		at := int64(i) * 10
		l.WaitForTurn(&ms[i], 7, key, at, Turn{Limit: lim, Amount: 1, From: at, Full: at + 10, InLine: true})
	}
	turn := func(i int) *Turn { return ms[i].Queue().Turn }
	l.GiveUp(turn(1))
	if last := l.LastTurn(key); last != turn(3) || last.IsHole() {
		t.Error("the last turn is another")
	}
	l.GiveUp(turn(2))
	l.GiveUp(turn(3))
	if last := l.LastTurn(key); !last.IsHole() || last.Amount != 3 || last.From != 10 || last.Full != 40 {
		t.Errorf("the holes are not one: %+v", last)
	}
	l.Pass(l.LastTurn(key))
	if l.LastTurn(key) != turn(0) {
		t.Error("the first turn is not the last now")
	}
	for i := range ms {
		l.Leave(&ms[i])
	}
	if l.HasLine(key) || l.LastTurn(key) != nil {
		t.Error("a line is left")
	}
}
