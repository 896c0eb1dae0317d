package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// holdKey is a key with holds once more: a state that the functions of limit change one after the other, and
// a map. Nothing in it is clever.
type holdKey struct {
	kind  limit.Kind
	state []byte
	void  int64
	held  map[string]*heldOnce
}

type heldOnce struct {
	l                          limit.Limit
	amount, estimate           int64
	taken, until, back         int64
	returns, returned, settled bool
	forgotten                  int64
	s                          Settlement
	cancelledFirst             bool
}

func (k *holdKey) live(now int64) []byte {
	if k.kind == 0 || limit.Expires(k.kind, k.state) <= now {
		k.kind, k.state = 0, nil
	}
	return k.state
}

// inner returns the state that l's algorithm reads, and the block around it.
func (k *holdKey) inner(now int64) (state []byte, b limit.Block) {
	if state = k.live(now); k.kind == limit.BLOCK {
		var err error
		if _, state, err = b.Open(state, now); err != nil {
			panic(err)
		}
	}
	return state, b
}

// keep keeps the next state for l's algorithm, with a block around it that still matters.
func (k *holdKey) keep(now int64, l *limit.Limit, b limit.Block, next []byte) {
	if next == nil {
		return
	}
	if k.kind, k.state = l.Algorithm.Kind(), append([]byte(nil), next...); b.Remembered(now) {
		if limit.Expires(k.kind, k.state) <= now {
			k.state = nil
		}
		k.kind, k.state = limit.BLOCK, b.Put(nil, k.kind, k.state)
	}
}

// due returns how many holds are to go back at now.
func (k *holdKey) due(now int64) (n int) {
	for _, h := range k.held {
		if h.returns && !h.settled && !h.returned && h.until <= now {
			n++
		}
	}
	return n
}

// clone returns a copy of all that is known.
func (k *holdKey) clone() *holdKey {
	c := *k
	c.state, c.held = append([]byte(nil), k.state...), map[string]*heldOnce{}
	for id, h := range k.held {
		one := *h
		c.held[id] = &one
	}
	return &c
}

// pass gives back what is due, and forgets what is forgotten.
func (k *holdKey) pass(now int64) (ended int) {
	for id, h := range k.held {
		if h.returns && !h.settled && !h.returned && h.until <= now {
			h.returned, h.estimate, h.forgotten = true, h.amount, h.until+h.until-h.taken
			ended++
			if state, b := k.inner(now); state != nil && h.taken > k.void {
				next, n, _ := limit.Return(&h.l, state, now, h.back, h.amount, nil)
				k.keep(now, &h.l, b, next)
				h.amount -= n
			}
		}
		if h.forgotten <= now {
			delete(k.held, id)
		}
	}
	return ended
}

func (k *holdKey) take(now int64, l *limit.Limit, cost int64) (d limit.Decision) {
	d, _ = k.takeUntil(now, l, cost)
	return d
}

// takeUntil is take, and returns when all that is in use then has come back by itself, whatever a block is remembered for.
func (k *holdKey) takeUntil(now int64, l *limit.Limit, cost int64) (d limit.Decision, back int64) {
	state, b := k.inner(now)
	var plain limit.Decision
	next, err := limit.Take(l, append([]byte(nil), state...), now, cost, nil, &plain)
	if err != nil {
		panic(err)
	}
	if k.kind != limit.BLOCK && l.Block == 0 {
		k.keep(now, l, b, next)
		return plain, now + plain.Reset
	}
	next, as, err := limit.TakeBlock(l, k.kind, k.state, now, cost, nil, &d)
	if err != nil {
		panic(err)
	}
	if next != nil {
		k.kind, k.state = as, append([]byte(nil), next...)
	}
	return d, now + plain.Reset
}

// peek answers as take would.
func (k *holdKey) peek(now int64, l *limit.Limit, cost int64) (d limit.Decision) {
	k.live(now)
	if err := limit.PeekBlock(l, k.kind, k.state, now, cost, &d); err != nil {
		panic(err)
	}
	return d
}

func (k *holdKey) settle(now int64, id string, actual int64, commit bool) (Settlement, error) {
	h := k.held[id]
	switch {
	case h == nil && commit:
		return Settlement{}, ErrNoHold
	case h == nil:
		k.held[id] = &heldOnce{settled: true, cancelledFirst: true, forgotten: now + Remembered}
		return Settlement{}, nil
	case h.settled:
		again := h.s
		again.Again, again.Decision, again.Estimate, again.Actual = true, limit.Decision{}, 0, 0
		if again.Limit.Algorithm != 0 {
			state, _ := k.inner(now)
			if err := limit.Peek(&h.l, state, now, 0, &again.Decision); err != nil {
				panic(err)
			}
		}
		return again, nil
	}
	estimate := h.amount
	if h.returned {
		estimate = h.estimate
	}
	if actual < 0 {
		actual = estimate
	}
	s := Settlement{Limit: h.l, Estimate: estimate, Actual: actual}
	state, b := k.inner(now)
	switch more := actual - h.amount; {
	case more > 0:
		var before limit.Decision
		if err := limit.Peek(&h.l, state, now, 0, &before); err != nil {
			panic(err)
		}
		next, err := limit.Charge(&h.l, state, now, more, nil, &s.Decision)
		if err != nil {
			return s, err
		}
		k.keep(now, &h.l, b, next)
		s.Charged, s.Over = more, max(0, more-before.Remaining)
	default:
		if state != nil && !h.returned && h.taken > k.void && more < 0 {
			next, n, err := limit.Return(&h.l, state, now, h.back, -more, nil)
			if err != nil {
				panic(err)
			}
			k.keep(now, &h.l, b, next)
			s.Charged = -n
		}
		state, _ = k.inner(now)
		if err := limit.Peek(&h.l, state, now, 0, &s.Decision); err != nil {
			panic(err)
		}
	}
	h.settled, h.s, h.forgotten = true, s, now+Remembered
	return s, nil
}

// holdLimits are some limits of one family.
func holdLimits() [][]string {
	return [][]string{
		{"GCRA 10/10s"},
		{"GCRA 10/10s BURST 4"},
		{"LEAKY 100/m"},
		{"TOKEN 10/10s INTERVAL"},
		{"QUEUE 10/10s"},
		{"WARMUP 10/10s WARM 5s"},
		{"FIXED 10/10s"},
		{"FIXED 10/10s FIRST"},
		{"FIXED 10 CALENDAR MINUTE TZ Europe/Berlin"},
		{"SLIDING 10/10s"},
		{"SEGMENTED 10/10s SEGMENTS 5"},
		{"LOG 10/10s"},
		{"LOG 300/m"},
		{"FIXED 100/h", "FIXED 10/m"},
		{"GCRA 10/10s", "TOKEN 30/m BURST 7", "GCRA 1000/h"},
		{"SLIDING 10/10s", "SLIDING 30/m"},
		{"LOG 10/10s", "LOG 5/20s"},
		{"LEAKY 100/m", "LEAKY 10/m BURST 3"},
		{"TOKEN 10/10s INTERVAL", "TOKEN 20/10s INTERVAL"},
		{"QUEUE 10/10s", "QUEUE 30/m"},
		{"WARMUP 10/10s WARM 5s", "WARMUP 20/10s WARM 5s"},
		{"SEGMENTED 10/10s SEGMENTS 5", "SEGMENTED 20/10s SEGMENTS 5"},
	}
}

// blockingLimits are limits that block, alone and beside others.
func blockingLimits() [][]string {
	return [][]string{
		{"GCRA 10/10s BLOCK 2s UPTO 8s"},
		{"GCRA 10/10s BLOCK 7s UPTO 9s"},
		{"TOKEN 10/10s INTERVAL BLOCK 7s UPTO 9s"},
		{"FIXED 10/10s FIRST BLOCK 3s", "FIXED 15/10s FIRST BLOCK 1s UPTO 4s", "FIXED 10/10s FIRST"},
		{"FIXED 10/10s FIRST BLOCK 12s UPTO 14s"},
		{"SLIDING 10/10s BLOCK 12s UPTO 14s"},
		{"SEGMENTED 10/10s SEGMENTS 5 BLOCK 12s UPTO 14s"},
		{"LOG 10/10s BLOCK 1s UPTO 20s", "LOG 10/10s"},
		{"LOG 10/10s BLOCK 12s UPTO 14s"},
		{"QUEUE 10/10s BLOCK 7s UPTO 9s"},
		{"WARMUP 10/10s WARM 5s BLOCK 7s UPTO 9s"},
	}
}

// walkSteps is how many steps a walk has.
const walkSteps = 600

// modelRounds returns how many rounds of some steps each a test against a model makes: few or many, or as many as LIMITDB_STEPS
// needs, which says how many steps there are in all.
func modelRounds(t *testing.T, few, many, steps int) uint64 {
	if s := os.Getenv("LIMITDB_STEPS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return uint64((n + steps - 1) / steps)
	}
	return uint64(scaled(few, many))
}

// What is held, committed, cancelled, over and forgotten is what it would be if all of that were done slowly one after
// the other, for all algorithms, also after the log has been replayed into another engine, or a part of it, as by a node that leads
// in the place of one whose last records nobody else has.
//
//test:norace
func TestHoldsModel(t *testing.T) {
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("RAPID_SEED"), fmt.Sprint(rand.Uint64())), 0, 64)
	counts := map[string]int{}
	families := slices.Concat(holdLimits(), blockingLimits())
	for round := range modelRounds(t, 3, 60, len(families)*walkSteps) {
		for family, specs := range families {
			walkHolds(t, rand.New(rand.NewPCG(seed, round<<8|uint64(family))), specs, fmt.Sprintf("RAPID_SEED=%d, round %d, %v", seed, round, specs), counts)
		}
	}
	for _, of := range []string{"held", "denied", "again", "used", "committed", "over", "given back", "cancelled first", "settled again", "no hold", "ended", "reset", "replayed", "failed over"} {
		if counts[of] < 20 {
			t.Errorf("%s: %d times", of, counts[of])
		}
	}
	t.Log(counts)
}

// takeEither is TakeFor or HoldAt: the short way does what a step does.
func (e *Engine) takeEither(r *rand.Rand, now int64, key []byte, req *Request, d *limit.Decision) (granted int64, err error) {
	if r.IntN(3) == 0 || req.Partial {
		return e.TakeFor(now, key, req, d)
	}
	if err = e.HoldAt(0, now, key, &req.Limit, req.Cost, req.Hold, d); err == nil && !d.Limited {
		granted = req.Cost
	}
	return granted, err
}

// settleEither settles in a step or by the short way.
func (e *Engine) settleEither(r *rand.Rand, now int64, key, id []byte, actual int64, commit bool, s *Settlement) error {
	switch step := r.IntN(3) == 0; {
	case !step && commit:
		return e.SettleAt(0, now, key, id, actual, s)
	case !step:
		return e.GiveUpAt(0, now, key, id, s)
	}
	return e.on(now, key, func(t *Txn) error {
		if commit {
			return Settle(t, key, id, actual, s)
		}
		return GiveUp(t, key, id, s)
	})
}

func walkHolds(t *testing.T, r *rand.Rand, specs []string, where string, counts map[string]int) {
	var limits []limit.Limit
	for _, s := range specs {
		l, err := limit.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
	}
	newEngine := func() *Engine {
		e := New(Options{Shards: 2})
		e.StartJournal(0, new(journal.Gate), func() {})
		return e
	}
	e := newEngine()
	defer func() { e.Close() }()
	var log journal.Buffer
	k := &holdKey{void: math.MinInt64, held: map[string]*heldOnce{}}
	key, now := []byte("tenant"), int64(1.7e18)
	ids := []int{4, 12, 60, 400}[r.IntN(4)]
	saved := k.clone() // when the log was drained
	for step := range walkSteps {
		at := fmt.Sprintf("%s, step %d", where, step)
		// Go to each time at which something goes back: buckets tell the order.
		later := now + r.Int64N(1e9)*r.Int64N(3)
		for now < later {
			next := later
			for _, h := range k.held {
				if h.returns && !h.returned && !h.settled && h.until > now {
					next = min(next, h.until)
				}
			}
			now = next
			ended := k.pass(now)
			counts["ended"] += ended
			if ended > 0 {
				var d limit.Decision
				if err := e.Peek(now, key, &limits[0], 0, &d); err != nil {
					t.Fatalf("%s: %v", at, err)
				}
			}
		}
		l := &limits[r.IntN(len(limits))]
		id := strconv.Itoa(r.IntN(ids))
		var d limit.Decision
		switch r.IntN(12) {
		case 0, 1, 2, 3: // hold
			ttl := 1e6 + r.Int64N(20e9)
			cost, returns := 1+r.Int64N(6), r.IntN(2) == 0
			h := k.held[id]
			if h != nil && !h.settled && r.IntN(2) == 0 { // once more
				l, ttl, cost, returns = &h.l, h.until-h.taken, h.amount, h.returns
			}
			req := Request{Limit: *l, Cost: cost, Hold: &Hold{ID: []byte(id), TTL: ttl, Returns: returns}}
			got, err := e.takeEither(r, now, key, &req, &d)
			switch {
			case h != nil && h.cancelledFirst:
				if err != ErrCancelled {
					t.Fatalf("%s: %v, want ErrCancelled", at, err)
				}
				counts["used"]++
				continue
			case h != nil && (h.settled || h.until <= now || h.l.String() != l.String() || h.until-h.taken != ttl || h.amount != cost || h.returns != returns):
				if err != ErrHeld {
					t.Fatalf("%s: %v, want ErrHeld", at, err)
				}
				counts["used"]++
				continue
			case h != nil:
				if err != nil || got != cost || d.Limited {
					t.Fatalf("%s: again: %d, %+v, %v", at, got, d, err)
				}
				counts["again"]++
				continue
			}
			want, back := k.takeUntil(now, l, cost)
			if err != nil || d != want || (got == cost) == want.Limited {
				t.Fatalf("%s: held %d, %+v, %v; want %+v", at, got, d, err, want)
			}
			if d.Limited {
				counts["denied"]++
				continue
			}
			counts["held"]++
			h = &heldOnce{l: *l, amount: cost, taken: now, until: now + ttl, back: back, returns: returns, forgotten: now + 2*ttl}
			if returns {
				h.forgotten = max(h.forgotten, h.back)
			}
			k.held[id] = h
		case 4, 5, 6, 7, 8: // settle
			commit, actual := r.IntN(3) > 0, r.Int64N(12)-1
			if !commit {
				actual = 0
			}
			var s Settlement
			err := e.settleEither(r, now, key, []byte(id), actual, commit, &s)
			want, wantErr := k.settle(now, id, actual, commit)
			if want.Limit.Zone != nil && s.Limit.Zone != nil && want.Limit.Zone.String() == s.Limit.Zone.String() {
				s.Limit.Zone = want.Limit.Zone // the engine has its own
			}
			if !errors.Is(err, wantErr) || err == nil && s != want {
				t.Fatalf("%s: %+v, %v; want %+v, %v", at, s, err, want, wantErr)
			}
			switch {
			case err != nil:
				counts["no hold"]++
			case s.Again:
				counts["settled again"]++
			case s.Over > 0:
				counts["over"]++
			case s.Charged < 0:
				counts["given back"]++
			case s.Limit.Algorithm == 0:
				counts["cancelled first"]++
			default:
				counts["committed"]++
			}
		case 9, 10: // take
			cost := r.Int64N(4)
			d, err := take(e, now, key, l, cost)
			if want := k.take(now, l, cost); err != nil || d != want {
				t.Fatalf("%s: took %+v, %v; want %+v", at, d, err, want)
			}
		case 11:
			switch r.IntN(4) {
			case 0:
				if was := e.Reset(now, key); was != (k.live(now) != nil) {
					t.Fatalf("%s: reset %t", at, was)
				} else if was {
					k.kind, k.state, k.void = 0, nil, now
					counts["reset"]++
				}
				now++ // what is taken in the nanosecond of a reset is taken before it, or after it
			case 1: // a restart
				drain(e, &log)
				before := contents(e, now)
				next := newEngine()
				if err := replay(next, now, log.Bytes); err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				if after := contents(next, now); !maps.Equal(before, after) {
					t.Fatalf("%s: replayed\n%v\nwant\n%v", at, after, before)
				}
				e.Close()
				e, log = next, journal.Buffer{}
				cursor := uint64(0)
				for more := true; more; more = cursor != 0 {
					cursor = e.Copy(now, cursor, &log)
				}
				saved = k.clone()
				counts["replayed"]++
			case 2:
				drain(e, &log)
				saved = k.clone()
			case 3: // a failover: what came after the last records was not answered
				if saved.due(now) > 1 {
					break // it matters to buckets which of them goes back first
				}
				e.Close()
				if e = newEngine(); replay(e, now, log.Bytes) != nil {
					t.Fatal(at)
				}
				k = saved.clone()
				k.pass(now)
				var d limit.Decision
				if err := e.Peek(now, key, &limits[0], 0, &d); err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				drain(e, &log)
				saved = k.clone()
				counts["failed over"]++
			}
		}
		// The ids that are known are those of the model.
		known := 0
		if err := e.on(now, key, func(t *Txn) error {
			known = 0
			return Holds(t, key, func(h *Held) bool { known++; return true })
		}); err != nil || known != len(k.held) {
			t.Fatalf("%s: %d ids are known, want %d, %v", at, known, len(k.held), err)
		}
	}
}

// TestShortWayGrantsAHoldAgain checks that the short way answers a hold that is sent again as a step does: it takes nothing, and is not another
// hold with its id.
func TestShortWayGrantsAHoldAgain(t *testing.T) {
	const now = int64(1.7e18)
	for _, returns := range []bool{false, true} {
		e := New(Options{Shards: 1})
		defer e.Close()
		limits := parsed(t, "FIXED 10/d", "FIXED 11/d")
		l, other := limits[0], limits[1]
		h := Hold{ID: []byte("request"), TTL: 60e9, Returns: returns}
		var d, inStep limit.Decision
		for i := range 4 {
			if err := e.HoldAt(0, now+int64(i), key(0), &l, 3, &h, &d); err != nil || d.Limited || d.Remaining != 7 || h.Again != (i > 0) {
				t.Fatalf("request %d: %+v, again %t, %v", i, d, h.Again, err)
			}
		}
		if s := e.Stats(); s.Allowed != 4 || s.HoldsTaken != 1 {
			t.Errorf("%d requests are allowed, %d holds taken; want 4 and 1", s.Allowed, s.HoldsTaken)
		}
		if err := e.Update(now+3, [][]byte{key(0)}, func(txn *Txn) error {
			_, err := txn.Take(key(0), &Request{Limit: l, Cost: 3, Hold: &Hold{ID: h.ID, TTL: h.TTL, Returns: returns}}, &inStep)
			return err
		}); err != nil || d != inStep {
			t.Errorf("%+v, and %+v in a step: %v", d, inStep, err)
		}
		k := key(0)
		if n := testing.AllocsPerRun(10, func() { _ = e.HoldAt(0, now+4, k, &l, 3, &h, &d) }); n != 0 && !raceDetector {
			t.Errorf("a hold that is sent again allocates %v times: it was a step", n)
		}
		for i, try := range []struct {
			l    *limit.Limit
			cost int64
			h    Hold
			now  int64
		}{
			{&other, 3, h, now + 5},
			{&l, 2, h, now + 5},
			{&l, 3, Hold{ID: h.ID, TTL: h.TTL + 1, Returns: returns}, now + 5},
			{&l, 3, Hold{ID: h.ID, TTL: h.TTL, Returns: !returns}, now + 5},
			{&l, 3, Hold{ID: h.ID, TTL: h.TTL, Returns: returns}, now + h.TTL},
		} {
			if err := e.HoldAt(0, try.now, key(0), try.l, try.cost, &try.h, &d); !errors.Is(err, ErrHeld) {
				t.Errorf("another hold, %d: %v", i, err)
			}
		}
	}
}

// TestShortWayGivesBackFirst checks that what is to go back is given back before the short way decides or settles.
func TestShortWayGivesBackFirst(t *testing.T) {
	e := New(Options{Shards: 1})
	defer e.Close()
	l, err := limit.Parse("FIXED 10/d")
	if err != nil {
		t.Fatal(err)
	}
	now, key := int64(1.7e18), []byte("tenant")
	held := func(id string, cost int64, returns bool) bool {
		var d limit.Decision
		if err := e.HoldAt(0, now, key, &l, cost, &Hold{ID: []byte(id), TTL: 1e9, Returns: returns}, &d); err != nil {
			t.Fatal(id, err)
		}
		return !d.Limited
	}
	if !held("first", 10, true) || held("second", 1, false) {
		t.Fatal("the first must take all")
	}
	now += 1e9
	if !held("third", 8, true) {
		t.Error("the third is denied, although the first has gone back")
	}
	now += 1e9
	var s Settlement
	if err := e.SettleAt(0, now, key, []byte("third"), 3, &s); err != nil || s.Charged != 3 || s.Decision.Remaining != 7 {
		t.Errorf("the third was settled when it had gone back: %+v, %v", s, err)
	}
}

// What a step holds and then removes does not go back later.
func TestStepHoldsAndRemoves(t *testing.T) {
	e := New(Options{})
	l := limit.Limit{Algorithm: limit.FIXED, Max: 10, Burst: 10, Period: 3600e9, First: true}
	take := func(now, cost int64) (d limit.Decision) {
		t.Helper()
		if err := e.Take(now, key(1), &l, cost, &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	err := e.Update(start, [][]byte{key(1)}, func(tx *Txn) error {
		var d limit.Decision
		r := Request{Limit: l, Cost: 4, Hold: &Hold{ID: []byte("x"), TTL: 10e9, Returns: true}}
		if _, err := tx.Take(key(1), &r, &d); err != nil {
			return err
		}
		_, err := tx.Delete(key(1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	take(start, 9)
	if d := take(start+11e9, 1); d.Remaining != 0 {
		t.Errorf("%d are left", d.Remaining)
	}
	e.check()
}

// Forget leaves nothing of a key, also if only ids are known of it.
func TestForget(t *testing.T) {
	e := New(Options{})
	l := limit.Limit{Algorithm: limit.FIXED, Max: 10, Burst: 10, Period: 1e9}
	for i := range 20 {
		r := Request{Limit: l, Cost: 1, Hold: &Hold{ID: []byte("x"), TTL: 60e9}}
		var d limit.Decision
		err := e.Update(start, [][]byte{key(i)}, func(tx *Txn) (err error) {
			_, err = tx.Take(key(i), &r, &d)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	now, met := start+2e9, 0
	err := e.Update(now, nil, func(tx *Txn) error {
		var found [][]byte
		met = 0
		err := tx.Each(func(key []byte, kind limit.Kind) bool {
			if met++; kind != limit.HOLDS {
				t.Errorf("%q has the kind %d", key, kind)
			}
			found = append(found, []byte(string(key)))
			return true
		})
		for _, key := range found {
			if err == nil {
				err = Forget(tx, key)
			}
		}
		return err
	})
	if err != nil || met != 20 {
		t.Fatal(met, err)
	}
	e.Records(now, 0, 1<<20, func(key []byte, info Info) { t.Errorf("%q is left", key) })
	e.check()
}
