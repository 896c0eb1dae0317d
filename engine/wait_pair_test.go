package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// waitPair runs each step on an engine and on the model.
type waitPair struct {
	e       *Engine
	m       waitModel
	now     int64
	waiters map[int]*Waiter
	names   map[int]string
	log     []outcome // of the engine, in the order in which it told
	limits  []limit.Limit
}

// owner logs when its waiter is notified.
type owner struct {
	p  *waitPair
	id int
}

func (o owner) Wake() {
	w := o.p.waiters[o.id]
	if !w.Done() {
		panic("told before it was decided")
	}
	o.p.note(o.id, w)
}

func (p *waitPair) note(id int, w *Waiter) {
	d, granted, err := w.Result()
	o := outcome{key: p.names[id], id: id, at: p.now, limited: err == nil && d.Limited, granted: granted, err: err}
	if w.Lease == nil && w.Limit.Algorithm == limit.QUEUE {
		o.key += " turn"
	}
	if err == nil && !d.Limited {
		o.left = d
	}
	p.log = append(p.log, o)
	delete(p.waiters, id)
}

func newWaitPair(limits []limit.Limit) *waitPair {
	e := New(Options{Shards: 1})
	e.StartJournal(0, new(journal.Gate), func() {})
	return &waitPair{
		e: e, m: waitModel{keys: map[string]*waitModelKey{}}, now: 1_000_000,
		waiters: map[int]*Waiter{}, names: map[int]string{}, limits: limits,
	}
}

// advance moves the clock: at once or, if exact is set, from each deadline of the
// engine to the next.
func (p *waitPair) advance(dt int64, exact bool) error {
	to := p.now + dt
	if exact {
		for t := p.now + 1; t <= to; t++ {
			for _, name := range slices.Sorted(maps.Keys(p.m.keys)) {
				p.m.tick(t, name)
			}
		}
		for {
			next := p.e.Wake(p.now)
			if next <= p.now {
				return fmt.Errorf("at %d the next deadline is %d", p.now, next)
			}
			if next > to {
				break
			}
			p.now = next
		}
	}
	p.now = to
	for _, name := range slices.Sorted(maps.Keys(p.m.keys)) {
		p.m.tick(to, name)
	}
	p.e.Wake(to)
	p.e.check()
	return p.compare()
}

// compare compares the logs. For each key they are the same, except for the order
// of waiters that give up at the same moment.
func (p *waitPair) compare() error {
	split := func(log []outcome) (granted, denied map[string][]outcome) {
		granted, denied = map[string][]outcome{}, map[string][]outcome{}
		for _, o := range log {
			if o.err == errLeft || o.limited && o.left == (limit.Decision{}) {
				denied[o.key] = append(denied[o.key], o)
			} else {
				o.left.Wait = 0
				if strings.HasSuffix(o.key, " turn") { // it may come before or after others at that moment
					o.left.Remaining, o.left.Reset = 0, 0
				}
				granted[o.key] = append(granted[o.key], o)
			}
		}
		for _, list := range denied {
			slices.SortFunc(list, func(a, b outcome) int { return a.id - b.id })
		}
		return granted, denied
	}
	g1, d1 := split(p.log)
	g2, d2 := split(p.m.log)
	same := func(a, b []outcome) bool { return slices.EqualFunc(a, b, sameOutcome) }
	if !maps.EqualFunc(g1, g2, same) || !maps.EqualFunc(d1, d2, same) {
		return fmt.Errorf("at %d\ngranted %v\nwant    %v\ndenied %v\nwant   %v", p.now, g1, g2, d1, d2)
	}
	if len(p.log) > 50 {
		p.log, p.m.log = p.log[:0], p.m.log[:0]
	}
	return nil
}

func sameOutcome(a, b outcome) bool {
	sameErr := a.err == b.err || a.err != nil && b.err != nil && a.err.Error() == b.err.Error()
	a.err, b.err = nil, nil
	return a == b && sameErr
}

// ask asks on both sides. The request waits until then, if that is after now.
func (p *waitPair) ask(id int, name string, r Request, until int64) error {
	w := &Waiter{Request: r, Until: until, Owner: owner{p, id}}
	p.waiters[id], p.names[id] = w, name
	before := p.m.clone()
	waiting := until > math.MinInt64 && p.e.Ask(p.now, []byte(name), w)
	if until == math.MinInt64 {
		p.plain(name, w)
	}
	wantWaiting, want := p.m.ask(p.now, name, id, r, until)
	if waiting != wantWaiting {
		return fmt.Errorf("%+v on %s at %d waits: %v, want %v", r, name, p.now, waiting, wantWaiting)
	}
	if waiting {
		return p.compare()
	}
	delete(p.waiters, id)
	d, granted, err := w.Result()
	if (err == nil) != (want.err == nil) || err == nil && (d.Limited != want.limited || granted != want.granted) {
		return fmt.Errorf("%+v on %s at %d: %+v, %d, %v; want %+v", r, name, p.now, d, granted, err, want)
	}
	// A QUEUE's denial says when a turn would be in time, not when it would come.
	if err == nil && d.Limited && (until == math.MinInt64 || !r.hasTurns()) {
		if err := p.checkTold(before, name, r, d.Wait); err != nil {
			return err
		}
	}
	return p.compare()
}

// plain decides w's request by the calls that do not wait.
func (p *waitPair) plain(name string, w *Waiter) {
	switch key := []byte(name); {
	case w.Lease != nil:
		w.err = p.e.Lease(p.now, key, w.Lease, &w.decision)
	case w.Partial:
		w.granted, w.err = takePartial(p.e, p.now, key, &w.Limit, w.Cost, &w.decision)
	default:
		if w.err = p.e.Take(p.now, key, &w.Limit, w.Cost, &w.decision); w.err == nil && !w.decision.Limited {
			w.granted = w.Cost
		}
	}
}

// checkTold checks that the wait of a denied request is exact or, behind a queue, as
// far off as it should be. (A request that
// lets nobody go first may be granted before: a cost of 0, and a lease if its id
// waits as well. If denials count, later denials make the wait longer.)
func (p *waitPair) checkTold(before *waitModel, name string, r Request, wait int64) error {
	counts := r.Limit.CountDenied || slices.ContainsFunc(before.key(name).queue, func(w modelWaiter) bool { return w.r.Limit.CountDenied })
	if wait == limit.Never || counts {
		return nil
	}
	if want, held := before.behind(p.now, name, r); held {
		if wait != want {
			return fmt.Errorf("%+v on %s at %d is told to wait %d behind the queue, want %d", r, name, p.now, wait, want)
		}
		return nil
	}
	if wait > 500 {
		return nil
	}
	if wait < 1 || !before.granted(p.now, wait, name, r) {
		return fmt.Errorf("%+v on %s at %d is told to wait %d, and would be denied", r, name, p.now, wait)
	}
	if r.Lease == nil && r.Cost > 0 && wait > 1 && before.granted(p.now, wait-1, name, r) {
		return fmt.Errorf("%+v on %s at %d is told to wait %d, and would be granted before", r, name, p.now, wait)
	}
	return nil
}

// change gives back on both sides.
func (p *waitPair) change(name string, kind limit.Kind, real func() error, model func(state []byte) ([]byte, error)) error {
	k := p.m.key(name)
	k.live(p.now)
	var want error
	if k.state != nil && !limit.SameFamily(k.kind, kind) {
		want = ErrWrongType
	} else {
		var next []byte
		state := bytes.Clone(k.state)
		before := limit.Expires(kind, state)
		if next, want = model(state); want == nil && next != nil {
			if n := len(k.turns); n > 0 {
				if least := min(before, k.turns[n-1].full); limit.Expires(kind, next) < least {
					limit.Prolong(next, least)
				}
			}
			k.keep(p.now, kind, next)
			p.m.serve(p.now, name)
		}
	}
	if err := real(); (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
		return fmt.Errorf("on %s at %d: %v, want %v", name, p.now, err, want)
	}
	return p.compare()
}

// cancel cancels the n-th waiter.
func (p *waitPair) cancel(n int, cause error) error {
	ids := slices.Sorted(maps.Keys(p.waiters))
	if len(ids) == 0 {
		return nil
	}
	id := ids[n%len(ids)]
	w, name := p.waiters[id], p.names[id]
	k := p.m.key(name)
	var o outcome
	if i := slices.IndexFunc(k.queue, func(w modelWaiter) bool { return w.id == id }); i >= 0 {
		o = p.m.denial(p.now, k, &k.queue[i].r)
		o.key = name
		k.queue = slices.Delete(k.queue, i, i+1)
		p.m.count(o.limited, o.err)
	} else {
		p.m.leaveTurn(p.now, name, id)
		o = outcome{key: name + " turn", limited: true}
	}
	if o.id, o.at = id, p.now; cause != nil {
		o.err, o.limited = cause, false
	}
	p.m.log = append(p.m.log, o)
	p.m.serve(p.now, name)

	if !p.e.Cancel(p.now, w, cause) {
		return fmt.Errorf("the waiter %d at %d had been decided", id, p.now)
	}
	p.note(id, w)
	if p.e.Cancel(p.now, w, cause) {
		return fmt.Errorf("the waiter %d was cancelled twice", id)
	}
	return p.compare()
}

var errLeft = errors.New("left")

// waitStep is one step in numbers, which a fuzzer or rapid draws.
type waitStep struct {
	op, key, limit, cost byte
	wait                 int64
}

func (p *waitPair) step(id int, st waitStep) error {
	name := "k" + strconv.Itoa(int(st.key%3))
	l := p.limits[int(st.limit)%len(p.limits)]
	lease := &limit.Lease{Limit: 1 + int64(st.limit%4), TTL: 1 + st.wait%97, Weight: 1 + int64(st.cost%3), ID: []byte{'a' + st.cost%5}}
	until := p.now + st.wait%200
	r := Request{Limit: l, Cost: int64(st.cost % 5), Partial: st.limit%7 == 6}
	if st.key%3 == 2 { // a key of leases
		r = Request{Lease: lease}
	}
	switch st.op % 16 {
	case 0, 1, 2, 3, 4, 5:
		return p.ask(id, name, r, until)
	case 6:
		return p.ask(id, name, r, p.now)
	case 7:
		return p.ask(id, name, r, math.MinInt64)
	case 8, 9:
		return p.advance(st.wait%60, st.op%16 == 8)
	case 10:
		if r.Lease != nil {
			return p.change(name, limit.LEASE, func() error {
				_, _, err := p.e.Release(p.now, []byte(name), lease.ID)
				return err
			}, func(state []byte) (next []byte, err error) {
				next, _, err = limit.ReleaseLease(lease.ID, state, p.now, nil)
				return next, err
			})
		}
		return p.change(name, l.Algorithm.Kind(), func() error {
			return p.e.Refund(p.now, []byte(name), &l, r.Cost, new(limit.Decision))
		}, func(state []byte) ([]byte, error) {
			return limit.Refund(&l, state, p.now, r.Cost, nil, new(limit.Decision))
		})
	case 11:
		return p.change(name, limit.LEASE, func() error {
			_, _, err := p.e.Renew(p.now, []byte(name), lease.ID, lease.TTL)
			return err
		}, func(state []byte) (next []byte, err error) {
			next, _, err = limit.RenewLease(lease.ID, lease.TTL, state, p.now, nil)
			return next, err
		})
	case 12:
		return p.cancel(int(st.cost), map[bool]error{true: errLeft}[st.limit%2 == 0])
	case 13:
		return p.forget(name)
	case 14:
		for name := range p.m.keys {
			p.m.key(name).forget(p.now)
			p.m.serve(p.now, name)
		}
		p.e.Flush()
		select {
		case <-p.e.Sooner():
		default:
			if p.e.shards[0].waits.Any() {
				return fmt.Errorf("Flush has not told that there is something to do")
			}
		}
		return p.advance(0, false)
	}
	return p.advance(st.wait%300, true)
}

func (p *waitPair) forget(name string) error {
	k := p.m.key(name)
	k.live(p.now)
	want := k.state != nil
	if want {
		k.forget(p.now)
		p.m.serve(p.now, name)
	}
	if got := p.e.Reset(p.now, []byte(name)); got != want {
		return fmt.Errorf("Reset(%s) at %d: %v, want %v", name, p.now, got, want)
	}
	return p.compare()
}

// waitLimits returns limits of every algorithm. Their times are nanoseconds, so that
// the model can look at each one.
func waitLimits(tb testing.TB) []limit.Limit {
	all := everyLimit(tb, "5/100ns")
	all = append(all, everyLimit(tb, "4/40ns")...)
	all = append(all, everyLimit(tb, "3/42ns")...) // in parts that do not divide it
	return append(all, everyLimit(tb, "1/150ns")...)
}

// A waiter is granted when its denial said, although another denial in between
// would have moved the key. Of 5 in use under 100 ns, 2 leave. Under the limit of
// the waiter, 3 would leave sooner.
func TestWaitIsForWhatWasTold(t *testing.T) {
	parse := func(s string) limit.Limit {
		l, err := limit.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	slow, fast := parse("SEGMENTED 5/100ns SEGMENTS 4"), parse("SEGMENTED 3/42ns SEGMENTS 4")
	p := newWaitPair(nil)
	for i, st := range []struct {
		later int64
		r     Request
		until int64
	}{
		{0, Request{Limit: slow, Cost: 2}, 0},
		{90, Request{Limit: slow, Cost: 3}, 0},
		{5, Request{Limit: fast, Cost: 1}, 1_000_200},
	} {
		if err := errors.Join(p.advance(st.later, true), p.ask(i, "k", st.r, st.until)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.advance(79, true); err != nil || len(p.waiters) != 1 {
		t.Fatalf("79 ns after it asked: %d wait, %v", len(p.waiters), err)
	}
	if err := p.advance(1, true); err != nil || len(p.waiters) != 0 {
		t.Fatalf("80 ns after it asked: %d wait, %v", len(p.waiters), err)
	}
}

func TestWaitModel(t *testing.T) {
	limits := waitLimits(t)
	rapid.Check(t, func(t *rapid.T) {
		var some []limit.Limit
		if rapid.Bool().Draw(t, "one limit") {
			some = limits[rapid.IntRange(0, len(limits)-1).Draw(t, "limit"):][:1]
		} else {
			// Whether a denial moves SLIDING depends on the moment, and the model
			// denies every waiter at each.
			some = slices.DeleteFunc(slices.Clone(limits), func(l limit.Limit) bool { return l.Algorithm == limit.SLIDING })
		}
		p := newWaitPair(some)
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			st := waitStep{
				op: rapid.Byte().Draw(t, "op"), key: rapid.Byte().Draw(t, "key"), limit: rapid.Byte().Draw(t, "limit"),
				cost: rapid.Byte().Draw(t, "cost"), wait: rapid.Int64Range(0, 1000).Draw(t, "wait"),
			}
			if err := p.step(i, st); err != nil {
				t.Fatalf("step %d, %+v: %v", i, st, err)
			}
		}
		if err := p.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// end checks that all waits end, and that the journal has every change.
func (p *waitPair) end() error {
	again := New(Options{Shards: 1, Seed: p.e.seed})
	var log journal.Buffer
	drain(p.e, &log)
	if err := replay(again, p.now, nil, log.Bytes); err != nil {
		return err
	}
	if got, want := contents(again, p.now), contents(p.e, p.now); !maps.Equal(got, want) {
		return fmt.Errorf("the journal gives %v, there is %v", got, want)
	}
	if err := p.advance(1000, true); err != nil {
		return err
	}
	st := p.e.Stats()
	if len(p.waiters) > 0 || st.Waiting != 0 || st.WaitingKeys != 0 {
		return fmt.Errorf("%d wait for ever: %+v", len(p.waiters), st)
	}
	if st.Allowed != p.m.allowed || st.Limited != p.m.limited {
		return fmt.Errorf("%d allowed, %d limited: %+v", p.m.allowed, p.m.limited, st)
	}
	if next := p.e.Wake(p.now); next != math.MaxInt64 {
		return fmt.Errorf("nobody waits, but there is a deadline at %d", next)
	}
	return nil
}

// FuzzWait runs any steps, five bytes each, beside the model.
func FuzzWait(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x02\x28\x07\x00\x00\x01\x00\x0a\x00\x00\x01\x00\x08\x00\x00\x00\x20"))
	f.Add([]byte("\x00\x02\x00\x00\x30\x00\x02\x00\x01\x30\x00\x02\x01\x02\x30\x0a\x02\x00\x00\x00\x09\x00\x00\x00\x32\x0c\x00\x00\x00\x00"))
	limits := slices.DeleteFunc(waitLimits(f), func(l limit.Limit) bool { return l.Algorithm == limit.SLIDING })
	f.Fuzz(func(t *testing.T, in []byte) {
		p := newWaitPair(limits)
		for i := 0; len(in) >= 5 && i < 200; i, in = i+1, in[5:] {
			if err := p.step(i, waitStep{op: in[0], key: in[1], limit: in[2], cost: in[3], wait: int64(in[4]) * 2}); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		if err := p.end(); err != nil {
			t.Fatal(err)
		}
	})
}
