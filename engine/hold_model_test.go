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
	void                       bool // the key was reset since it was taken
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

// pass returns the estimates of holds whose time is over, and drops the ids that need not be remembered any more.
func (k *holdKey) pass(now int64) (ended int) {
	for id, h := range k.held {
		if h.returns && !h.settled && !h.returned && h.until <= now {
			h.returned, h.estimate, h.forgotten = true, h.amount, h.until+h.until-h.taken
			ended++
			if state, b := k.inner(now); state != nil && !h.void {
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

// reset forgets the state. What is held can be settled, and does not go back.
func (k *holdKey) reset(now int64) {
	k.kind, k.state, k.void = 0, nil, now
	for _, h := range k.held {
		h.void = true
		h.back = min(h.back, now)
	}
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

// nothingLeft is what a settlement says of the limit if there is none.
var nothingLeft = limit.Decision{Limit: -1, Remaining: -1}

func (k *holdKey) settle(now int64, id string, actual int64, commit bool) (Settlement, error) {
	h := k.held[id]
	switch {
	case h == nil && commit:
		return Settlement{}, ErrNoHold
	case h == nil:
		k.held[id] = &heldOnce{settled: true, cancelledFirst: true, forgotten: now + Remembered}
		return Settlement{Decision: nothingLeft}, nil
	case h.settled:
		again := h.s
		again.Again, again.Decision, again.Estimate, again.Actual = true, nothingLeft, 0, 0
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
		if state != nil && !h.returned && !h.void && more < 0 {
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

// holdWalk is a random walk over an engine and the model.
type holdWalk struct {
	*testing.T
	r      *rand.Rand
	e      *Engine
	k      *holdKey
	saved  *holdKey // k when the log was drained
	log    journal.Buffer
	limits []limit.Limit
	key    []byte
	now    int64
	where  string
	counts map[string]int
}

func walkHolds(t *testing.T, r *rand.Rand, specs []string, where string, counts map[string]int) {
	w := &holdWalk{T: t, r: r, e: journaled(), k: &holdKey{void: math.MinInt64, held: map[string]*heldOnce{}}, key: []byte("tenant"), now: 1.7e18, counts: counts}
	defer func() { w.e.Close() }()
	for _, s := range specs {
		l, err := limit.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		w.limits = append(w.limits, l)
	}
	ids := []int{4, 12, 60, 400}[r.IntN(4)]
	w.saved = w.k.clone()
	for step := range walkSteps {
		w.where = fmt.Sprintf("%s, step %d", where, step)
		w.pass(w.now + r.Int64N(1e9)*r.Int64N(3))
		l := &w.limits[r.IntN(len(w.limits))]
		id := strconv.Itoa(r.IntN(ids))
		switch r.IntN(12) {
		case 0, 1, 2, 3:
			if !w.hold(l, id) {
				continue // no step looks at a key that has not changed: the next one finds it as the short way has left it
			}
		case 4, 5, 6, 7, 8:
			w.settle(id)
		case 9, 10:
			cost := r.Int64N(4)
			d, err := take(w.e, w.now, w.key, l, cost)
			if want := w.k.take(w.now, l, cost); err != nil || d != want {
				t.Fatalf("%s: took %+v, %v; want %+v", w.where, d, err, want)
			}
		case 11:
			switch r.IntN(4) {
			case 0:
				w.reset()
			case 1:
				w.restart()
			case 2:
				w.drain()
			case 3:
				w.failOver()
			}
		}
		w.knows()
	}
}

// journaled returns an engine that records its changes.
func journaled() *Engine {
	e := New(Options{Shards: 2})
	e.StartJournal(0, new(journal.Gate), func() {})
	return e
}

// pass lets time pass. It goes to each time at which something goes back: buckets tell the order.
func (w *holdWalk) pass(later int64) {
	for w.now < later {
		next := later
		for _, h := range w.k.held {
			if h.returns && !h.returned && !h.settled && h.until > w.now {
				next = min(next, h.until)
			}
		}
		w.now = next
		ended := w.k.pass(w.now)
		w.counts["ended"] += ended
		if ended > 0 {
			w.look()
		}
	}
}

// look looks at the key, so that what is due goes back.
func (w *holdWalk) look() {
	var d limit.Decision
	if err := w.e.Peek(w.now, w.key, &w.limits[0], 0, &d); err != nil {
		w.Fatalf("%s: %v", w.where, err)
	}
}

// hold holds under an id, which may be known. It reports whether something is held anew.
func (w *holdWalk) hold(l *limit.Limit, id string) bool {
	r, now := w.r, w.now
	ttl := 1e6 + r.Int64N(20e9)
	cost, returns := 1+r.Int64N(6), r.IntN(2) == 0
	h := w.k.held[id]
	if h != nil && !h.settled && r.IntN(2) == 0 { // once more
		l, ttl, cost, returns = &h.l, h.until-h.taken, h.amount, h.returns
	}
	req := Request{Limit: *l, Cost: cost, Hold: &Hold{ID: []byte(id), TTL: ttl, Returns: returns}}
	var d limit.Decision
	got, err := w.e.takeEither(r, now, w.key, &req, &d)
	switch {
	case h != nil && h.cancelledFirst:
		if err != ErrCancelled {
			w.Fatalf("%s: %v, want ErrCancelled", w.where, err)
		}
		w.counts["used"]++
		return false
	case h != nil && (h.settled || h.until <= now || h.l.String() != l.String() || h.until-h.taken != ttl || h.amount != cost || h.returns != returns):
		if err != ErrHeld {
			w.Fatalf("%s: %v, want ErrHeld", w.where, err)
		}
		w.counts["used"]++
		return false
	case h != nil:
		if err != nil || got != cost || d.Limited {
			w.Fatalf("%s: again: %d, %+v, %v", w.where, got, d, err)
		}
		w.counts["again"]++
		return false
	}
	want, back := w.k.takeUntil(now, l, cost)
	if err != nil || d != want || (got == cost) == want.Limited {
		w.Fatalf("%s: held %d, %+v, %v; want %+v", w.where, got, d, err, want)
	}
	if d.Limited {
		w.counts["denied"]++
		return false
	}
	w.counts["held"]++
	h = &heldOnce{l: *l, amount: cost, taken: now, until: now + ttl, back: back, returns: returns, forgotten: now + 2*ttl}
	if returns {
		h.forgotten = max(h.forgotten, h.back)
	}
	w.k.held[id] = h
	return true
}

// settle commits or cancels.
func (w *holdWalk) settle(id string) {
	commit, actual := w.r.IntN(3) > 0, w.r.Int64N(12)-1
	if !commit {
		actual = 0
	}
	var s Settlement
	err := w.e.settleEither(w.r, w.now, w.key, []byte(id), actual, commit, &s)
	want, wantErr := w.k.settle(w.now, id, actual, commit)
	if want.Limit.Zone != nil && s.Limit.Zone != nil && want.Limit.Zone.String() == s.Limit.Zone.String() {
		s.Limit.Zone = want.Limit.Zone // the engine has its own
	}
	if !errors.Is(err, wantErr) || err == nil && s != want {
		w.Fatalf("%s: %+v, %v; want %+v, %v", w.where, s, err, want, wantErr)
	}
	switch {
	case err != nil:
		w.counts["no hold"]++
	case s.Again:
		w.counts["settled again"]++
	case s.Over > 0:
		w.counts["over"]++
	case s.Charged < 0:
		w.counts["given back"]++
	case s.Limit.Algorithm == 0:
		w.counts["cancelled first"]++
	default:
		w.counts["committed"]++
	}
}

// reset forgets the key's state.
func (w *holdWalk) reset() {
	if was := w.e.Reset(w.now, w.key); was != (w.k.live(w.now) != nil) {
		w.Fatalf("%s: reset %t", w.where, was)
	} else if was {
		w.k.reset(w.now)
		w.counts["reset"]++
	}
}

// restart replays the log into another engine.
func (w *holdWalk) restart() {
	drain(w.e, &w.log)
	before := contents(w.e, w.now)
	next := journaled()
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
	w.saved = w.k.clone()
	w.counts["replayed"]++
}

// drain lets another node have all that has changed.
func (w *holdWalk) drain() {
	drain(w.e, &w.log)
	w.saved = w.k.clone()
}

// failOver goes on with what was drained: what came after the last records was not answered.
func (w *holdWalk) failOver() {
	if w.saved.due(w.now) > 1 {
		return // it matters to buckets which of them goes back first
	}
	w.e.Close()
	if w.e = journaled(); replay(w.e, w.now, w.log.Bytes) != nil {
		w.Fatal(w.where)
	}
	w.k = w.saved.clone()
	w.k.pass(w.now)
	w.look()
	w.drain()
	w.counts["failed over"]++
}

// knows checks that the ids that are known are those of the model.
func (w *holdWalk) knows() {
	known := 0
	if err := w.e.on(w.now, w.key, func(t *Txn) error {
		known = 0
		return Holds(t, w.key, func(h *Held) bool { known++; return true })
	}); err != nil || known != len(w.k.held) {
		w.Fatalf("%s: %d ids are known, want %d, %v", w.where, known, len(w.k.held), err)
	}
}
