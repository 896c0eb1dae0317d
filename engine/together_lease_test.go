package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"limitdb/limit"
)

// TestTogetherWithLeases compares requests for a rate and a lease at once with a model of both: a fixed window and a list of leases.
// A request that either denies changes neither.
func TestTogetherWithLeases(t *testing.T) {
	e := New(Options{Seed: 1, Shards: 4})
	r := rand.New(rand.NewPCG(3, 5))
	type held struct {
		id  string
		end int64
	}
	const window, ttl, inFlight, rate = int64(1000e6), int64(700e6), 3, 5
	var leases []held
	used, began, now := 0, int64(0), int64(1_600_000_000e9)
	rateKey, leaseKey := []byte("rate"), []byte("leases")
	for n := range 5000 {
		now += int64(r.IntN(200)) * 1e6
		if at := now / window; at != began {
			began, used = at, 0
		}
		live := leases[:0]
		for _, l := range leases {
			if l.end > now {
				live = append(live, l)
			}
		}
		leases = live
		if len(leases) > 0 && r.IntN(3) == 0 { // one is given back
			i := r.IntN(len(leases))
			err := e.UpdateAt(0, now, [][]byte{leaseKey}, func(t *Txn) error {
				return t.Step(leaseKey, limit.LEASE, func(now int64, state, dst []byte) ([]byte, error) {
					next, _, err := limit.ReleaseLease([]byte(leases[i].id), state, now, dst)
					return next, err
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases[:i], leases[i+1:]...)
		}
		id := fmt.Sprint("id", n)
		cost, peek, soft := int64(1+r.IntN(2)), r.IntN(4) == 0, r.IntN(4) == 0
		all := &Together{
			Keys: [][]byte{rateKey, leaseKey}, Costs: []int64{cost, 0}, Decisions: make([]limit.Decision, 2), Soft: []bool{false, soft}, Peek: peek,
			Limits: []limit.Limit{{Algorithm: limit.FIXED, Max: rate, Period: window, Burst: rate}, {}},
			Leases: []*limit.Lease{nil, {Limit: inFlight, TTL: ttl, Weight: 1, ID: []byte(id)}},
		}
		twice := len(leases) > 0 && r.IntN(3) == 0 // in a transaction that has written both keys before
		at := 0
		err := e.UpdateAt(0, now, all.Keys, func(t *Txn) (err error) {
			if twice {
				err = t.Step(leaseKey, limit.LEASE, func(now int64, state, dst []byte) ([]byte, error) {
					return append(dst[:0], state...), nil
				})
				if err != nil {
					return err
				}
			}
			at, err = t.Together(all)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		rateDenies, leaseDenies := used+int(cost) > rate, len(leases) >= inFlight
		if got := all.Decisions; got[0].Limited != rateDenies || got[1].Limited != leaseDenies || (at >= 0) != (rateDenies || leaseDenies && !soft) {
			t.Fatalf("step %d: at %d, %+v; %d used, %d in flight", n, at, got, used, len(leases))
		}
		want := inFlight - len(leases)
		if at < 0 && !leaseDenies {
			want--
		}
		if got := all.Decisions[1].Remaining; got != int64(want) {
			t.Fatalf("step %d: %d in flight are left, not %d: at %d", n, got, want, at)
		}
		if at < 0 && !peek {
			used += int(cost)
			if !leaseDenies {
				leases = append(leases, held{id, now + ttl})
			}
		}
	}
}
