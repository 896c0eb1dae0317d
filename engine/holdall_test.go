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

// holdKeys are several keys with holds once more: each a holdKey with a limit, and steps on some of them.
type holdKeys struct {
	t      *testing.T
	e      *Engine
	log    journal.Buffer
	now    int64
	keys   [][]byte
	limits []limit.Limit
	of     []*holdKey
	counts map[string]int
}

// Holds of several keys are what they would be if each key was held by itself, once all grant, also after the log has been
// replayed into another engine.
//
//test:norace
func TestHoldAllModel(t *testing.T) {
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("RAPID_SEED"), fmt.Sprint(rand.Uint64())), 0, 64)
	counts := map[string]int{}
	const steps = 400
	for round := range modelRounds(t, 12, 400, steps) {
		r := rand.New(rand.NewPCG(seed, round))
		k := newHoldKeys(t, r, counts)
		for step := range steps {
			k.step(r, fmt.Sprintf("RAPID_SEED=%d, round %d, step %d", seed, round, step))
		}
		k.e.Close()
	}
	for _, of := range []string{"held", "denied", "again", "used", "settled", "no hold", "given up", "replayed"} {
		if counts[of] < 20 {
			t.Errorf("%s: %d times", of, counts[of])
		}
	}
	t.Log(counts)
}

func newHoldKeys(t *testing.T, r *rand.Rand, counts map[string]int) *holdKeys {
	k := &holdKeys{t: t, e: New(Options{Shards: 4}), now: 1.7e18, counts: counts}
	k.e.StartJournal(0, new(journal.Gate), func() {})
	for i := range 3 {
		all := slices.Concat(holdLimits(), blockingLimits())
		specs := all[r.IntN(len(all))]
		l, err := limit.Parse(specs[0])
		if err != nil {
			t.Fatal(err)
		}
		k.keys = append(k.keys, fmt.Appendf(nil, "key:%d", i))
		k.limits, k.of = append(k.limits, l), append(k.of, &holdKey{void: math.MinInt64, held: map[string]*heldOnce{}})
	}
	return k
}

// pass lets time pass, and goes to each time at which something goes back: buckets tell the order.
func (k *holdKeys) pass(d int64, at string) {
	for later := k.now + d; k.now < later; {
		next := later
		for _, of := range k.of {
			for _, h := range of.held {
				if h.returns && !h.returned && !h.settled && h.until > k.now {
					next = min(next, h.until)
				}
			}
		}
		k.now = next
		for i, of := range k.of {
			var d limit.Decision
			if of.pass(k.now); k.e.Peek(k.now, k.keys[i], &k.limits[i], 0, &d) != nil {
				k.t.Fatal(at)
			}
		}
	}
}

func (k *holdKeys) step(r *rand.Rand, at string) {
	k.pass(r.Int64N(1e9)*r.Int64N(4), at)
	some := r.Perm(3)[:1+r.IntN(3)]
	id := strconv.Itoa(r.IntN(12))
	switch r.IntN(8) {
	case 0, 1, 2:
		k.hold(r, some, id, at)
	case 3, 4:
		k.settle(r, some, id, at)
	case 5:
		k.giveUp(some, id, at)
	case 6:
		cost := r.Int64N(3)
		d, err := take(k.e, k.now, k.keys[some[0]], &k.limits[some[0]], cost)
		if want := k.of[some[0]].take(k.now, &k.limits[some[0]], cost); err != nil || d != want {
			k.t.Fatalf("%s: took %+v, %v; want %+v", at, d, err, want)
		}
	case 7:
		if r.IntN(4) == 0 {
			k.restart(at)
		}
	}
	for i := range k.keys {
		var d limit.Decision
		l := &k.limits[i]
		if err := k.e.Peek(k.now, k.keys[i], l, 0, &d); err != nil {
			k.t.Fatalf("%s: %v", at, err)
		}
		if want := k.of[i].peek(k.now, l, 0); d != want {
			k.t.Fatalf("%s: key %d has %+v, want %+v", at, i, d, want)
		}
	}
}

func (k *holdKeys) hold(r *rand.Rand, some []int, id, at string) {
	ttl, returns := 1e6+r.Int64N(20e9), r.IntN(2) == 0
	q := &Together{Decisions: make([]limit.Decision, len(some)), Hold: &Hold{ID: []byte(id)}}
	for _, i := range some {
		cost := 1 + r.Int64N(4)
		if h := k.of[i].held[id]; h != nil && !h.settled && r.IntN(9) > 0 { // once more
			cost, ttl, returns = h.amount, h.until-h.taken, h.returns
		}
		q.Keys, q.Limits, q.Costs = append(q.Keys, k.keys[i]), append(q.Limits, k.limits[i]), append(q.Costs, cost)
	}
	q.Hold.TTL, q.Hold.Returns = ttl, returns
	denied, err := 0, k.e.UpdateAt(0, k.now, q.Keys, func(t *Txn) (err error) { q.At, err = t.Together(q); return err })
	known, want := 0, error(nil)
	for n, i := range some {
		h := k.of[i].held[id]
		if h == nil {
			continue
		}
		known++
		switch same := h.until > k.now && h.until-h.taken == ttl && h.amount == q.Costs[n] && h.returns == returns; {
		case want != nil:
		case h.cancelledFirst:
			want = ErrCancelled
		case h.settled || !same:
			want = ErrHeld
		}
	}
	if want == nil && known > 0 && known < len(some) {
		want = ErrHeld
	}
	switch {
	case want != nil:
		if k.counts["used"]++; !errors.Is(err, want) {
			k.t.Fatalf("%s: %v, want %v", at, err, want)
		}
		return
	case err != nil:
		k.t.Fatalf("%s: %v", at, err)
	case known > 0:
		if k.counts["again"]++; q.At >= 0 || slices.ContainsFunc(q.Decisions, func(d limit.Decision) bool { return d.Limited }) {
			k.t.Fatalf("%s: again: %d %+v", at, q.At, q.Decisions)
		}
		return
	}
	all := make([]limit.Decision, len(some))
	for n, i := range some {
		if all[n] = k.of[i].peek(k.now, &q.Limits[n], q.Costs[n]); all[n].Limited {
			denied++
		}
	}
	if denied > 0 {
		for n, i := range some {
			if all[n].Limited { // a block may begin
				k.of[i].take(k.now, &q.Limits[n], q.Costs[n])
			}
		}
		if k.counts["denied"]++; q.At < 0 || !q.Decisions[q.At].Limited {
			k.t.Fatalf("%s: %d, %+v; want %+v", at, q.At, q.Decisions, all)
		}
		return
	}
	for n, i := range some {
		var back int64
		all[n], back = k.of[i].takeUntil(k.now, &q.Limits[n], q.Costs[n])
		h := &heldOnce{l: q.Limits[n], amount: q.Costs[n], taken: k.now, until: k.now + ttl, back: back, returns: returns, forgotten: k.now + 2*ttl}
		if returns {
			h.forgotten = max(h.forgotten, h.back)
		}
		k.of[i].held[id] = h
	}
	if k.counts["held"]++; q.At >= 0 || !slices.Equal(q.Decisions, all) {
		k.t.Fatalf("%s: %d, %+v; want %+v", at, q.At, q.Decisions, all)
	}
}

func (k *holdKeys) settle(r *rand.Rand, some []int, id, at string) {
	var keys [][]byte
	costs, missing := make([]int64, len(some)), false
	for n, i := range some {
		keys, costs[n] = append(keys, k.keys[i]), r.Int64N(8)-1
		missing = missing || k.of[i].held[id] == nil
	}
	s := make([]Settlement, len(some))
	err := k.e.UpdateAt(0, k.now, keys, func(t *Txn) error { _, err := SettleAll(t, keys, []byte(id), costs, s); return err })
	if missing {
		if k.counts["no hold"]++; !errors.Is(err, ErrNoHold) {
			k.t.Fatalf("%s: %v, want ErrNoHold", at, err)
		}
		return
	}
	k.counts["settled"]++
	k.settled(some, id, at, costs, true, s, err)
}

func (k *holdKeys) giveUp(some []int, id, at string) {
	var keys [][]byte
	for _, i := range some {
		keys = append(keys, k.keys[i])
	}
	s := make([]Settlement, len(some))
	err := k.e.UpdateAt(0, k.now, keys, func(t *Txn) error { _, err := GiveUpAll(t, keys, []byte(id), s); return err })
	k.counts["given up"]++
	k.settled(some, id, at, make([]int64, len(some)), false, s, err)
}

// settled compares what was settled with what the model says.
func (k *holdKeys) settled(some []int, id, at string, costs []int64, commit bool, s []Settlement, err error) {
	for n, i := range some {
		want, wantErr := k.of[i].settle(k.now, id, costs[n], commit)
		if s[n].Limit.Zone = want.Limit.Zone; err != nil || wantErr != nil || s[n] != want {
			k.t.Fatalf("%s: key %d: %+v, %v; want %+v, %v", at, i, s[n], err, want, wantErr)
		}
	}
}

// restart replays the log into another engine.
func (k *holdKeys) restart(at string) {
	drain(k.e, &k.log)
	before, next := contents(k.e, k.now), New(Options{Shards: 4})
	next.StartJournal(0, new(journal.Gate), func() {})
	if err := replay(next, k.now, k.log.Bytes); err != nil {
		k.t.Fatalf("%s: %v", at, err)
	}
	if after := contents(next, k.now); !maps.Equal(before, after) {
		k.t.Fatalf("%s: replayed\n%v\nwant\n%v", at, after, before)
	}
	k.e.Close()
	k.e, k.log = next, journal.Buffer{}
	cursor := uint64(0)
	for more := true; more; more = cursor != 0 {
		cursor = k.e.Copy(k.now, cursor, &k.log)
	}
	k.counts["replayed"]++
}

// What one key refuses is held on none: the other keys have neither an id more, nor anything taken.
func TestHoldAllLeavesNothing(t *testing.T) {
	e := New(Options{Shards: 4})
	defer e.Close()
	l, err := limit.Parse("FIXED 10/h")
	if err != nil {
		t.Fatal(err)
	}
	now, keys := int64(1.7e18), [][]byte{[]byte("a"), []byte("b")}
	r := &Together{Keys: keys, Limits: []limit.Limit{l, l}, Costs: []int64{1, 11}, Decisions: make([]limit.Decision, 2), Hold: &Hold{ID: []byte("x"), TTL: 1e9}}
	if err := e.UpdateAt(0, now, keys, func(t *Txn) (err error) { r.At, err = t.Together(r); return err }); err != nil || r.At != 1 {
		t.Fatalf("%d, %v", r.At, err)
	}
	if got := contents(e, now); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
