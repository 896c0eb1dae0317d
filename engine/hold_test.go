package engine

import (
	"testing"

	"limitdb/limit"
)

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
