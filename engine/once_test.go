package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"limitdb/hold"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// onceModel is an engine in which requests count once, again: states that the functions of limit change one after the
// other, and a map of ids for each key. Nothing in it is clever.
type onceModel struct {
	states map[string]*holdKey
	ids    map[string]*grantedOnce // by key and id
}

type grantedOnce struct {
	asked         uint64
	amount        int64
	until, aheads int64
}

func (m *onceModel) key(k []byte) *holdKey {
	s := m.states[string(k)]
	if s == nil {
		s = &holdKey{}
		m.states[string(k)] = s
	}
	return s
}

func (m *onceModel) id(now int64, k, id []byte) *grantedOnce {
	g := m.ids[string(k)+"/"+string(id)]
	if g != nil && g.until <= now {
		delete(m.ids, string(k)+"/"+string(id))
		return nil
	}
	return g
}

func (m *onceModel) remember(now int64, k []byte, o *Once, amount, wait int64) {
	g := &grantedOnce{asked: o.Asked, amount: amount, until: now + o.For}
	if wait > 0 {
		g.aheads = now + wait
	}
	m.ids[string(k)+"/"+string(o.ID)] = g
}

// told is the decision on a repetition.
func (m *onceModel) told(now int64, k []byte, l *limit.Limit, g *grantedOnce, turns bool) (d limit.Decision) {
	if err := limit.Peek(l, m.key(k).live(now), now, 0, &d); err != nil {
		panic(err)
	}
	if d.Limited, d.Wait = false, limit.Never; turns && g.aheads > now {
		d.Wait = g.aheads - now
	}
	return d
}

// take is RL.TAKE with and without PARTIAL.
func (m *onceModel) take(now int64, k []byte, l *limit.Limit, cost int64, partial bool) (d limit.Decision, granted int64) {
	s := m.key(k)
	if partial && cost > 1 {
		var there limit.Decision
		if err := limit.Peek(l, s.live(now), now, 0, &there); err != nil {
			panic(err)
		}
		cost = min(cost, max(1, there.Remaining))
	}
	if d = s.take(now, l, cost); d.Limited {
		return d, 0
	}
	return d, cost
}

// together is RL.TAKEALL: it looks first, and takes if all grant.
func (m *onceModel) together(now int64, r *Together) (ds []limit.Decision, denied bool) {
	ds = make([]limit.Decision, len(r.Keys))
	for i, k := range r.Keys {
		if err := limit.Peek(&r.Limits[i], m.key(k).live(now), now, r.Costs[i], &ds[i]); err != nil {
			panic(err)
		}
		denied = denied || ds[i].Limited
	}
	for i, k := range r.Keys {
		switch {
		case !denied:
			ds[i] = m.key(k).take(now, &r.Limits[i], r.Costs[i])
		case ds[i].Limited:
			ds[i] = m.key(k).take(now, &r.Limits[i], r.Costs[i]) // it may move to the pace of a raised limit
		default:
			if err := limit.Peek(&r.Limits[i], m.key(k).live(now), now, 0, &ds[i]); err != nil {
				panic(err)
			}
		}
	}
	return ds, denied
}

// A request that is sent again counts once, for all algorithms, with limits that change, keys that are reset, after the
// log has been replayed into another engine, and until its time is over; and a denial is decided anew.
//
//test:norace
func TestOnceModel(t *testing.T) {
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("RAPID_SEED"), fmt.Sprint(rand.Uint64())), 0, 64)
	counts := map[string]int{}
	for round := range modelRounds(t, 3, 60, len(holdLimits())*walkSteps) {
		for family, specs := range holdLimits() {
			walkOnce(t, rand.New(rand.NewPCG(seed, round<<8|uint64(family))), specs, fmt.Sprintf("RAPID_SEED=%d, round %d, %v", seed, round, specs), counts)
		}
	}
	for _, of := range []string{"taken", "in part", "reserved", "denied", "again", "again after a reset", "again, waiting", "another", "together", "together again", "together denied", "forgotten", "reset", "replayed"} {
		if counts[of] == 0 {
			t.Errorf("%s: %d times", of, counts[of])
		}
	}
	t.Log(counts)
}

// onceWalk is a random walk over an engine and the model.
type onceWalk struct {
	*testing.T
	r      *rand.Rand
	e      *Engine
	m      *onceModel
	log    journal.Buffer
	limits []limit.Limit
	now    int64
	where  string
	counts map[string]int
}

func walkOnce(t *testing.T, r *rand.Rand, specs []string, where string, counts map[string]int) {
	w := &onceWalk{T: t, r: r, now: 1.7e18, counts: counts, e: journaled(), m: &onceModel{map[string]*holdKey{}, map[string]*grantedOnce{}}}
	defer func() { w.e.Close() }()
	for _, s := range specs {
		l, err := limit.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		w.limits = append(w.limits, l)
	}
	ids := []int{3, 12, 60, 300}[r.IntN(4)]
	for step := range walkSteps {
		w.now += r.Int64N(1e9) * r.Int64N(2)
		w.where = fmt.Sprintf("%s, step %d", where, step)
		o := &Once{ID: strconv.AppendInt(nil, int64(r.IntN(ids)), 10), For: 1 + r.Int64N(20e9)}
		k := key(r.IntN(3))
		switch n := r.IntN(14); n {
		case 0, 1, 2, 3, 4, 5:
			w.take(k, o, n == 0)
		case 6:
			w.reserve(k, o)
		case 7, 8, 9, 10:
			w.together(o)
		case 11: // without an id
			l, cost := &w.limits[r.IntN(len(w.limits))], r.Int64N(3)
			d, err := take(w.e, w.now, k, l, cost)
			if want := w.m.key(k).take(w.now, l, cost); err != nil || d != want {
				t.Fatalf("%s: took %+v, %v; want %+v", w.where, d, err, want)
			}
		case 12:
			if w.e.Reset(w.now, k) {
				counts["reset"]++
			}
			w.m.states[string(k)] = &holdKey{void: w.now}
		case 13:
			w.restart()
		}
	}
}

// expect fails unless what is asked for under an id is answered as the model says: anew, again, or as another's. It
// reports whether it is to be decided anew.
func (w *onceWalk) expect(g *grantedOnce, o *Once, err error) (anew bool) {
	switch {
	case g != nil && g.asked != o.Asked:
		if !errors.Is(err, ErrOnce) {
			w.Fatalf("%s: %v, want ErrOnce", w.where, err)
		}
		w.counts["another"]++
		return false
	case err != nil:
		w.Fatalf("%s: %v", w.where, err)
	case o.Again != (g != nil):
		w.Fatalf("%s: again is %t, known %+v", w.where, o.Again, g)
	}
	return g == nil
}

func (w *onceWalk) take(k []byte, o *Once, partial bool) {
	cost := 1 + w.r.Int64N(4)
	at := w.r.IntN(len(w.limits))
	g := w.m.id(w.now, k, o.ID)
	o.Asked = uint64(at)<<8 | uint64(cost)<<1
	if partial {
		o.Asked |= 1
	}
	if g != nil && g.asked < 1<<16 && w.r.IntN(3) > 0 { // once more
		o.Asked = g.asked
		at, cost, partial = int(g.asked>>8), int64(g.asked>>1&0x7f), g.asked&1 != 0
	}
	l := &w.limits[at]
	req := Request{Limit: *l, Cost: cost, Partial: partial, Hold: &Hold{Once: o}}
	var d limit.Decision
	got, err := w.e.takeEither(w.r, w.now, k, &req, &d)
	if !w.expect(g, o, err) {
		if err == nil {
			w.again(k, l, g, &d, got, g.amount)
		}
		return
	}
	want, amount := w.m.take(w.now, k, l, cost, partial)
	if d != want || got != amount {
		w.Fatalf("%s: %d, %+v; want %d, %+v", w.where, got, d, amount, want)
	}
	switch {
	case d.Limited:
		w.counts["denied"]++
		return
	case amount < cost:
		w.counts["in part"]++
	default:
		w.counts["taken"]++
	}
	w.m.remember(w.now, k, o, amount, d.Wait)
}

// again checks the answer to a repetition.
func (w *onceWalk) again(k []byte, l *limit.Limit, g *grantedOnce, d *limit.Decision, got, amount int64) {
	if want := w.m.told(w.now, k, l, g, true); *d != want || got != amount {
		w.Fatalf("%s: again %d, %+v; want %d, %+v", w.where, got, *d, amount, want)
	}
	w.counts["again"]++
	if w.m.key(k).void >= g.until-20e9 {
		w.counts["again after a reset"]++
	}
	if d.Wait > 0 {
		w.counts["again, waiting"]++
	}
}

func (w *onceWalk) reserve(k []byte, o *Once) {
	at, cost := w.r.IntN(len(w.limits)), 1+w.r.Int64N(4)
	l := &w.limits[at]
	g := w.m.id(w.now, k, o.ID)
	o.Asked = 1<<16 | uint64(at)<<8 | uint64(cost)
	if g != nil && g.asked>>16 == 1 && w.r.IntN(3) > 0 {
		o.Asked, at, cost = g.asked, int(g.asked>>8&0xff), int64(g.asked&0xff)
		l = &w.limits[at]
	}
	var d, want limit.Decision
	err := w.e.on(w.now, k, func(t *Txn) error { return ReserveOnce(t, k, o, l, cost, -1, &d) })
	s := w.m.key(k)
	next, wantErr := limit.Reserve(l, s.live(w.now), w.now, cost, -1, nil, &want)
	if g == nil && wantErr != nil {
		if !errors.Is(err, wantErr) {
			w.Fatalf("%s: %v, want %v", w.where, err, wantErr)
		}
		return
	}
	if !w.expect(g, o, err) {
		if err == nil {
			w.again(k, l, g, &d, 0, 0)
		}
		return
	}
	if d != want {
		w.Fatalf("%s: reserved %+v, want %+v", w.where, d, want)
	}
	s.keep(w.now, l, limit.Block{}, next)
	if !d.Limited {
		w.counts["reserved"]++
		w.m.remember(w.now, k, o, cost, d.Wait)
	}
}

func (w *onceWalk) together(o *Once) {
	n := 1 + w.r.IntN(3)
	r := &Together{Decisions: make([]limit.Decision, n), Once: o}
	o.Asked = 2<<16 | uint64(n)<<24
	first := w.r.IntN(3)
	for i := range n {
		at, cost := w.r.IntN(len(w.limits)), 1+w.r.Int64N(2)
		r.Keys = append(r.Keys, key((first+i)%3))
		r.Limits, r.Costs = append(r.Limits, w.limits[at]), append(r.Costs, cost)
	}
	beside := r.Keys[0]
	if w.r.IntN(2) == 0 {
		o.Key = []byte("ids of no key")
		beside = o.Key
	}
	g := w.m.id(w.now, beside, o.ID)
	switch {
	case g != nil && g.asked == o.Asked && w.r.IntN(3) == 0:
		o.Asked++
	case g != nil && g.asked>>24 != uint64(n) && w.r.IntN(2) == 0: // the rules have changed, and other limits apply now
		o.Asked = g.asked
	}
	keys := r.Keys
	if o.Key != nil && w.r.IntN(2) == 0 {
		keys = append(append([][]byte{}, r.Keys...), o.Key)
	}
	at := 0
	err := w.e.UpdateAt(0, w.now, keys, func(t *Txn) (err error) {
		at, err = t.Together(r)
		return err
	})
	if !w.expect(g, o, err) {
		for i := range n {
			if err != nil {
				break
			}
			turns := r.Limits[i].Algorithm == limit.QUEUE
			if want := w.m.told(w.now, r.Keys[i], &r.Limits[i], g, turns); at != -1 || r.Decisions[i] != want {
				w.Fatalf("%s: again at %d, %+v; want %+v", w.where, at, r.Decisions[i], want)
			}
			w.counts["together again"]++
		}
		return
	}
	want, denied := w.m.together(w.now, r)
	wait := int64(0)
	for i := range n {
		if r.Decisions[i] != want[i] || denied != (at >= 0) {
			w.Fatalf("%s: at %d, %+v; want %+v", w.where, at, r.Decisions, want)
		}
		wait = max(wait, want[i].Wait)
	}
	if denied {
		w.counts["together denied"]++
		return
	}
	w.counts["together"]++
	w.m.remember(w.now, beside, o, 1, wait)
}

// restart replays the log into another engine.
func (w *onceWalk) restart() {
	for _, g := range w.m.ids {
		if g.until <= w.now {
			w.counts["forgotten"]++
		}
	}
	drain(w.e, &w.log)
	before, next := contents(w.e, w.now), journaled()
	if err := replay(next, w.now, w.log.Bytes); err != nil {
		w.Fatalf("%s: %v", w.where, err)
	}
	if after := contents(next, w.now); !maps.Equal(before, after) {
		w.Fatalf("%s: replayed\n%v\nwant\n%v", w.where, after, before)
	}
	w.e.Close()
	w.e, w.log = next, journal.Buffer{}
	cursor := uint64(0)
	for more := true; more; more = cursor != 0 {
		cursor = w.e.Copy(w.now, cursor, &w.log)
	}
	w.counts["replayed"]++
}

// When memory is used up, a request with an id is refused and takes nothing, and one whose id is known is granted again.
func TestOnceWhenMemoryIsUsedUp(t *testing.T) {
	e := New(Options{Shards: 1, MaxMemory: 768 << 10, Policy: LeastDebt})
	defer e.Close()
	l, err := limit.Parse("FIXED 1000000/d")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(i int) (*Once, error) {
		o := &Once{ID: fmt.Appendf(nil, "%0100d", i), For: 60e9, Asked: 7}
		r := Request{Limit: l, Cost: 1, Hold: &Hold{Once: o}}
		var d limit.Decision
		_, err := e.TakeFor(1.7e18, key(i%7), &r, &d)
		return o, err
	}
	granted, refused := map[int]bool{}, 0
	for i := range 8_000 {
		switch _, err := ask(i); {
		case err == nil:
			granted[i] = true
		case errors.Is(err, ErrOOM):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if len(granted) < 500 || refused < 500 {
		t.Fatalf("%d granted, %d refused", len(granted), refused)
	}
	for i := range granted {
		if o, err := ask(i); err != nil || !o.Again {
			t.Fatalf("request %d: again is %t, %v", i, o.Again, err)
		}
	}
	taken := int64(0)
	for i := range 7 {
		var d limit.Decision
		if err := e.Peek(1.7e18, key(i), &l, 0, &d); err != nil {
			t.Fatal(err)
		}
		taken += l.Max - d.Remaining
	}
	if taken != int64(len(granted)) {
		t.Errorf("%d are taken, %d were granted", taken, len(granted))
	}
}

// A key remembers as many ids as a set has room for. The next request is refused, takes nothing, and is granted when
// others have been forgotten.
//
//test:norace
func TestOnceOfOneKeyIsBounded(t *testing.T) {
	e := New(Options{Shards: 1})
	defer e.Close()
	l, err := limit.Parse("FIXED 1000000/d")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(now int64, i int) error {
		r := Request{Limit: l, Cost: 1, Hold: &Hold{Once: &Once{ID: strconv.AppendInt(nil, int64(i), 10), For: 60e9}}}
		var d limit.Decision
		_, err := e.TakeFor(now, key(1), &r, &d)
		return err
	}
	const now = int64(1.7e18)
	for i := range hold.MaxKnown {
		if err := ask(now, i); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := ask(now, hold.MaxKnown); err != hold.ErrKnown {
		t.Fatalf("%v, want ErrKnown", err)
	}
	var d limit.Decision
	if err := e.Peek(now, key(1), &l, 0, &d); err != nil || d.Remaining != 1_000_000-hold.MaxKnown {
		t.Errorf("%+v, %v", d, err)
	}
	if err := ask(now+60e9, hold.MaxKnown); err != nil {
		t.Error(err)
	}
}

// TestShortWayCountsRepetitions checks that the short way counts a request that is sent again as a step does, and that another request with its
// id is refused.
func TestShortWayCountsRepetitions(t *testing.T) {
	e := New(Options{Shards: 1})
	defer e.Close()
	l, err := limit.Parse("FIXED 3/d")
	if err != nil {
		t.Fatal(err)
	}
	o := Once{ID: []byte("request"), For: 60e9, Asked: 1}
	var d limit.Decision
	for i := range 4 {
		err := e.HoldAt(0, 1.7e18, key(0), &l, 3, &Hold{Once: &o}, &d)
		if err != nil || d.Limited || d.Remaining != 0 || o.Again != (i > 0) {
			t.Fatalf("request %d: %+v, again %t, %v", i, d, o.Again, err)
		}
	}
	if s := e.Stats(); s.Allowed != 4 || s.OnceRepeated != 3 {
		t.Errorf("%d requests are allowed, %d repeated; want 4 and 3", s.Allowed, s.OnceRepeated)
	}
	o.Asked = 2
	if err := e.HoldAt(0, 1.7e18, key(0), &l, 1, &Hold{Once: &o}, &d); !errors.Is(err, ErrOnce) {
		t.Errorf("another request: %v", err)
	}
}
