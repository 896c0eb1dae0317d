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

// TestLeasesThatAreHeld compares requests for a rate and a lease that are held, and settled under their id, with a model: a list of leases, and what
// is known of each id. A request that is sent again has the lease of the first; what is settled has none; and an id with a lease is no other's.
//
//test:norace
func TestLeasesThatAreHeld(t *testing.T) {
	e := New(Options{Seed: 1, Shards: 4})
	r := rand.New(rand.NewPCG(4, 7))
	const leaseTTL, holdTTL, inFlight = int64(20e9), int64(5e9), 3
	rateKey, leaseKey, onceKey := []byte("rate"), []byte("leases"), []byte("once")
	type known struct {
		until   int64 // when it is forgotten
		settled bool
	}
	ids, leases := [2]map[string]*known{{}, {}}, map[string]int64{} // of holds, and of what counts once
	used, now := int64(0), int64(1_600_000_000e9)
	counts := map[string]int{}
	for n := range 20_000 {
		now += r.Int64N(1e9)
		for id, end := range leases {
			if end <= now {
				delete(leases, id)
			}
		}
		for _, of := range ids {
			for id, k := range of {
				if k.until <= now {
					delete(of, id)
				}
			}
		}
		id := fmt.Sprint("id", r.IntN(12))
		k, list := ids[0][id], []byte("list:"+id)
		_, has := leases[id]
		if what := r.IntN(4); what == 0 { // it is settled
			cancels := r.IntN(2) == 0
			err := e.Update(now, [][]byte{list, rateKey, leaseKey}, func(t *Txn) (err error) {
				if cancels {
					_, err = GiveUpList(t, list, []byte(id))
				} else {
					_, err = SettleList(t, list, []byte(id), func([]byte) (int64, error) { return -1, nil })
				}
				return err
			})
			switch held := k != nil; {
			case (held || cancels) && err != nil, !held && !cancels && err != ErrNoHold:
				t.Fatalf("step %d: %v, of %+v", n, err, k)
			case held:
				counts["settled"]++
				if !k.settled && cancels {
					used--
				}
				if !k.settled {
					delete(leases, id)
					k.settled, k.until = true, now+Remembered
				}
			case cancels: // it is remembered
				counts["cancelled first"]++
				ids[0][id] = &known{until: now + Remembered, settled: true}
			}
			continue
		}
		once := r.IntN(2) == 0
		if once {
			k = ids[1][id]
		}
		all := &Together{
			Keys: [][]byte{rateKey, leaseKey}, Costs: []int64{1, 1}, Decisions: make([]limit.Decision, 2),
			Limits: []limit.Limit{{Algorithm: limit.FIXED, Max: 1 << 40, Period: 30 * 24 * 3600e9, Burst: 1 << 40}, {}},
			Leases: []*limit.Lease{nil, {Limit: inFlight, TTL: leaseTTL, Weight: 1, ID: []byte(id)}},
		}
		var err error
		if once {
			all.Once = &Once{ID: []byte(id), For: holdTTL, Asked: 1, Key: onceKey}
		} else {
			all.Hold = &Hold{ID: []byte(id), TTL: holdTTL, List: list, Notes: [][]byte{[]byte("r"), []byte("l")}}
		}
		at, err := e.Together(now, all)
		granted := err == nil && at < 0
		switch {
		case k != nil && !k.settled: // sent again
			if once && all.Once.Again || !once && (all.Hold.Again || err == ErrHeld) { // the time of a hold is over before its id is forgotten
				counts["again"]++
			} else {
				t.Fatalf("step %d: %+v is not known: %d, %v", n, k, at, err)
			}
		case k != nil || has:
			if counts["used"]++; err != ErrHeld && err != ErrOnce && err != ErrCancelled {
				t.Fatalf("step %d: %s is used by %+v, lease %v: %d, %v", n, id, k, has, at, err)
			}
		case len(leases) == inFlight:
			if counts["denied"]++; granted || err != nil {
				t.Fatalf("step %d: %d in flight, and %d, %v", n, len(leases), at, err)
			}
		default:
			if counts["granted"]++; !granted {
				t.Fatalf("step %d: %+v, %d in flight: %d, %v", n, k, len(leases), at, err)
			}
			used++
			leases[id] = now + leaseTTL
			if once {
				ids[1][id] = &known{until: now + holdTTL}
			} else {
				ids[0][id] = &known{until: now + 2*holdTTL}
			}
		}
		state := 0
		err = e.Update(now, [][]byte{leaseKey, rateKey}, func(tx *Txn) error {
			_, b, err := tx.Get(leaseKey)
			for range limit.Holders(b, now) {
				state++
			}
			var d limit.Decision
			if err == nil {
				err = tx.Peek(rateKey, &all.Limits[0], 0, &d)
			}
			if d.Remaining != 1<<40-used {
				t.Fatalf("step %d: %d are used, and not %d", n, 1<<40-d.Remaining, used)
			}
			return err
		})
		if err != nil || state != len(leases) {
			t.Fatalf("step %d: %d in flight, and not %d, %v", n, state, len(leases), err)
		}
	}
	for _, of := range []string{"granted", "denied", "again", "used", "settled", "cancelled first"} {
		if counts[of] < 100 {
			t.Errorf("%s: %d times", of, counts[of])
		}
	}
}
