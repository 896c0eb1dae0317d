package engine

import (
	"maps"
	"testing"

	"limitdb/internal/journal"
	"limitdb/limit"
)

func TestFlush(t *testing.T) {
	e := New(Options{})
	empty := e.Stats().Bytes
	for i := range 5000 {
		mustTake(t, e, start, key(i), perSecond(1), 1)
	}
	full := e.Stats().Bytes
	e.Flush()
	if st := e.Stats(); st.Keys != 0 || st.Bytes > full || st.Allowed != 5000 {
		t.Errorf("%+v, and %d bytes before", st, full)
	}
	giveBack(e, start)
	if st := e.Stats(); st.Bytes != empty {
		t.Errorf("%d bytes are left, %d at first", st.Bytes, empty)
	}
	if d := mustTake(t, e, start, key(1), perSecond(1), 1); d.Limited {
		t.Error("a flushed key was limited")
	}
}

// randomOf returns a key from Random or, if Random finds none, the first key
// behind its place.
func randomOf(e *Engine, now int64, dst []byte) (key []byte, ok bool) {
	key, cursor, ok := e.Random(now, dst)
	for laps := 0; !ok && laps < 2; {
		cursor = e.Range(now, cursor, 1000, func(k []byte, _ Info) {
			if !ok {
				key, ok = append(dst, k...), true
			}
		})
		if cursor == 0 {
			laps++
		}
	}
	return key, ok
}

// A flush forgets the keys at once, and frees their memory in steps. Keys that
// come in between stay, those of a TakeAll all together.
func TestFlushIsOneStep(t *testing.T) {
	e := New(Options{Seed: 7, Shards: 4})
	gate := new(journal.Gate)
	e.StartJournal(0, gate, func() {})
	before := e.Bytes()
	for i := range 100 {
		mustTake(t, e, start, key(i), perSecond(1), 1)
	}
	first := e.BeginFlush()
	if n := e.Stats().Keys; n != 0 {
		t.Errorf("%d keys are left", n)
	}
	keys := make([][]byte, 8)
	limits, costs := make([]limit.Limit, 8), make([]int64, 8)
	for i := range keys {
		keys[i], limits[i], costs[i] = key(i), *perSecond(1), 1
	}
	if at, err := e.TakeAll(start, keys, limits, costs, make([]limit.Decision, 8)); at != -1 || err != nil {
		t.Fatal(at, err)
	}
	steps := 1
	for ; !first.Step(1); steps++ {
		e.check()
	}
	if n := e.Stats().Keys; n != 8 || steps != 5 {
		t.Errorf("%d keys and %d steps, want 8 and 5", n, steps)
	}
	var log journal.Buffer
	drain(e, &log)
	again := New(Options{Shards: 4, Seed: 7})
	if err := replay(again, start, nil, log.Bytes); err != nil {
		t.Fatal(err)
	}
	if got, want := contents(again, start), contents(e, start); !maps.Equal(got, want) {
		t.Errorf("the journal gives %v, there is %v", got, want)
	}
	// Sweep frees the memory of a flush that its caller has not finished.
	e.BeginFlush()
	for range 3 {
		e.Sweep(start, 1<<20)
	}
	if after := e.Bytes(); after != before {
		t.Errorf("%d bytes are left of %d", after, before)
	}
	e.check()
	if gate.Closed() {
		t.Error("the gate is not free")
	}
}
