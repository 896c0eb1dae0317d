package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/journal"
	"limitdb/limit"
)

// txnModel is a table of keys in plain Go, which a transaction copies.
type txnModel map[string]modelEntry

func (m txnModel) clone() txnModel {
	c := txnModel{}
	for k, x := range m {
		c[k] = x
	}
	return c
}

// live returns what a key holds at now.
func (m txnModel) live(now int64, key []byte) (modelEntry, bool) {
	x, ok := m[string(key)]
	return x, ok && limit.Expires(x.kind, x.state) > now
}

// Transactions of random reads, decisions and writes, of declared and other keys,
// leave what a plain copy of the table has. A transaction that is given up or
// finds no room leaves nothing.
//
//test:norace
func TestTxnAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := New(Options{Shards: rapid.SampledFrom([]int{1, 8}).Draw(rt, "shards"), Seed: 1})
		policy := rapid.SampledFrom([]Policy{NoEviction, LeastDebt}).Draw(rt, "policy")
		bounded := rapid.Bool().Draw(rt, "bounded")
		budget := e.Stats().Bytes + rapid.Int64Range(1<<14, 1<<18).Draw(rt, "room")
		if bounded {
			e.SetMaxMemory(budget, policy)
		}
		m, now := txnModel{}, start
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "draws"), 1))
		for range 40 {
			now += r.Int64N(second)
			var keys [][]byte
			for range r.IntN(4) {
				keys = append(keys, key(r.IntN(12)))
			}
			giveUp := r.IntN(6) == 0
			seed := r.Uint64()
			var after txnModel
			err := e.Update(now, keys, func(tx *Txn) error {
				after = m.clone()
				for i := 0; i < 12 && bounded && policy == LeastDebt; i++ { // some may have been evicted
					kind, _, err := tx.Get(key(i))
					if err != nil {
						return err
					}
					if kind == 0 {
						delete(after, string(key(i)))
					}
				}
				if err := randomTxn(tx, after, rand.New(rand.NewPCG(seed, 2)), keys); err != nil {
					return err
				}
				if giveUp {
					return errGivenUp
				}
				return nil
			})
			e.check()
			switch {
			case err == nil:
				m = after
			case errors.Is(err, ErrOOM) && bounded, err == errGivenUp && giveUp:
			default:
				rt.Fatal(err)
			}
			// A change that the budget must not refuse, such as that of a denial, may take a page more.
			if b := e.Stats().Bytes; bounded && b > budget+12*4096 {
				rt.Fatalf("%d bytes, %d allowed", b, budget)
			}
			evicted := bounded && policy == LeastDebt && e.Stats().Evicted > 0
			for i := range 12 {
				x, there := m.live(now, key(i))
				state := stateIn(e, key(i))
				if state == nil && evicted {
					delete(m, string(key(i)))
					continue
				}
				if info, ok := e.Info(now, key(i)); ok != there || ok && (info.Kind != x.kind || !bytes.Equal(stateIn(e, key(i)), x.state)) {
					rt.Fatalf("after %v: key %d is %+v with %d bytes, want %v with %d", err, i, info, len(state), x.kind, len(x.state))
				}
			}
		}
	})
}

var errGivenUp = errors.New("given up")

// randomTxn does the same to tx and to m.
func randomTxn(tx *Txn, m txnModel, r *rand.Rand, keys [][]byte) error {
	sizes := []int{8, 10, 100, 5000, minBoxed, maxInline + 1, 20_000, 200_000}
	for range 1 + r.IntN(6) {
		k := key(r.IntN(12))
		if len(keys) > 0 && r.IntN(4) > 0 {
			k = keys[r.IntN(len(keys))]
		}
		x, there := m.live(tx.Now(), k)
		switch r.IntN(5) {
		case 0:
			state := stateOf(tx.Now()+r.Int64N(5*second)-second/2, sizes[r.IntN(len(sizes))], byte(r.Int()))
			if err := tx.Put(k, limit.LEASE, state); err != nil {
				return err
			}
			m[string(k)] = modelEntry{limit.LEASE, bytes.Clone(state)}
			clear(state) // it was copied
		case 1:
			was, err := tx.Delete(k)
			if err != nil || was != there {
				return fmt.Errorf("Delete = %v, %w", was, err)
			}
			delete(m, string(k))
		case 2, 3:
			l := stepLimits[r.IntN(len(stepLimits))]
			if r.IntN(3) == 0 {
				l = *logLimit(20_000)
			}
			cost := r.Int64N(4)
			var got, want limit.Decision
			err := tx.Decide(k, &l, cost, &got)
			if errors.Is(err, ErrUndeclared) {
				return err
			}
			if there && !limit.SameFamily(x.kind, l.Algorithm.Kind()) {
				if err != ErrWrongType {
					return fmt.Errorf("Decide of another kind: %w", err)
				}
				continue
			}
			l.CountDenied = false
			next, wrong := limit.Take(&l, x.stateAt(there), tx.Now(), cost, nil, &want)
			if err != wrong || err == nil && got != want {
				return fmt.Errorf("Decide(%v, %d) = %+v, %w; want %+v, %w", &l, cost, got, err, want, wrong)
			}
			if err == nil && next != nil {
				m[string(k)] = modelEntry{l.Algorithm.Kind(), bytes.Clone(next)}
			}
		default:
			kind, state, err := tx.Get(k)
			if err != nil {
				return err
			}
			if (kind != 0) != there || there && (kind != x.kind || !bytes.Equal(state, x.state)) {
				return fmt.Errorf("Get = %v with %d bytes, want %v with %d", kind, len(state), x.kind, len(x.state))
			}
		}
	}
	return nil
}

// stateAt returns a copy of the entry's state, nil if it is not there.
func (x modelEntry) stateAt(there bool) []byte {
	if !there {
		return nil
	}
	return bytes.Clone(x.state)
}

// An error at the last key leaves nothing of the others, and pins no record.
func TestTxnIsAllOrNothing(t *testing.T) {
	e := New(Options{Shards: 4})
	var buf journal.Buffer
	e.StartJournal(0, new(journal.Gate), func() {})
	put := func(tx *Txn, i, size int) error {
		return tx.Put(key(i), limit.LEASE, stateOf(start+second, size, 1))
	}
	for name, test := range map[string]struct {
		fn   func(tx *Txn) error
		want error
	}{
		"given up": {func(tx *Txn) error { return errors.Join(put(tx, 1, 8), errGivenUp) }, errGivenUp},
		"too long a key": {func(tx *Txn) error {
			return errors.Join(put(tx, 1, 9000), tx.Put(bytes.Repeat([]byte("k"), MaxKey+1), limit.LEASE, stateOf(start+second, 8, 1)))
		}, ErrKey},
		"too many bytes": {func(tx *Txn) error { return errors.Join(put(tx, 1, 8), put(tx, 2, MaxTxnBytes)) }, ErrTooMany},
		"too many keys": {func(tx *Txn) error {
			for i := range MaxTxn + 1 {
				if err := put(tx, i, 8); err != nil {
					return err
				}
			}
			return nil
		}, ErrTooMany},
	} {
		if err := e.Update(start, nil, test.fn); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if e.Dirty() || e.Stats().Keys != 0 {
			t.Errorf("%s: it has left something", name)
		}
		e.check()
	}
	if err := e.Update(start, keysOf(1, 1, 2), func(tx *Txn) error { return errors.Join(put(tx, 1, 8), put(tx, 2, 300), put(tx, 1, 20)) }); err != nil {
		t.Fatal(err)
	}
	e.Cut()
	e.Drain(&buf, 1<<20)
	if got := e.Stats().Keys; got != 2 || buf.Records != 2 {
		t.Errorf("%d keys, %d records", got, buf.Records)
	}
}

// A denied request of several limits leaves what was there before, and what the
// transaction has written before. Only the denied key has moved to a faster pace.
func TestDeniedTogetherInAStep(t *testing.T) {
	e := New(Options{})
	slow, fast := *perSecond(1), limit.Limit{Algorithm: limit.GCRA, Max: 2, Burst: 1, Period: second}
	mustTake(t, e, start, key(1), &slow, 1)
	before := stateIn(e, key(1))
	ds := make([]limit.Decision, 3)
	err := e.Update(start, keysOf(1, 2), func(tx *Txn) error {
		var d limit.Decision
		err := errors.Join(tx.Decide(key(2), perSecond(2), 1, &d), tx.Put(key(3), limit.LEASE, stateOf(start+second, 8, 1)))
		at, denied := tx.Together(&Together{Keys: keysOf(2, 4, 1), Limits: []limit.Limit{*perSecond(2), *perSecond(2), fast}, Costs: []int64{1, 2, 1}, Decisions: ds})
		if denied != ErrUndeclared && (at != 2 || ds[0].Limited || ds[1].Limited || !ds[2].Limited) {
			t.Errorf("denied by %d: %+v", at, ds)
		}
		return errors.Join(err, denied)
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := mustTake(t, e, start, key(2), perSecond(2), 0); d.Remaining != 1 {
		t.Errorf("what was taken before has not stayed taken: %+v", d)
	}
	if d := mustTake(t, e, start, key(4), perSecond(2), 0); d.Remaining != 2 {
		t.Errorf("what was granted stays taken: %+v", d)
	}
	if after := stateIn(e, key(1)); bytes.Equal(after, before) {
		t.Error("the denied key has not moved to the faster pace")
	}
	if d := mustTake(t, e, start+ds[2].Wait, key(1), &fast, 1); d.Limited {
		t.Errorf("denied after its wait: %+v", d)
	}
	if _, there := e.Info(start, key(3)); !there {
		t.Error("a key that was written before is gone")
	}
	if st := e.Stats(); st.Limited != 1 {
		t.Errorf("%+v", st)
	}
}

// Transfers between keys that are found only while the transaction runs keep the
// sum, beside others that take the same keys one by one.
func TestTxnsAreAtomic(t *testing.T) {
	const goroutines, each, nkeys = 16, 200, 20
	e := New(Options{Shards: 8})
	amount := func(state []byte) int { return len(state) - 8 }
	of := func(n int) []byte { return stateOf(start+second, 8+n, 1) }
	for i := range nkeys {
		if err := e.Update(start, nil, func(tx *Txn) error { return tx.Put(key(i), limit.LEASE, of(50)) }); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range each {
				from, to := r.IntN(nkeys), r.IntN(nkeys)
				declared := keysOf(from, to)[:r.IntN(3)]
				err := e.Update(start, declared, func(tx *Txn) error {
					_, a, err := tx.Get(key(from))
					if err != nil || amount(a) == 0 {
						return err
					}
					if err := tx.Put(key(from), limit.LEASE, of(amount(a)-1)); err != nil {
						return err
					}
					_, b, err := tx.Get(key(to))
					if err != nil {
						return err
					}
					return tx.Put(key(to), limit.LEASE, of(amount(b)+1))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for i := range nkeys {
		sum += amount(stateIn(e, key(i)))
	}
	if sum != 50*nkeys {
		t.Errorf("the sum is %d, want %d", sum, 50*nkeys)
	}
	e.check()
}

// A new key does not evict another key of the same transaction, even if that key
// uses the smallest share of its limit.
func TestRoomForOneKeyLeavesTheOthers(t *testing.T) {
	e := New(Options{Shards: 1, Seed: 1})
	log := logLimit(limit.MaxLog)
	now, r := start, rand.New(rand.NewPCG(1, 1))
	for range 4000 { // a long state, in a box
		now += r.Int64N(second / 4)
		mustTake(t, e, now, key(0), log, 1)
	}
	if boxCount(e) != 1 {
		t.Fatal("the state is not in a box")
	}
	for i := range 500 {
		mustTake(t, e, now, key(1000+i), &slow, slow.Burst-1)
	}
	e.SetMaxMemory(e.Stats().Bytes, LeastDebt)
	for i := range 2000 {
		ds, at, err := takeAll(e, now, [][]byte{key(0), key(2000 + i)}, []limit.Limit{*log, slow}, 1, slow.Burst-1)
		if err == ErrOOM {
			continue
		}
		if err != nil || at >= 0 || ds[0].Remaining >= log.Max-4000 {
			t.Fatalf("step %d: %+v, %d, %v", i, ds, at, err)
		}
	}
	e.check()
	if e.Stats().Evicted == 0 {
		t.Error("nothing was evicted: the test has lost its point")
	}
}
