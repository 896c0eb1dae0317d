package engine

import (
	"testing"

	"limitdb/limit"
)

// A step that begins again, because it needs another shard or because others are to be decided first, has one effect: it
// takes, counts and waits once.
func TestStepThatBeginsAgain(t *testing.T) {
	slow, fast := limit.Limit{Algorithm: limit.GCRA, Max: 10, Burst: 10, Period: 3600 * second}, limit.Limit{Algorithm: limit.GCRA, Max: 10, Burst: 10, Period: second}
	take := func(tx *Txn, k []byte, l limit.Limit) (d limit.Decision, err error) {
		_, err = tx.Take(k, &Request{Limit: l, Cost: 1}, &d)
		return d, err
	}
	left := func(e *Engine, k []byte, l *limit.Limit) int64 {
		d, err := peek(e, start, k, l, 0)
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining
	}

	t.Run("another shard", func(t *testing.T) {
		e, runs := New(Options{Shards: 64, Seed: 1}), 0
		err := e.Update(start, [][]byte{key(1), key(2)}, func(tx *Txn) error {
			runs++
			for i := range 5 {
				if _, err := take(tx, key(1+i), fast); err != nil {
					return err
				}
			}
			return nil
		})
		if st := e.Stats(); err != nil || runs != 2 || st.Allowed != 5 || left(e, key(1), &fast) != 9 {
			t.Errorf("%d runs, %v: %+v", runs, err, st)
		}
	})

	// wait has one request wait for a key that is used up under the slow limit.
	wait := func(e *Engine) *Waiter {
		t.Helper()
		mustTake(t, e, start, key(2), &slow, 10)
		w := &Waiter{Request: Request{Limit: slow, Cost: 5}, Until: start + 3600*second, Owner: nobody{}}
		if !e.Ask(start, key(2), w) {
			t.Fatal("it does not wait")
		}
		return w
	}
	t.Run("a key that it watches", func(t *testing.T) {
		e := New(Options{Shards: 64, Seed: 1})
		wait(e)
		w := e.Watch(start, key(2))
		defer w.Stop()
		var d limit.Decision
		err := e.Update(start, [][]byte{key(2)}, func(tx *Txn) (err error) {
			if w.Changed(tx) {
				t.Error("it has changed the key itself")
			}
			d, err = take(tx, key(2), fast)
			return err
		})
		if err != nil || !d.Limited {
			t.Errorf("%v: %+v", err, d)
		}
	})
	t.Run("a faster pace", func(t *testing.T) {
		e, runs := New(Options{Shards: 64, Seed: 1}), 0
		first := wait(e)
		var d limit.Decision
		before := e.Stats()
		err := e.Update(start, [][]byte{key(1), key(2)}, func(tx *Txn) (err error) {
			runs++
			if _, err = take(tx, key(1), fast); err == nil {
				d, err = take(tx, key(2), fast)
			}
			return err
		})
		st := e.Stats()
		if err != nil || runs != 2 || st.Allowed-before.Allowed != 1 || st.Limited-before.Limited != 1 || left(e, key(1), &fast) != 9 {
			t.Errorf("%d runs, %v: %+v, before %+v", runs, err, st, before)
		}
		if d.Wait != 500*ms || e.Wake(start) != start+500*ms { // the waiter moves with its key
			t.Errorf("told %+v", d)
		}
		if e.Wake(start + 500*ms); !first.Done() {
			t.Error("the waiter has not gone")
		}
		e.check()
	})
	t.Run("a request that waits", func(t *testing.T) {
		e := New(Options{Shards: 1})
		first := wait(e)
		second := &Waiter{Request: Request{Limit: fast, Cost: 1}, Until: start + 3600*second, Owner: nobody{}}
		if !e.Ask(start, key(2), second) || e.Stats().Waiting != 2 || e.Stats().Waited != 2 {
			t.Errorf("%+v", e.Stats())
		}
		if e.Wake(start + 500*ms); !first.Done() || second.Done() {
			t.Error("not in the order of asking")
		}
		if e.Wake(start + 600*ms); !second.Done() {
			t.Error("the second has not gone")
		}
		e.check()
	})
}
