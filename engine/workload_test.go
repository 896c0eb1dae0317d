package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/limit"
)

// TestRandomWorkload runs everything that an engine can do, at random and from several
// goroutines, for 10 minutes with LIMITDB_LONG=1. It is meant for the race detector and
// for the tag selfcheck, which verifies every invariant after each round.
//
// Each caller has keys of its own, so that it knows their states exactly whatever the
// others do. In a round, time stands still, or has gone back.
func TestRandomWorkload(t *testing.T) {
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("RAPID_SEED"), fmt.Sprint(rand.Uint64())), 0, 64)
	lasts := time.Duration(0)
	if long() {
		lasts = 10 * time.Minute
	}
	limits := workloadLimits()
	r := rand.New(rand.NewPCG(seed, 0))
	var steps, engines, rounds int
	for began := time.Now(); engines < 3 || time.Since(began) < lasts; engines++ {
		w := newWorkload(r, limits)
		for range 5 + r.IntN(20) {
			n, err := w.round()
			steps += n
			rounds++
			if err != nil {
				t.Fatalf("RAPID_SEED=%d, engine %d, round %d: %v", seed, engines, rounds, err)
			}
		}
		if err := w.end(); err != nil {
			t.Fatalf("RAPID_SEED=%d, engine %d at its end: %v", seed, engines, err)
		}
	}
	t.Logf("%d steps in %d rounds on %d engines, with %d limits of %d algorithms", steps, rounds, engines, len(limits), len(limit.Algorithms()))
}

// workloadLimits returns limits of all algorithms: keys meet several of them.
func workloadLimits() []limit.Limit {
	var all []limit.Limit
	for _, a := range limit.Algorithms() {
		for _, l := range []limit.Limit{
			{Max: 5, Period: 1000, Burst: 5},
			{Max: 100, Period: 1000, Burst: 200},
			{Max: 1, Period: 1_000_000, Burst: 3},
			{Max: 1000, Period: 60 * second, Burst: 1000},
			{Max: 0, Period: 1000},
			{Max: 20, Period: 10_000, Burst: 20, Interval: true},
			{Max: 20, Period: 10_000, Burst: 20, First: true},
			{Max: 20, Period: 10_000, Burst: 20, CountDenied: true},
			{Max: 20, Burst: 20, Calendar: limit.Minute},
			{Max: 20, Period: 10_000, Burst: 20, Segments: 10},
			{Max: 2000, Period: 3600 * second, Burst: 2000, Segments: 1000},
			{Max: 20, Period: 10_000, Burst: 20, Warm: 100_000, Cold: 3},
		} {
			if l.Algorithm = a; l.Validate() == nil {
				all = append(all, l)
			}
		}
	}
	return all
}

// workload is an engine and its users.
type workload struct {
	r       *rand.Rand
	e       *Engine
	callers []*caller
	limits  []limit.Limit
	latest  int64 // every shard's clock between rounds
	empty   int64 // bytes of the engine without keys
	most    int64 // bytes of its budget, 0: none
	// forgets is set if keys may be lost: they are evicted, and flushed at any time.
	forgets bool
}

func newWorkload(r *rand.Rand, limits []limit.Limit) *workload {
	w := &workload{
		r: r, limits: limits, latest: start,
		e: New(Options{Shards: 1 << (4 * r.IntN(3)), Seed: r.Uint64()}),
	}
	w.empty = w.e.Stats().Bytes
	if r.IntN(3) > 0 {
		w.most = w.empty + 100_000 + r.Int64N(1_000_000)
	}
	w.forgets = r.IntN(2) == 0
	w.limitMemory(w.most)
	for i := range 4 {
		w.callers = append(w.callers, &caller{
			w: w, name: byte(i), r: rand.New(rand.NewPCG(r.Uint64(), 0)), keys: map[string][]modelEntry{},
			spread: 1 + r.IntN(20_000),
		})
	}
	return w
}

func (w *workload) limitMemory(most int64) {
	policy := NoEviction
	if w.forgets {
		policy = LeastDebt
	}
	w.e.SetMaxMemory(most, policy)
}

// round lets all callers run for a while, and then checks everything. It returns
// the number of their steps.
func (w *workload) round() (int, error) {
	now := w.latest
	switch w.r.IntN(10) {
	case 0:
		now -= w.r.Int64N(10 * second)
	case 1:
		now += w.r.Int64N(100 * second)
	default:
		now += w.r.Int64N(1_000_000)
	}
	w.latest = max(w.latest, now)
	if _, err := w.walk(); err != nil { // brings all shards to one time
		return 0, err
	}
	var (
		all, walker sync.WaitGroup
		done        atomic.Bool
		errs        = make([]error, len(w.callers)+1)
		n           = 100 + w.r.IntN(2000)
	)
	walk := rand.New(rand.NewPCG(w.r.Uint64(), 0))
	walker.Go(func() {
		for !done.Load() && errs[len(w.callers)] == nil {
			errs[len(w.callers)] = w.disturb(walk)
		}
	})
	for i, c := range w.callers {
		all.Go(func() {
			for range n {
				if errs[i] = c.step(now); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	done.Store(true)
	walker.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return n * len(w.callers), w.verify()
}

// disturb does one of the things that happen to a table besides decisions.
func (w *workload) disturb(r *rand.Rand) error {
	switch r.IntN(6) {
	case 0, 1:
		w.e.Sweep(w.latest, r.IntN(10_000))
	case 2:
		_, err := w.walk()
		return err
	case 3:
		if k, ok := randomOf(w.e, w.latest, nil); ok && int(k[0]) >= len(w.callers) {
			return fmt.Errorf("Random found %q, which is nobody's", k)
		}
	case 4:
		if n := w.e.Stats().Keys; n < 0 {
			return fmt.Errorf("%d keys", n)
		}
	case 5:
		switch {
		case !w.forgets || r.IntN(20) > 0:
		case w.most > 0 && r.IntN(3) > 0:
			w.limitMemory(w.empty + r.Int64N(w.most-w.empty))
		default:
			w.e.Flush()
		}
	}
	return nil
}

// walk visits all keys and returns what it has found.
func (w *workload) walk() (map[string]Info, error) {
	seen := map[string]Info{}
	for cursor := uint64(0); ; {
		cursor = w.e.Range(w.latest, cursor, 500, func(k []byte, info Info) { seen[string(k)] = info })
		if cursor == 0 {
			break
		}
	}
	for k := range seen {
		if len(k) == 0 || int(k[0]) >= len(w.callers) {
			return nil, fmt.Errorf("Range found %q, which is nobody's", k)
		}
	}
	return seen, nil
}

// verify compares the whole table with what its users know.
func (w *workload) verify() error {
	w.e.check()
	seen, err := w.walk()
	if err != nil {
		return err
	}
	live := 0
	for _, c := range w.callers {
		for k := range c.keys {
			info, there := seen[k]
			if err := c.found([]byte(k), info, there); err != nil {
				return err
			}
			live += min(1, len(c.keys[k]))
		}
	}
	if live != len(seen) {
		return fmt.Errorf("%d keys live, want %d", len(seen), live)
	}
	return nil
}

// end lets everything expire. Nothing may be left then.
func (w *workload) end() error {
	w.e.SetMaxMemory(0, NoEviction)
	w.latest += 1e6 * second
	for range 4 {
		w.e.Sweep(w.latest, 1<<40)
	}
	w.e.check()
	if st := w.e.Stats(); st.Keys != 0 || st.Bytes != w.empty {
		return fmt.Errorf("%+v when all has expired, %d bytes at first", st, w.empty)
	}
	return nil
}

// caller takes from keys of its own, which begin with its name.
type caller struct {
	w    *workload
	name byte
	r    *rand.Rand
	// keys holds the states that a key may have. Without forgets there is one.
	// With forgets, no state is always possible as well, and an answer that is
	// the same for several states leaves all of them possible.
	keys   map[string][]modelEntry
	spread int // how many different keys
}

func (c *caller) key() []byte {
	i := c.r.IntN(c.spread)
	k := fmt.Appendf([]byte{c.name}, "%d", i)
	if i%64 == 0 {
		k = append(k, make([]byte, i%4000)...)
	}
	return k
}

// The steps of a caller.
const (
	stepTake = iota
	stepPeek
	stepRefund
	stepPartial
	stepReserve
	stepTakeAt
	stepReset
	stepInfo
	stepKinds
)

// states returns the states that a key may have now. One of them is empty if it
// may have none.
func (c *caller) states(key []byte) []modelEntry {
	all := slices.DeleteFunc(c.keys[string(key)], func(x modelEntry) bool { return x.expires() <= c.w.latest })
	c.keep(key, all)
	if c.w.forgets || len(all) == 0 {
		all = append(slices.Clip(all), modelEntry{})
	}
	return all
}

// keep makes these the states that a key may have.
func (c *caller) keep(key []byte, all []modelEntry) {
	if len(all) == 0 {
		delete(c.keys, string(key))
		return
	}
	c.keys[string(key)] = all
}

// found keeps those states of a key that fit the engine's answer.
func (c *caller) found(key []byte, info Info, there bool) error {
	all := c.states(key)
	possible := all[:0:0]
	free := false
	for _, x := range all {
		switch {
		case x.state == nil:
			free = true
		case there && info.Kind == x.kind && info.Expires == x.expires():
			possible = append(possible, x)
		}
	}
	if there && len(possible) == 0 || !there && !free {
		return fmt.Errorf("%.20q is %+v, %v, want one of %v", key, info, there, all)
	}
	c.keep(key, possible)
	return nil
}

func (c *caller) step(now int64) error {
	key := c.key()
	kind := max(0, c.r.IntN(2*stepKinds)-stepKinds) // half of them take
	switch kind {
	case stepReset:
		all := c.states(key)
		got, live := c.w.e.Reset(now, key), all[0].state != nil
		delete(c.keys, string(key))
		if got != live && !(live && c.w.forgets) {
			return fmt.Errorf("Reset(%.20q) = %v", key, got)
		}
	case stepInfo:
		info, there := c.w.e.Info(now, key)
		return c.found(key, info, there)
	default:
		return c.decide(now, kind, key)
	}
	return nil
}

// question is what a caller asks the engine and, for comparison, the algorithm.
type question struct {
	kind          int
	l             limit.Limit
	cost, maxWait int64
}

type answer struct {
	d       limit.Decision
	granted int64
	err     error
}

func (c *caller) decide(now int64, kind int, key []byte) error {
	q := question{kind, c.w.limits[c.r.IntN(len(c.w.limits))], c.r.Int64N(12), c.r.Int64N(100_000)}
	got := q.ask(c.w.e, now, key)
	all := c.states(key)
	var possible []modelEntry
	answered := false
	for _, x := range all {
		want, next := q.expect(x, c.w.latest)
		gone := next != nil && limit.Expires(q.l.Algorithm.Kind(), next) <= c.w.latest
		switch {
		case got.err == ErrOOM && c.w.most > 0 && len(next) > len(x.state) && !gone:
			next = nil // nothing has changed
		case got != want:
			continue
		}
		answered = true
		if next != nil {
			x = modelEntry{q.l.Algorithm.Kind(), bytes.Clone(next)}
		}
		if x.state != nil && !gone && !slices.ContainsFunc(possible, x.equal) {
			possible = append(possible, x)
		}
	}
	if !answered {
		want, _ := q.expect(all[0], c.w.latest)
		return fmt.Errorf("%+v of %.20q at %d is %+v, want %+v with %v", q, key, now, got, want, all)
	}
	c.keep(key, possible)
	return nil
}

func (x modelEntry) equal(y modelEntry) bool {
	return x.kind == y.kind && bytes.Equal(x.state, y.state)
}

func (q question) ask(e *Engine, now int64, key []byte) (a answer) {
	switch q.kind {
	case stepPeek:
		a.err = e.Peek(now, key, &q.l, q.cost, &a.d)
	case stepRefund:
		a.err = e.Refund(now, key, &q.l, q.cost, &a.d)
	case stepPartial:
		a.granted, a.err = takePartial(e, now, key, &q.l, q.cost, &a.d)
	case stepReserve:
		a.err = e.Reserve(now, key, &q.l, q.cost, q.maxWait, &a.d)
	case stepTakeAt:
		var places [2]Place
		e.Warm([][]byte{append(key, 'x'), key}, places[:], true)
		a.err = e.TakeAt(places[1], now, key, &q.l, q.cost, &a.d)
	default:
		a.err = e.Take(now, key, &q.l, q.cost, &a.d)
	}
	if a.err != nil {
		a.d = limit.Decision{}
	}
	return a
}

// expect returns the algorithm's own answer, and the state to keep if that is not
// nil.
func (q question) expect(x modelEntry, now int64) (a answer, next []byte) {
	x.state = bytes.Clone(x.state) // next may be the same bytes, changed
	if x.state != nil && !limit.SameFamily(x.kind, q.l.Algorithm.Kind()) {
		return answer{err: ErrWrongType}, nil
	}
	switch q.kind {
	case stepPeek:
		a.err = limit.Peek(&q.l, x.state, now, q.cost, &a.d)
	case stepRefund:
		next, a.err = limit.Refund(&q.l, x.state, now, q.cost, nil, &a.d)
	case stepPartial:
		cost := q.cost
		for { // the most that is granted, or else the denial of 1
			next, a.err = limit.Take(&q.l, bytes.Clone(x.state), now, cost, nil, &a.d)
			if a.err != nil || !a.d.Limited || cost <= 1 {
				break
			}
			cost--
		}
		if a.err == nil && !a.d.Limited {
			a.granted = cost
		}
	case stepReserve:
		next, a.err = limit.Reserve(&q.l, x.state, now, q.cost, q.maxWait, nil, &a.d)
	default:
		next, a.err = limit.Take(&q.l, x.state, now, q.cost, nil, &a.d)
	}
	if a.err != nil {
		a.d = limit.Decision{}
	}
	return a, next
}
