package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"limitdb/hold"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// tightKey is what a model knows of a key: how much is used, and the ids.
type tightKey struct {
	there bool
	used  int64
	ids   map[string]*tightID
}

type tightID struct {
	amount      int64
	once, void  bool
	settled     bool
	charged     int64
	neverWasOne bool
}

// TestHoldsWithMemoryThatComesAndGoes compares holds, ids, settlements, denials that count and resets of keys with a model, while there is room for the first of
// the two records that a step stores, for both, or for none. Lengths of keys and ids, and how many ids a key has, are about those at which records
// change their form.
//
//test:norace
func TestHoldsWithMemoryThatComesAndGoes(t *testing.T) {
	seed := heldSeed()
	counts := map[string]int{}
	for round := range uint64(60) {
		walkTight(t, rand.New(rand.NewPCG(seed, round)), fmt.Sprintf("RAPID_SEED=%d, round %d", seed, round), counts)
	}
	for _, of := range []string{"held", "denied", "refused", "again", "settled", "cancelled first", "reset", "once", "replayed"} {
		if counts[of] < 60 {
			t.Errorf("%s: %d times", of, counts[of])
		}
	}
	t.Log(counts)
}

func walkTight(t *testing.T, r *rand.Rand, where string, counts map[string]int) {
	e := New(Options{Shards: 1})
	defer e.Close()
	e.StartJournal(0, new(journal.Gate), func() {})
	const now = int64(1.7e18)
	limits := parsed(t, "FIXED 12/d COUNTDENIED", "SEGMENTED 12/d SEGMENTS 4 COUNTDENIED", "SLIDING 12/d", "FIXED 12/d")
	l := limits[r.IntN(len(limits))]
	keys := make([][]byte, 1+r.IntN(6))
	model := make([]tightKey, len(keys))
	for i := range keys {
		n := []int{1, 17, 126, 127, 128, 129, 255, 300, 2000}[r.IntN(9)]
		keys[i] = fmt.Appendf(nil, "%0*d", n, i)
		model[i].ids = map[string]*tightID{}
	}
	ids := []int{2, 15, 16, 17, 18, 28, 56, 60}[r.IntN(8)]
	length := []int{1, 3, 40, 127, 128}[r.IntN(5)]
	for step := range 300 {
		at := fmt.Sprintf("%s, step %d", where, step)
		switch r.IntN(4) {
		case 0:
			e.SetMaxMemory(0, NoEviction)
		case 1:
			e.SetMaxMemory(1, NoEviction)
		case 2:
			e.SetMaxMemory(e.Stats().Bytes-1, NoEviction)
		}
		k := r.IntN(len(keys))
		key, m := keys[k], &model[k]
		id := fmt.Appendf(nil, "%0*d", length, r.IntN(ids))
		was := m.ids[string(id)]
		var d limit.Decision
		switch op := r.IntN(10); {
		case op < 4: // a hold, or a request that counts once
			once := r.IntN(4) == 0
			cost := 1 + r.Int64N(4)
			h := &Hold{ID: id, TTL: 3600e9, Returns: r.IntN(2) == 0}
			if once {
				h = &Hold{Once: &Once{ID: id, For: 3600e9, Asked: uint64(cost)}}
			}
			var err error
			if r.IntN(3) == 0 {
				_, err = e.TakeFor(now, key, &Request{Limit: l, Cost: cost, Hold: h}, &d)
			} else {
				err = e.HoldAt(0, now, key, &l, cost, h, &d)
			}
			switch {
			case errors.Is(err, ErrOOM):
				counts["refused"]++
			case was != nil && err != nil:
				if err != ErrHeld && err != ErrCancelled && err != ErrOnce {
					t.Fatalf("%s: %v", at, err)
				}
			case was != nil:
				if d.Limited || was.amount != cost || was.once != once {
					t.Fatalf("%s: again %+v of %+v", at, d, *was)
				}
				counts["again"]++
			case err != nil:
				t.Fatalf("%s: %v", at, err)
			case d.Limited:
				if m.used+cost <= 12 {
					t.Fatalf("%s: denied at %d", at, m.used)
				}
				if l.CountDenied {
					m.used, m.there = m.used+cost, true
				}
				counts["denied"]++
			default:
				if m.used+cost > 12 {
					t.Fatalf("%s: granted at %d", at, m.used)
				}
				m.used, m.there = m.used+cost, true
				m.ids[string(id)] = &tightID{amount: cost, once: once}
				if counts["held"]++; once {
					counts["once"]++
				}
			}
		case op < 8:
			var s Settlement
			commit, actual := r.IntN(2) == 0, r.Int64N(7)
			err := e.settleEither(r, now, key, id, actual, commit, &s)
			if !commit {
				actual = 0
			}
			switch {
			case errors.Is(err, ErrOOM):
				if was != nil && m.there {
					t.Fatalf("%s: a settlement is refused", at)
				}
				counts["refused"]++
			case err == ErrOnce:
				if was == nil || !was.once {
					t.Fatal(at, err)
				}
			case err == ErrNoHold:
				if was != nil || !commit {
					t.Fatal(at, err)
				}
			case err != nil:
				t.Fatal(at, err)
			case was == nil:
				m.ids[string(id)] = &tightID{settled: true, neverWasOne: true}
				counts["cancelled first"]++
			case was.settled:
				if !s.Again || s.Charged != was.charged {
					t.Fatalf("%s: %+v of %+v", at, s, *was)
				}
			default:
				more := actual - was.amount
				if more < 0 && (was.void || !m.there) {
					more = 0
				}
				more = max(more, -m.used)
				if s.Charged != more {
					t.Fatalf("%s: %+v of %+v at %d, want %d", at, s, *was, m.used, more)
				}
				if m.used += more; more > 0 {
					m.there = true
				}
				m.there = m.used > 0
				was.settled, was.charged = true, more
				counts["settled"]++
			}
		case op == 8:
			if e.Reset(now, key) {
				m.used, m.there = 0, false
				for _, id := range m.ids {
					id.void = true
				}
				counts["reset"]++
			} else if m.there {
				t.Fatalf("%s: there was nothing to reset", at)
			}
		default:
			cost := r.Int64N(3)
			err := e.Take(now, key, &l, cost, &d)
			switch {
			case errors.Is(err, ErrOOM):
				counts["refused"]++
			case err != nil:
				t.Fatal(at, err)
			case cost > 0 && (!d.Limited || l.CountDenied):
				m.used, m.there = m.used+cost, true
			}
		}
		for i := range keys {
			d, err := peek(e, now, keys[i], &l, 0)
			if err != nil || d.Remaining != max(0, 12-model[i].used) {
				t.Fatalf("%s: key %d has %+v, %v; %d are used", at, i, d, err, model[i].used)
			}
			known := 0
			if err := e.on(now, keys[i], func(t *Txn) error {
				known = 0
				return Holds(t, keys[i], func(h *Held) bool {
					if known++; h.Status <= hold.Returning && (model[i].ids[string(h.ID)] == nil || model[i].ids[string(h.ID)].amount != h.Amount) {
						known = -1 << 20
					}
					return true
				})
			}); err != nil || known != len(model[i].ids) {
				t.Fatalf("%s: key %d: %d ids are known, want %d, %v", at, i, known, len(model[i].ids), err)
			}
		}
	}
	var log journal.Buffer
	drain(e, &log)
	again := New(Options{Shards: 2})
	defer again.Close()
	if err := replay(again, now, log.Bytes); err != nil {
		t.Fatal(where, err)
	}
	if got, want := contents(again, now), contents(e, now); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: replayed\n%v\nwant\n%v", where, got, want)
	}
	counts["replayed"]++
}

// heldSeed returns the seed of the test.
func heldSeed() uint64 {
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("RAPID_SEED"), fmt.Sprint(rand.Uint64())), 0, 64)
	return seed
}
