package engine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// changed reports, in a transaction, whether a watched key has changed.
func changed(t *testing.T, e *Engine, now int64, w *Watch) (yes bool) {
	t.Helper()
	if err := e.Update(now, [][]byte{w.Key()}, func(t *Txn) error {
		yes = w.Changed(t)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return yes
}

// evictOne makes keys until the first value has to go. Those that expire later stay.
func evictOne(e *Engine) {
	e.SetMaxMemory(e.Stats().Bytes, LeastDebt)
	for i := 10; e.Stats().Evicted == 0; i++ {
		_ = e.Update(start, [][]byte{key(i)}, func(t *Txn) error { return t.Put(key(i), limit.STRING, someValue(start+3600*second)) })
	}
}

// refused tries to make a key for which there is no room.
func refused(e *Engine) {
	e.SetMaxMemory(1, NoEviction)
	_, _ = take(e, start, key(1), perSecond(1), 1)
	_ = e.Update(start, [][]byte{key(1)}, func(t *Txn) error { return t.Put(key(1), limit.STRING, someValue(start+second)) })
}

func TestWatchSeesEveryChange(t *testing.T) {
	put := func(e *Engine, now int64, state []byte) {
		if err := e.Update(now, [][]byte{key(1)}, func(t *Txn) error { return t.Put(key(1), limit.STRING, state) }); err != nil {
			t.Error(err)
		}
	}
	state := someValue(start + second)
	for name, tt := range map[string]struct {
		there  bool
		change func(e *Engine)
		at     int64
		want   bool
	}{
		"nothing":          {true, func(*Engine) {}, start, false},
		"the same state":   {true, func(e *Engine) { put(e, start, state) }, start, true},
		"another key":      {true, func(e *Engine) { mustTake(t, e, start, key(2), perSecond(1), 1) }, start, false},
		"forgotten":        {true, func(e *Engine) { e.Reset(start, key(1)) }, start, true},
		"flushed":          {true, func(e *Engine) { e.Flush() }, start, true},
		"expired":          {true, func(*Engine) {}, start + second, true},
		"swept":            {true, func(e *Engine) { e.Sweep(start+second, 1<<20) }, start + second, true},
		"evicted":          {true, evictOne, start, true},
		"gone and back":    {true, func(e *Engine) { e.Reset(start, key(1)); put(e, start, state) }, start, true},
		"new":              {false, func(e *Engine) { put(e, start, state) }, start, true},
		"still absent":     {false, func(e *Engine) { e.Reset(start, key(1)); e.Flush() }, start, false},
		"come and gone":    {false, func(e *Engine) { put(e, start, state); e.Reset(start, key(1)) }, start, true},
		"refused":          {false, refused, start, false},
		"taken by a limit": {false, func(e *Engine) { mustTake(t, e, start, key(1), perSecond(1), 1) }, start, true},
	} {
		e := New(Options{Shards: 1})
		if tt.there {
			put(e, start, state)
		}
		w, other := e.Watch(start, key(1)), e.Watch(start, key(3))
		tt.change(e)
		if got := changed(t, e, tt.at, w); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
		if changed(t, e, tt.at, other) {
			t.Errorf("%s: a key that nobody has changed", name)
		}
		w.Stop()
		other.Stop()
		if e.shards[0].watched != nil {
			t.Errorf("%s: a watch is left", name)
		}
		if !changed(t, New(Options{}), start, w) {
			t.Errorf("%s: unchanged in another engine", name)
		}
	}
}

// TestManyWatches checks that a watch is there until its key changes or it is stopped, in any order, and that a store looks at no
// watches but those of its key.
func TestManyWatches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := New(Options{Shards: 1, Seed: 1})
		var all []*Watch
		of := map[*Watch]int{}       // the key of each watch that is not stopped
		touched := map[*Watch]bool{} // whether that was stored since
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			k := rapid.IntRange(0, 3).Draw(rt, "key")
			switch op := rapid.IntRange(0, 4).Draw(rt, "op"); {
			case op == 0:
				if err := e.Update(start, [][]byte{key(k)}, func(tx *Txn) error { return tx.Put(key(k), limit.STRING, someValue(start+second)) }); err != nil {
					rt.Fatal(err)
				}
				for w, i := range of {
					touched[w] = touched[w] || i == k
				}
			case op == 1 && len(all) > 0:
				i := rapid.IntRange(0, len(all)-1).Draw(rt, "stop")
				all[i].Stop()
				delete(of, all[i])
				all = slices.Delete(all, i, i+1)
			default:
				w := e.Watch(start, key(k))
				all, of[w] = append(all, w), k
			}
			left := map[int]int{}
			for w, i := range of {
				if w.changed != touched[w] {
					rt.Fatalf("changed: %v", w.changed)
				}
				if !touched[w] {
					left[i]++
				}
			}
			for i, n := range left {
				h, _ := e.place(key(i))
				for w := e.shards[0].watched[h]; w != nil; w = w.next {
					n--
				}
				if n != 0 {
					rt.Fatalf("%d watches of key %d are missing", n, i)
				}
			}
			if got := len(e.shards[0].watched); got != len(left) || got == 0 && e.shards[0].watched != nil {
				rt.Fatalf("%d keys are watched, want %d", got, len(left))
			}
		}
	})
}

func TestUpdateOfAClosedEngine(t *testing.T) {
	e := New(Options{})
	e.Close()
	if err := e.Update(start, [][]byte{key(1)}, func(t *Txn) error { return t.Put(key(1), limit.STRING, someValue(start+second)) }); err != ErrClosed {
		t.Error(err)
	}
}
