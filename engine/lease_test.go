package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"limitdb/limit"
)

func TestHolders(t *testing.T) {
	e := New(Options{})
	list := func(now int64) string {
		var all []string
		if err := e.Holders(now, key(1), func(h limit.Holder) { all = append(all, string(h.ID)) }); err != nil {
			return err.Error()
		}
		return strings.Join(all, " ")
	}
	if got := list(start); got != "" {
		t.Errorf("an absent key has %q", got)
	}
	var d limit.Decision
	for i, id := range []string{"a", "b", "c"} {
		if err := e.Lease(start, key(1), &limit.Lease{Limit: 3, TTL: int64(3-i) * second, Weight: 1, ID: []byte(id)}, &d); err != nil || d.Limited {
			t.Fatalf("%s: %+v, %v", id, d, err)
		}
	}
	if got := list(start); got != "c b a" {
		t.Errorf("the holders are %q", got)
	}
	if got := list(start + second); got != "b a" {
		t.Errorf("after a second the holders are %q", got)
	}
	if info, ok := e.Info(start+second, key(1)); !ok || info.Kind != limit.LEASE || info.Level != 2 || info.Expires != start+3*second {
		t.Errorf("%+v, %v", info, ok)
	}
	mustTake(t, e, start, key(2), perSecond(1), 1)
	if err := e.Holders(start, key(2), nil); err != ErrWrongType {
		t.Errorf("of another kind of key: %v", err)
	}
	if st := e.Stats(); st.Allowed != 4 || st.Limited != 0 {
		t.Errorf("%+v", st)
	}
}

// A denied or failed step on leases leaves the key as it was. A step on a new key
// that finds no room is refused.
//
//test:norace
func TestLeaseWithoutRoom(t *testing.T) {
	e := New(Options{Shards: 1})
	e.SetMaxMemory(1, NoEviction)
	var d limit.Decision
	if err := e.Lease(start, key(1), &limit.Lease{Limit: 3, TTL: second, Weight: 1, ID: []byte("a")}, &d); err != ErrOOM {
		t.Errorf("no room: %v", err)
	}
	if _, _, err := e.Release(start, key(1), []byte("a")); err == nil {
		t.Error("a lease that was refused is held")
	}
	if st := e.Stats(); st.Keys != 0 || st.Refused != 1 {
		t.Errorf("%+v", st)
	}
	e.SetMaxMemory(0, NoEviction)
	// A list of leases that outgrows its record moves, and is complete.
	for i := range 2000 {
		if err := e.Lease(start, key(1), &limit.Lease{Limit: 5000, TTL: second, Weight: 1, ID: key(i)}, &d); err != nil || d.Remaining != 5000-int64(i)-1 {
			t.Fatalf("lease %d: %+v, %v", i, d, err)
		}
		e.check()
	}
	for i := range 2000 {
		if n, _, err := e.Release(start, key(1), key(i)); n != 1 || err != nil {
			t.Fatalf("release %d: %d, %v", i, n, err)
		}
	}
	if st := e.Stats(); st.Keys != 0 {
		t.Errorf("%d keys are left", st.Keys)
	}
	e.check()
}

// Several clients wait for leases, release them and list them. What they see
// could have come from doing all of it one after the other, with never more in
// flight than the limit.
func TestLeasesAreLinearizable(t *testing.T) {
	const clients, each, room = 6, 20, 2
	type input struct{ op, id string }
	model := porcupine.Model{
		Init: func() any { return "" }, // who holds, in order
		Step: func(st, in, out any) (bool, any) {
			held, i := strings.Fields(st.(string)), in.(input)
			switch i.op {
			case "lease":
				held = append(held, i.id)
				slices.Sort(held)
				return len(held) <= room && out == "", strings.Join(held, " ")
			case "release":
				at := slices.Index(held, i.id)
				if at < 0 {
					return false, st
				}
				return out == "", strings.Join(slices.Delete(held, at, at+1), " ")
			}
			return out == st, st
		},
	}
	for round := range 20 {
		e := New(Options{Shards: 1})
		var (
			all     sync.WaitGroup
			mu      sync.Mutex
			history []porcupine.Operation
			began   = time.Now()
		)
		do := func(client int, in input, fn func() string) {
			call := time.Since(began)
			out := fn()
			back := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: out, Return: int64(back)})
		}
		for c := range clients {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(c), uint64(round)))
				id := string(rune('a' + c))
				for range each {
					do(c, input{"lease", id}, func() string { return leaseAndWait(e, id, room) })
					if r.IntN(2) == 0 {
						do(c, input{"holders", ""}, func() string {
							var ids []string
							if err := e.Holders(start, key(1), func(h limit.Holder) { ids = append(ids, string(h.ID)) }); err != nil {
								return err.Error()
							}
							slices.Sort(ids)
							return strings.Join(ids, " ")
						})
					}
					do(c, input{"release", id}, func() string {
						if n, _, err := e.Release(start, key(1), []byte(id)); n != 1 || err != nil {
							return "not held"
						}
						return ""
					})
				}
			})
		}
		all.Wait()
		if got := porcupine.CheckOperationsTimeout(model, history, time.Minute); got != porcupine.Ok {
			t.Fatalf("round %d: %v", round, got)
		}
		if st := e.Stats(); st.Allowed != clients*each || st.Keys != 0 {
			t.Fatalf("%+v", st)
		}
	}
}

// leaseAndWait waits until it has a lease, and returns what went wrong.
func leaseAndWait(e *Engine, id string, room int64) string {
	w := &Waiter{
		Request: Request{Lease: &limit.Lease{Limit: room, TTL: math.MaxInt64 / 4, Weight: 1, ID: []byte(id)}},
		Until:   math.MaxInt64, Owner: make(chanOwner),
	}
	if e.Ask(start, key(1), w) {
		select {
		case <-w.Owner.(chanOwner):
		case <-time.After(2 * time.Minute):
			return "forgotten"
		}
	}
	if d, _, err := w.Result(); err != nil || d.Limited {
		return "not granted"
	}
	return ""
}

func TestLeasesAllocateNothing(t *testing.T) {
	e := New(Options{})
	var d limit.Decision
	l := limit.Lease{Limit: 5, TTL: second, Weight: 1, ID: []byte("a")}
	k := key(1)
	if n := allocations(100, func() {
		if err := e.Lease(start, k, &l, &d); err != nil || d.Limited {
			t.Fatal(d, err)
		}
		if _, _, err := e.Renew(start, k, l.ID, second); err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.Release(start, k, l.ID); err != nil {
			t.Fatal(err)
		}
	}); n != 0 && !raceDetector || n > 4 { // of the pool of buffers
		t.Errorf("%v allocations", n)
	}
}

// Renew renews a lease as the command RL.RENEW does, and returns its weight and
// the bytes of the key's state.
func (e *Engine) Renew(now int64, key, id []byte, ttl int64) (weight int64, size int, err error) {
	return e.changeLeases(now, key, func(now int64, state, dst []byte) ([]byte, int64, error) {
		return limit.RenewLease(id, ttl, state, now, dst)
	})
}

// Release is RL.RELEASE, as Renew is RL.RENEW.
func (e *Engine) Release(now int64, key, id []byte) (weight int64, size int, err error) {
	return e.changeLeases(now, key, func(now int64, state, dst []byte) ([]byte, int64, error) {
		return limit.ReleaseLease(id, state, now, dst)
	})
}

// changeLeases runs step on the leases of key, and returns the weight that it
// returns, and the bytes of the state.
func (e *Engine) changeLeases(now int64, key []byte, step func(now int64, state, dst []byte) ([]byte, int64, error)) (weight int64, size int, err error) {
	err = e.Apply(now, key, limit.LEASE, func(now int64, state, dst []byte) (next []byte, err error) {
		size = len(state)
		next, weight, err = step(now, state, dst)
		return next, err
	})
	return weight, size, err
}

// Holders is RL.HOLDERS: it calls fn for each lease of key.
func (e *Engine) Holders(now int64, key []byte, fn func(h limit.Holder)) error {
	return e.Apply(now, key, limit.LEASE, func(now int64, state, _ []byte) ([]byte, error) {
		for h := range limit.Holders(state, now) {
			fn(h)
		}
		return nil, nil
	})
}
