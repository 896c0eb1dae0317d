package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"limitdb/limit"
)

// bell counts how often it was rung, and notes its place in the order of all
// bells.
type bell struct {
	name  string
	order *[]string
}

func (b bell) Wake() { *b.order = append(*b.order, b.name) }

// waitScript runs steps on one key of an engine with a fake clock.
type waitScript struct {
	t       *testing.T
	e       *Engine
	now     int64
	waiters map[string]*Waiter
	told    []string // in the order in which they were told
}

func newWaitScript(t *testing.T) *waitScript {
	return &waitScript{t: t, e: New(Options{Shards: 1}), now: start, waiters: map[string]*Waiter{}}
}

const ms = second / 1000

// run does one step and says in words what has happened:
//
//	a takes 2 [for 500ms]    asks for it, and waits, as a
//	takes 2 / peeks 2 / reserves 2 / parts 2 / refunds 2 / resets / flushes
//	a leases 1 of 2 [for 500ms]
//	a releases / a renews 50
//	a leaves / a is cut off
//	+500ms                   the clock moves, and Wake is called
//	sleeps 500ms             the clock moves
func (s *waitScript) run(l *limit.Limit, step string) string {
	f := strings.Fields(step)
	s.told = s.told[:0]
	var out string
	switch {
	case step[0] == '+':
		out = s.advance(step)
	case f[0] == "sleeps":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now += int64(d)
	case len(f) > 1 && (f[1] == "takes" || f[1] == "leases" || f[1] == "parts"):
		out = s.ask(l, f)
	case len(f) > 1 && f[0] != "takes" && s.waiters[f[0]] != nil && f[1] == "leaves":
		out = fmt.Sprint(s.e.Cancel(s.now, s.waiters[f[0]], nil))
	case len(f) > 1 && f[1] == "is":
		out = fmt.Sprint(s.e.Cancel(s.now, s.waiters[f[0]], errLeft))
	case len(f) > 1 && f[1] == "releases":
		n, _, err := s.e.Release(s.now, key(1), []byte(f[0]))
		out = fmt.Sprint(n, err)
	default:
		out = s.plain(l, f)
	}
	for _, name := range s.told {
		d, granted, err := s.waiters[name].Result()
		out += fmt.Sprintf("; %s: %s", name, said(d, granted, err))
	}
	return out
}

func (s *waitScript) advance(step string) string {
	d, err := time.ParseDuration(step[1:])
	if err != nil {
		s.t.Fatal(err)
	}
	s.now += int64(d)
	next := s.e.Wake(s.now)
	if next == math.MaxInt64 {
		return "idle"
	}
	return "next " + time.Duration(next-s.now).String()
}

// said returns a decision in short: what was granted, or that it was denied and
// the wait.
func said(d limit.Decision, granted int64, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case d.Limited && d.Wait == limit.Never:
		return "never"
	case d.Limited:
		return "denied for " + time.Duration(d.Wait).String()
	}
	return fmt.Sprintf("granted %d", granted)
}

func (s *waitScript) ask(l *limit.Limit, f []string) string {
	w := &Waiter{Until: s.now, Owner: bell{f[0], &s.told}}
	var n, of int64
	if _, err := fmt.Sscan(f[2], &n); err != nil {
		s.t.Fatal(err)
	}
	if f[1] == "leases" {
		if _, err := fmt.Sscan(f[4], &of); err != nil {
			s.t.Fatal(err)
		}
		w.Lease = &limit.Lease{Limit: of, TTL: second, Weight: n, ID: []byte(f[0])}
	} else {
		w.Request = Request{Limit: *l, Cost: n, Partial: f[1] == "parts"}
	}
	if len(f) > 4 && f[len(f)-2] == "for" {
		d, err := time.ParseDuration(f[len(f)-1])
		if err != nil {
			s.t.Fatal(err)
		}
		w.Until = s.now + int64(d)
	}
	s.waiters[f[0]] = w
	if s.e.Ask(s.now, key(1), w) {
		return "waits"
	}
	return said(w.Result())
}

func (s *waitScript) plain(l *limit.Limit, f []string) string {
	var n, granted int64
	if len(f) > 1 {
		if _, err := fmt.Sscan(f[1], &n); err != nil {
			s.t.Fatal(err)
		}
	}
	var d limit.Decision
	var err error
	switch f[0] {
	case "takes":
		granted, err = n, s.e.Take(s.now, key(1), l, n, &d)
	case "peeks":
		granted, err = n, s.e.Peek(s.now, key(1), l, n, &d)
	case "reserves":
		granted, err = n, s.e.Reserve(s.now, key(1), l, n, -1, &d)
	case "parts":
		granted, err = takePartial(s.e, s.now, key(1), l, n, &d)
	case "refunds":
		granted, err = n, s.e.Refund(s.now, key(1), l, n, &d)
	case "resets":
		return fmt.Sprint(s.e.Reset(s.now, key(1)))
	case "flushes":
		s.e.Flush()
		select {
		case <-s.e.Sooner():
		default:
			return "not told"
		}
		s.e.Wake(s.now)
		return "flushed"
	default:
		s.t.Fatalf("what is %q?", f[0])
	}
	return said(d, granted, err)
}

func (s *waitScript) steps(l *limit.Limit, steps [][2]string) {
	s.t.Helper()
	for i, st := range steps {
		if got := s.run(l, st[0]); got != st[1] {
			s.t.Fatalf("step %d, %s: %s; want %s", i, st[0], got, st[1])
		}
		s.e.check()
	}
}

func TestWaitSteps(t *testing.T) {
	l := perSecond(10) // one each 100 ms
	t.Run("in order, exactly, at most so long", func(t *testing.T) {
		newWaitScript(t).steps(l, [][2]string{
			{"takes 10", "granted 10"},
			{"a takes 2 for 1s", "waits"},
			{"b takes 1 for 1s", "waits"},
			{"c takes 1 for 250ms", "waits"},
			{"d takes 11 for 1s", "never"},
			{"+100ms", "next 100ms"},        // enough for b, but a is first
			{"takes 1", "denied for 100ms"}, // when a goes
			{"peeks 1", "denied for 100ms"},
			{"takes 0", "granted 0"},
			{"+99999999ns", "next 1ns"},
			{"+1ns", "next 50ms; a: granted 2"},
			{"+49999999ns", "next 1ns"},
			{"+1ns", "next 50ms; c: denied for 50ms"},
			{"+50ms", "idle; b: granted 1"},
			{"takes 1", "denied for 100ms"},
			{"+100ms", "idle"},
			{"takes 1", "granted 1"},
		})
	})
	t.Run("what is given back", func(t *testing.T) {
		newWaitScript(t).steps(l, [][2]string{
			{"takes 10", "granted 10"},
			{"a takes 2 for 100ms", "waits"}, // not by itself within its time
			{"b takes 3 for 10s", "waits"},
			{"refunds 1", "granted 1"},
			{"refunds 1", "granted 1; a: granted 2"},
			{"resets", "true; b: granted 3"},
			{"takes 7", "granted 7"},
			{"c takes 1 for 1s", "waits"},
			{"flushes", "flushed; c: granted 1"},
			{"takes 9", "granted 9"},
			{"d takes 3 for 10s", "waits"},
			{"e takes 1 for 10s", "waits"},
			{"+100ms", "next 200ms"},
			{"d leaves", "true; e: granted 1"},
			{"d leaves", "false"},
			{"+10s", "idle"},
		})
	})
	t.Run("who asks otherwise does not overtake", func(t *testing.T) {
		newWaitScript(t).steps(l, [][2]string{
			{"takes 10", "granted 10"},
			{"a takes 5 for 10s", "waits"},
			{"+400ms", "next 100ms"},
			{"parts 3", "denied for 100ms"},
			{"reserves 1", "denied for 100ms"},
			{"takes 3", "denied for 100ms"},
			{"takes 6", "denied for 200ms"}, // its own wait is longer than a's
			{"takes 11", "never"},
			{"b parts 8 for 250ms", "waits"},
			{"+100ms", "next 100ms; a: granted 5"},
			{"+100ms", "idle; b: granted 1"},
			{"+300ms", "idle"},
			{"parts 5", "granted 3"},
		})
	})
	t.Run("the last instant", func(t *testing.T) {
		newWaitScript(t).steps(l, [][2]string{
			{"takes 10", "granted 10"},
			{"a takes 2 for 100ms", "waits"},
			{"b takes 2 for 100ms", "waits"},
			{"c takes 1 for 100ms", "waits"},
			{"+100ms", "idle; c: granted 1; a: denied for 200ms; b: denied for 200ms"},
		})
	})
	t.Run("what is told follows", func(t *testing.T) {
		newWaitScript(t).steps(l, [][2]string{
			{"takes 10", "granted 10"},
			{"a takes 5 for 10s", "waits"},
			{"takes 1", "denied for 500ms"},
			{"b takes 2 for 10s", "waits"},
			{"takes 1", "denied for 500ms"},
			{"refunds 3", "granted 3"},
			{"takes 1", "denied for 200ms"},
			{"c takes 9 for 100ms", "waits"}, // in vain, and in nobody's way
			{"takes 1", "denied for 200ms"},
			{"a leaves", "true; b: granted 2"},
			{"takes 1", "granted 1"},
			{"d takes 9 for 400ms", "waits"},
			{"takes 1", "denied for 100ms"},
			{"e takes 1 for 10s", "waits"},
			{"takes 1", "denied for 100ms"},
			{"+99999999ns", "next 1ns"},
			{"takes 1", "denied for 1ms"}, // at least
		})
	})
	t.Run("who is cut off", func(t *testing.T) {
		newWaitScript(t).steps(l, [][2]string{
			{"takes 10", "granted 10"},
			{"a takes 1 for 10s", "waits"},
			{"b takes 1 for 10s", "waits"},
			{"a is cut off", "true"},
			{"+100ms", "idle; b: granted 1"},
			{"b is cut off", "false"},
		})
	})
	t.Run("late", func(t *testing.T) {
		newWaitScript(t).steps(l, [][2]string{
			{"takes 10", "granted 10"},
			{"a takes 1 for 150ms", "waits"},
			{"b takes 1 for 1s", "waits"},
			{"c takes 1 for 300ms", "waits"},
			{"+300ms", "idle; a: denied for 1ms; b: granted 1; c: granted 1"},
		})
		newWaitScript(t).steps(l, [][2]string{
			{"takes 10", "granted 10"},
			{"a takes 1 for 150ms", "waits"},
			{"b takes 1 for 1s", "waits"},
			{"takes 1", "denied for 100ms"},
			{"sleeps 350ms", ""},
			{"peeks 2", "denied for 1ms"}, // a is due
			{"takes 2", "granted 2; a: denied for 1ms; b: granted 1"},
		})
	})
}

// An engine holds nothing of a request that has been decided.
func TestDecidedRequestsAreForgotten(t *testing.T) {
	e := New(Options{Shards: 1})
	w := &Waiter{Request: Request{Limit: limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: second, Burst: 1}, Cost: 1}, Until: start + second, Owner: bell{order: new([]string)}}
	if e.Ask(start, []byte("k"), w) {
		t.Fatal("it waits")
	}
	gone := weak.Make(w)
	if runtime.GC(); gone.Value() != nil {
		t.Error("the request is still reachable")
	}
	runtime.KeepAlive(e)
}

// A request that finds another kind of state, or no room, gets the error when it
// is decided.
func TestWaitErrors(t *testing.T) {
	s := newWaitScript(t)
	l := perSecond(10)
	s.steps(l, [][2]string{
		{"takes 10", "granted 10"},
		{"a leases 1 of 2 for 1s", ErrWrongType.Error()},
		{"a takes 2 for 1s", "waits"},
		{"b takes -1 for 1s", limit.ErrCost.Error()},
	})
	s.steps(l, [][2]string{{"b takes 2 for 2s", "waits"}})
	// This step replaces the key.
	s.e.shards[0].table.Flush()
	if err := s.e.Apply(s.now, key(1), limit.LEASE, func(now int64, state, dst []byte) ([]byte, error) {
		return limit.TakeLease(&limit.Lease{Limit: 1, TTL: second, Weight: 1, ID: []byte("x")}, state, now, dst, new(limit.Decision))
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.run(l, "+0ms"); got != "idle" || fmt.Sprint(s.waiters["a"].err, s.waiters["b"].err) != fmt.Sprint(ErrWrongType, ErrWrongType) {
		t.Errorf("another kind of state: %s; %v, %v", got, s.waiters["a"].err, s.waiters["b"].err)
	}

	s = newWaitScript(t)
	s.steps(l, [][2]string{{"takes 10", "granted 10"}, {"a takes 10 for 1s", "waits"}})
	s.e.SetMaxMemory(1, NoEviction)
	s.e.Flush()
	if got := s.run(l, "+0ms"); got != "idle; a: "+ErrOOM.Error() || s.e.Stats().Refused != 1 {
		t.Errorf("no room: %s, %+v", got, s.e.Stats())
	}
}

// A waiter for an evicted key is granted at once.
func TestEvictionStirs(t *testing.T) {
	s := newWaitScript(t)
	slow := &limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: 10 * second, Burst: 1}
	s.steps(slow, [][2]string{{"takes 1", "granted 1"}, {"a takes 1 for 100s", "waits"}})
	s.e.SetMaxMemory(1, LeastDebt)
	s.e.Sweep(s.now, 1<<20)
	<-s.e.Sooner()
	s.e.SetMaxMemory(0, NoEviction)
	if got := s.run(slow, "+0ms"); got != "idle; a: granted 1" {
		t.Errorf("after eviction: %s", got)
	}
}

// Sooner signals each earlier deadline once, and no later one.
func TestSooner(t *testing.T) {
	s := newWaitScript(t)
	l := perSecond(10)
	told := func() bool {
		select {
		case <-s.e.Sooner():
			return true
		default:
			return false
		}
	}
	for i, st := range []struct {
		step string
		told bool
	}{
		{"takes 10", false},
		{"a takes 5 for 10s", true},
		{"b takes 1 for 10s", false},
		{"c takes 1 for 20ms", true},
		{"d takes 1 for 10ms", true},
		{"e takes 1 for 15ms", false},
		{"refunds 1", false}, // earlier than it was, but not the earliest
		{"+10ms", false},
		{"f takes 1 for 1ms", true},
		{"refunds 9", false},
	} {
		s.run(l, st.step)
		if got := told(); got != st.told {
			t.Errorf("step %d, %s: told %v", i, st.step, got)
		}
	}
	if next := s.e.Wake(s.now); next != math.MaxInt64 {
		t.Errorf("nobody waits, but next is %d", next)
	}
}

// Queues that are due at one instant are served in the order in which they were
// made, whatever their keys.
func TestDueAtOnce(t *testing.T) {
	e := New(Options{})
	var told, want []string
	for i := range 50 {
		mustTake(t, e, start, key(i), perSecond(1), 1)
		want = append(want, fmt.Sprint(i))
		w := &Waiter{Request: Request{Limit: *perSecond(1), Cost: 1}, Until: start + 2*second, Owner: bell{fmt.Sprint(i), &told}}
		if !e.Ask(start, key(i), w) {
			t.Fatal("it does not wait")
		}
	}
	if e.Wake(start + second); fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("the order is %v", told)
	}
}

// Requests for keys without waiters allocate nothing, even if requests wait for other
// keys.
func TestOthersAllocateNothing(t *testing.T) {
	e := New(Options{Shards: 1})
	l := perSecond(1)
	mustTake(t, e, start, key(1), l, 1)
	if !e.Ask(start, key(1), &Waiter{Request: Request{Limit: *l, Cost: 1}, Until: math.MaxInt64, Owner: counter{new(atomic.Int64)}}) {
		t.Fatal("it does not wait")
	}
	k := key(2)
	var d limit.Decision
	if n := allocations(100, func() {
		if err := e.Take(start, k, perMinute, 1, &d); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var perMinute = &limit.Limit{Algorithm: limit.GCRA, Max: 1000, Period: 60 * second, Burst: 1000}

func TestCancelOfNobody(t *testing.T) {
	e := New(Options{Shards: 1})
	if e.Cancel(start, &Waiter{}, nil) {
		t.Error("one that was never asked for is cancelled")
	}
	w := &Waiter{Request: Request{Limit: *perSecond(1), Cost: 1}, Until: start + second}
	if e.Ask(start, key(1), w) || e.Cancel(start, w, errors.New("x")) {
		t.Error("one that did not wait is cancelled")
	}
	if d, n, err := w.Result(); d.Limited || n != 1 || err != nil {
		t.Errorf("%+v, %d, %v", d, n, err)
	}
}

// TestWaitInVain checks that a waiter whose limit cannot grant it in time holds
// up nobody, and is the first again as soon as it can be granted.
func TestWaitInVain(t *testing.T) {
	fast := limit.Limit{Algorithm: limit.GCRA, Max: 1000, Period: 3600 * second, Burst: 1000}
	ask := func(e *Engine, until int64, l limit.Limit) *Waiter {
		t.Helper()
		w := &Waiter{Request: Request{Limit: l, Cost: 1}, Until: until, Owner: nobody{}}
		if !e.Ask(start, key(1), w) {
			t.Fatal("it does not wait")
		}
		return w
	}
	t.Run("a take passes", func(t *testing.T) {
		e := New(Options{Shards: 1})
		mustTake(t, e, start, key(1), &oneAnHour, 1)
		slow := ask(e, start+60*second, oneAnHour)
		if d := mustTake(t, e, start, key(1), &fast, 1); d.Limited {
			t.Errorf("held up: %+v", d)
		}
		// The faster pace gives the slow waiter its token back as well.
		if next := e.Wake(start); next != start+7200*ms {
			t.Errorf("the next deadline is in %d ns, want 7.2 s", next-start)
		}
		if e.Wake(start + 7200*ms); !slow.Done() || slow.decision.Limited {
			t.Error("not granted")
		}
		e.check()
	})
	t.Run("so does who waits", func(t *testing.T) {
		e := New(Options{Shards: 1})
		mustTake(t, e, start, key(1), &oneASecond, 1)
		slow := ask(e, start+second/2, oneASecond)
		next := ask(e, start+10*second, oneASecond)
		if e.Wake(start + second); !next.Done() || next.decision.Limited || !slow.decision.Limited {
			t.Errorf("%+v, %+v", next.decision, slow.decision)
		}
		e.check()
	})
	t.Run("and it comes back", func(t *testing.T) {
		e := New(Options{Shards: 1})
		mustTake(t, e, start, key(1), &oneAnHour, 1)
		slow, later := ask(e, start+60*second, oneAnHour), ask(e, start+7200*second, oneAnHour)
		if err := e.Refund(start, key(1), &oneAnHour, 1, new(limit.Decision)); err != nil {
			t.Fatal(err)
		}
		if !slow.Done() || slow.decision.Limited || later.Done() {
			t.Errorf("%+v, %v", slow.decision, later.Done())
		}
		e.check()
	})
	t.Run("a takeall passes", func(t *testing.T) {
		e := New(Options{Shards: 4})
		mustTake(t, e, start, key(1), &oneAnHour, 1)
		ask(e, start+60*second, oneAnHour)
		ds := make([]limit.Decision, 2)
		if at, err := e.TakeAll(start, [][]byte{key(1), key(2)}, []limit.Limit{fast, fast}, []int64{1, 1}, ds); at != -1 || err != nil {
			t.Errorf("%d, %v, %+v", at, err, ds)
		}
		if e.Wake(start); e.Stats().Waiting != 1 {
			t.Error("it waits no more")
		}
		e.check()
	})
}
