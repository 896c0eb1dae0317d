package engine

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"limitdb/limit"
)

// takeAll calls TakeAll on keys under limits, one of each.
func takeAll(e *Engine, now int64, keys [][]byte, limits []limit.Limit, costs ...int64) ([]limit.Decision, int, error) {
	for len(costs) < len(keys) {
		costs = append(costs, 1)
	}
	ds := make([]limit.Decision, len(keys))
	at, err := e.TakeAll(now, keys, limits, costs, ds)
	return ds, at, err
}

func keysOf(list ...int) [][]byte {
	var keys [][]byte
	for _, i := range list {
		keys = append(keys, key(i))
	}
	return keys
}

func TestTakeAllSteps(t *testing.T) {
	e := New(Options{})
	limits := []limit.Limit{*perSecond(2), *perSecond(5), *perSecond(1)}
	for i, st := range []struct {
		ms        int64 // after start
		costs     [3]int64
		at        int
		wait      int64 // ms, of the limit at, or -1
		remaining [3]int64
		keys      int64
	}{
		{0, [3]int64{1, 6, 1}, 1, -1, [3]int64{2, 5, 1}, 0}, // can never be: nothing is there
		{0, [3]int64{0, 0, 0}, -1, -1, [3]int64{2, 5, 1}, 0},
		{0, [3]int64{1, 1, 1}, -1, -1, [3]int64{1, 4, 0}, 3},
		{0, [3]int64{1, 1, 1}, 2, 1000, [3]int64{1, 4, 0}, 3},
		{0, [3]int64{2, 5, 1}, 2, 1000, [3]int64{1, 4, 0}, 3}, // the longest wait of three
		{0, [3]int64{3, 1, 1}, 0, -1, [3]int64{1, 4, 0}, 3},   // never is longer than any
		{999, [3]int64{1, 1, 1}, 2, 1, [3]int64{2, 5, 0}, 1},
		{1000, [3]int64{2, 5, 1}, -1, -1, [3]int64{0, 0, 0}, 3},
		{0, [3]int64{1, 0, 0}, 0, 500, [3]int64{0, 0, 0}, 3}, // the clock went back
		{2000, [3]int64{0, 3, 0}, -1, -1, [3]int64{2, 2, 1}, 1},
	} {
		ds, at, err := takeAll(e, start+st.ms*second/1000, keysOf(1, 2, 3), limits, st.costs[:]...)
		if err != nil || at != st.at {
			t.Fatalf("step %d: %+v gave %d, %v", i, st, at, err)
		}
		for j, d := range ds {
			if d.Remaining != st.remaining[j] || at < 0 && d.Limited {
				t.Fatalf("step %d: %+v gave %+v", i, st, ds)
			}
		}
		if at >= 0 && (!ds[at].Limited || limit.Milliseconds(ds[at].Wait) != st.wait) {
			t.Fatalf("step %d: %+v gave %+v", i, st, ds)
		}
		if st2 := e.Stats(); st2.Keys != st.keys {
			t.Fatalf("step %d: %+v left %d keys", i, st, st2.Keys)
		}
	}
	if st := e.Stats(); st.Allowed != 4 || st.Limited != 6 || st.Peeked != 0 {
		t.Errorf("%+v", st)
	}
}

func TestTakeAllErrors(t *testing.T) {
	e := New(Options{Shards: 4})
	limits := []limit.Limit{*perSecond(5), *perSecond(5), *perSecond(5)}
	mustTake(t, e, start, key(3), perSecond(5), 1)
	before := e.Stats()
	long := bytes.Repeat([]byte("x"), MaxKey+1)
	log, err := limit.Parse("LOG 5/s")
	if err != nil {
		t.Fatal(err)
	}
	if _, at, err := takeAll(e, start, keysOf(1, 2, 3), []limit.Limit{*perSecond(5), *perSecond(0), log}); at != 2 || err != ErrWrongType {
		t.Errorf("another kind of state: %d, %v", at, err)
	}
	for _, test := range []struct {
		name  string
		keys  [][]byte
		costs []int64
		at    int
		want  error
	}{
		{"a duplicate", [][]byte{key(1), key(2), key(1)}, nil, 2, ErrDuplicate},
		{"two duplicates", [][]byte{key(1), key(1), key(1)}, nil, 1, ErrDuplicate},
		{"a negative cost", keysOf(1, 2, 3), []int64{1, -1, -1}, 1, limit.ErrCost},
		{"too long a key", [][]byte{key(1), long, key(3)}, nil, 1, ErrKey},
	} {
		_, at, err := takeAll(e, start, test.keys, limits, test.costs...)
		if at != test.at || !errors.Is(err, test.want) {
			t.Errorf("%s: %d, %v", test.name, at, err)
		}
	}
	var many [][]byte
	for i := range MaxAll + 1 {
		many = append(many, key(i))
	}
	if _, at, err := takeAll(e, start, many, make([]limit.Limit, len(many))); at != -1 || err != ErrTooMany {
		t.Errorf("too many: %d, %v", at, err)
	}
	if _, at, err := takeAll(e, start, nil, nil); at != -1 || err != nil {
		t.Errorf("none: %d, %v", at, err)
	}
	if after := e.Stats(); after != before {
		t.Errorf("%+v became %+v", before, after)
	}
	if d, at, err := takeAll(e, start, [][]byte{long, key(1)}, []limit.Limit{*perSecond(5), *perSecond(0)}); at != 1 || err != nil || d[0].Remaining != 5 {
		t.Errorf("a denial needs no room for a long key: %+v, %d, %v", d, at, err)
	}
}

// A granted request for several keys takes exactly what each decision says. A
// denied one changes nothing, and is granted when its longest wait is over, not 1
// ns before. Every algorithm takes part.
func TestTakeAllOfEveryAlgorithm(t *testing.T) {
	every := append(everyLimit(t, "10/s"), everyLimit(t, "3/2s")...)
	rapid.Check(t, func(rt *rapid.T) {
		e := New(Options{Shards: 2, Seed: rapid.Uint64().Draw(rt, "seed")})
		now := start
		n := rapid.IntRange(1, 12).Draw(rt, "n")
		var keys [][]byte
		var limits []limit.Limit
		for i := range n {
			keys = append(keys, key(i))
			limits = append(limits, rapid.SampledFrom(every).Draw(rt, "limit"))
		}
		for range 20 {
			now += rapid.Int64Range(0, second/2).Draw(rt, "dt")
			costs := rapid.SliceOfN(rapid.Int64Range(0, 4), n, n).Draw(rt, "costs")
			before := peekAll(rt, e, now, keys, limits, costs)
			there := peekAll(rt, e, now, keys, limits, make([]int64, n))
			ds, at, err := takeAll(e, now, keys, limits, costs...)
			if err != nil {
				rt.Fatal(err)
			}
			after := peekAll(rt, e, now, keys, limits, make([]int64, n))
			if at < 0 {
				for i, d := range ds {
					if d != before[i] || d.Limited || after[i].Remaining != d.Remaining {
						rt.Fatalf("%v of %v: granted %+v, peeked %+v before, %+v after", costs[i], limits[i], d, before[i], after[i])
					}
				}
				continue
			}
			if !equal(there, after) {
				rt.Fatalf("a denial changed %+v to %+v", there, after)
			}
			if wait := ds[at].Wait; wait >= 0 {
				early := peekAll(rt, e, now+wait-1, keys, limits, costs)
				if !early[at].Limited {
					rt.Fatalf("%v: granted before its wait of %d is over", limits[at], wait)
				}
				now += wait
				if _, at, err := takeAll(e, now, keys, limits, costs...); at != -1 || err != nil {
					rt.Fatalf("%v: denied when all waits are over: %d, %v", limits[at], at, err)
				}
			}
		}
		e.check()
	})
}

// peekAll peeks at each key as TakeAll does: without counting a denial.
func peekAll(t rapid.TB, e *Engine, now int64, keys [][]byte, limits []limit.Limit, costs []int64) []limit.Decision {
	ds := make([]limit.Decision, len(keys))
	for i := range keys {
		l := limits[i]
		l.CountDenied = false
		if err := e.Peek(now, keys[i], &l, costs[i], &ds[i]); err != nil {
			t.Fatal(err)
		}
	}
	return ds
}

// TestTakeAllTorture has 64 goroutines take overlapping keys in opposite orders,
// some of them one by one, while others sweep. At the end each key has exactly
// what was granted.
func TestTakeAllTorture(t *testing.T) {
	const goroutines, each, nkeys, room = 64, 300, 12, 4000
	e := New(Options{Shards: 8})
	l := limit.Limit{Algorithm: limit.GCRA, Max: room, Period: 1000 * second, Burst: room}
	var taken [goroutines][nkeys]int64
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			var d limit.Decision
			for range each {
				n := 1 + r.IntN(6)
				order := r.Perm(nkeys)[:n]
				if g%2 == 0 { // the same few, this way and that
					for i := range order {
						order[i] = i
						if g%4 == 0 {
							order[i] = n - 1 - i
						}
					}
				}
				limits, costs := make([]limit.Limit, n), make([]int64, n)
				for i := range n {
					limits[i], costs[i] = l, r.Int64N(3)
				}
				switch _, at, err := takeAll(e, start, keysOf(order...), limits, costs...); {
				case err != nil:
					t.Error(err)
				case at < 0:
					for i, k := range order {
						taken[g][k] += costs[i]
					}
				}
				if r.IntN(8) == 0 {
					if err := e.Take(start, key(order[0]), &l, 1, &d); err != nil {
						t.Error(err)
					} else if !d.Limited {
						taken[g][order[0]]++
					}
				}
				if r.IntN(50) == 0 {
					e.Sweep(start, 100)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("deadlock")
	}
	full := 0
	for k := range nkeys {
		sum := int64(0)
		for g := range goroutines {
			sum += taken[g][k]
		}
		d, err := peek(e, start, key(k), &l, 0)
		if err != nil || d.Remaining != room-sum {
			t.Errorf("key %d: %d were taken of %d, and %d are left: %v", k, sum, room, d.Remaining, err)
		}
		if d.Remaining == 0 {
			full++
		}
	}
	if full == 0 || full == nkeys {
		t.Errorf("%d of %d keys are used up: the test has lost its point", full, nkeys)
	}
	e.check()
}

// Several clients take one key or all, refund and reset. What they see could have
// come from doing all of it one after the other.
func TestTakeAllIsLinearizable(t *testing.T) {
	const clients, each, nkeys, room = 6, 25, 3, 6
	type input struct {
		op    string
		costs [nkeys]int64 // -1: not this key
	}
	type state [nkeys]int64 // taken
	model := porcupine.Model{
		Init: func() any { return state{} },
		Step: func(st, in, out any) (bool, any) {
			s, i := st.(state), in.(input)
			next, denied := s, false
			for k, c := range i.costs {
				switch {
				case c < 0:
				case i.op == "take":
					next[k] += c
					denied = denied || next[k] > room
				case i.op == "refund":
					next[k] = max(0, next[k]-c)
				case i.op == "reset":
					next[k] = 0
				}
			}
			if denied {
				next = s
			}
			var want [nkeys]int64 // left, -1: not this key
			for k, c := range i.costs {
				want[k] = -1
				if c >= 0 && i.op != "reset" {
					want[k] = room - next[k]
				}
			}
			return want == out.([nkeys]int64), next
		},
	}
	l := limit.Limit{Algorithm: limit.GCRA, Max: room, Period: 1000 * second, Burst: room}
	for round := range 20 {
		e := New(Options{Shards: 2})
		var (
			all     sync.WaitGroup
			mu      sync.Mutex
			history []porcupine.Operation
			began   = time.Now()
		)
		for c := range clients {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(c), uint64(round)))
				for range each {
					in := input{op: "take"}
					order := r.Perm(nkeys)[:1+r.IntN(nkeys)]
					if r.IntN(3) == 0 {
						in.op, order = []string{"refund", "reset"}[r.IntN(2)], order[:1]
					}
					in.costs = [nkeys]int64{-1, -1, -1}
					limits, costs := make([]limit.Limit, len(order)), make([]int64, len(order))
					for i, k := range order {
						limits[i], costs[i] = l, 1+r.Int64N(2)
						in.costs[k] = costs[i]
					}
					out := [nkeys]int64{-1, -1, -1}
					ds := make([]limit.Decision, len(order))
					call := time.Since(began)
					switch in.op {
					case "take":
						if _, err := e.TakeAll(start, keysOf(order...), limits, costs, ds); err != nil {
							t.Error(err)
						}
					case "refund":
						if err := e.Refund(start, key(order[0]), &l, costs[0], &ds[0]); err != nil {
							t.Error(err)
						}
					case "reset":
						e.Reset(start, key(order[0]))
					}
					back := time.Since(began)
					for i, k := range order {
						if in.op != "reset" {
							out[k] = ds[i].Remaining
						}
					}
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: c, Input: in, Call: int64(call), Output: out, Return: int64(back)})
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if got := porcupine.CheckOperationsTimeout(model, history, time.Minute); got != porcupine.Ok {
			t.Fatalf("round %d: %v", round, got)
		}
	}
}

// States that grow out of a segment are stored as those of single takes are.
func TestTakeAllOfLongLogs(t *testing.T) {
	together, apart := New(Options{Shards: 1, Seed: 1}), New(Options{Shards: 1, Seed: 1})
	l, err := limit.Parse("LOG 4000/h")
	if err != nil {
		t.Fatal(err)
	}
	const n = 6
	limits := []limit.Limit{l, l, l, l, l, *perSecond(1_000_000)}
	r := rand.New(rand.NewPCG(1, 1))
	now := start
	for i := range 4000 {
		now += 1 + r.Int64N(second/4)
		ds, at, err := takeAll(together, now, keysOf(0, 1, 2, 3, 4, 5), limits)
		if err != nil || at >= 0 {
			t.Fatalf("step %d: %d, %v", i, at, err)
		}
		for k := range n {
			if d := mustTake(t, apart, now, key(k), &limits[k], 1); d != ds[k] {
				t.Fatalf("step %d, key %d: %+v together, %+v apart", i, k, ds[k], d)
			}
		}
		if i%100 == 0 {
			together.check()
		}
	}
	if a, b := together.Stats(), apart.Stats(); a.Keys != b.Keys || a.Bytes != b.Bytes {
		t.Errorf("%+v together, %+v apart", a, b)
	}
}

// When the memory budget is used up, a TakeAll takes from all keys or from none.
// It stores its decision, whatever was evicted for it.
//
//test:norace
func TestTakeAllWithinTheBudget(t *testing.T) {
	lengths := []int{1, 8, 17, 40, 300, 3000, MaxKey}
	rapid.Check(t, func(rt *rapid.T) {
		policy := rapid.SampledFrom([]Policy{NoEviction, LeastDebt}).Draw(rt, "policy")
		e := New(Options{Shards: rapid.SampledFrom([]int{1, 4}).Draw(rt, "shards"), Seed: 1})
		budget := e.Stats().Bytes + rapid.Int64Range(1<<12, 1<<18).Draw(rt, "room")
		e.SetMaxMemory(budget, policy)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "draws"), 1))
		refused := 0
		for range 60 {
			n := 1 + r.IntN(20)
			var keys [][]byte
			limits, costs := make([]limit.Limit, n), make([]int64, n)
			for i := range n {
				k := key(r.IntN(500)*20 + i)
				keys = append(keys, append(k, bytes.Repeat([]byte("."), lengths[int(k[len(k)-1])%len(lengths)])...)[:max(len(k), lengths[int(k[len(k)-1])%len(lengths)])])
				limits[i], costs[i] = slow, 1+r.Int64N(3)
			}
			before := everything(e)
			ds, at, err := takeAll(e, start, keys, limits, costs...)
			e.check()
			after := everything(e)
			if b := e.Stats().Bytes; b > budget {
				rt.Fatalf("%d bytes, %d allowed", b, budget)
			}
			if err != nil {
				if refused++; err != ErrOOM {
					rt.Fatalf("%d, %v", at, err)
				}
				for k, expires := range after {
					if before[k] != expires {
						rt.Fatalf("an error has changed %.40q", k)
					}
				}
				if policy == NoEviction && len(before) != len(after) {
					rt.Fatalf("an error has left %d of %d keys", len(after), len(before))
				}
				continue
			}
			for i, d := range ds {
				if got, err := peek(e, start, keys[i], &slow, 0); err != nil || at >= 0 || got.Remaining != d.Remaining {
					rt.Fatalf("%.40q: %+v, then %+v, %v", keys[i], d, got, err)
				}
			}
		}
		if st := e.Stats(); st.Refused != uint64(refused) || policy == NoEviction && st.Evicted > 0 {
			rt.Fatalf("%d refused, %+v", refused, st)
		}
	})
}

// everything returns when each key expires.
func everything(e *Engine) map[string]int64 {
	all := map[string]int64{}
	for cursor := uint64(0); ; {
		cursor = e.Range(start, cursor, 1000, func(key []byte, info Info) { all[string(key)] = info.Expires })
		if cursor == 0 {
			return all
		}
	}
}

func TestTakeAllAllocatesNothing(t *testing.T) {
	e := New(Options{})
	var keys [][]byte
	var limits []limit.Limit
	for i := range 8 {
		keys, limits = append(keys, key(i)), append(limits, *perSecond(1000))
	}
	costs, ds := []int64{1, 1, 1, 1, 1, 1, 1, 1}, make([]limit.Decision, 8)
	now := start
	most := 0.0
	if raceDetector {
		most = 4 // its pools drop some of what they are given
	}
	for n := 1; n <= 8; n++ {
		r := Together{Keys: keys[:n], Limits: limits[:n], Costs: costs[:n], Decisions: ds[:n]}
		if allocs := allocations(1000, func() {
			now++
			if _, err := e.Together(now, &r); err != nil {
				t.Fatal(err)
			}
		}); allocs > most {
			t.Errorf("%d keys: %v allocations", n, allocs)
		}
	}
}
