package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"limitdb/engine/table"
	"limitdb/internal/journal"
	"limitdb/limit"
)

// drain cuts and drains in small parts, as a store does, if there is a journal.
func drain(e *Engine, dst *journal.Buffer) {
	j := e.journal.Load()
	if j == nil {
		return
	}
	gate := j.gate
	gate.Close()
	e.Cut()
	gate.Open()
	for more := true; more; {
		var part journal.Buffer
		more = e.Drain(&part, 500)
		dst.Add(&part)
	}
}

// contents returns every key that is live at now, with its kind and state.
func contents(e *Engine, now int64) map[string]string {
	all := map[string]string{}
	for i := range e.shards {
		s := &e.shards[i]
		for cursor, more := uint64(i)<<(table.PlaceBits-e.shardBits), true; more; more = int(cursor>>(table.PlaceBits-e.shardBits)) == i && cursor != 0 {
			var boxes []table.Spot
			boxes, cursor = s.table.Copy(now, cursor, func(kind limit.Kind, key, state []byte) {
				if kind == limit.HOLDS {
					key = append([]byte("beside "), key...)
				}
				all[string(key)] = fmt.Sprintf("%v %x", kind, state)
			})
			for _, sp := range boxes {
				s.table.Find(&sp)
				key := string(sp.Key)
				if sp.Kind() == limit.HOLDS {
					key = "beside " + key
				}
				if state := s.table.State(&sp); table.Expires(sp.Kind(), state) > now {
					all[key] = fmt.Sprintf("%v %x", sp.Kind(), state)
				}
			}
		}
	}
	return all
}

// replay applies records to an engine, as recovery does.
func replay(e *Engine, now int64, files ...[]byte) error {
	flush := uint64(0)
	each := func(b []byte, fn func(r journal.Record) error) error {
		for len(b) > 0 {
			r, rest, err := journal.Parse(b)
			if err != nil {
				return err
			}
			if err := fn(r); err != nil {
				return err
			}
			b = rest
		}
		return nil
	}
	for _, b := range files {
		if err := each(b, func(r journal.Record) error {
			if r.Op == journal.Flush {
				flush = max(flush, r.Version)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	versions := map[string]uint64{}
	var changes []journal.Record
	for i, b := range files {
		if err := each(b, func(r journal.Record) error {
			if i > 0 && r.Op != journal.Flush { // the first is a copy
				if r.Version <= versions[string(r.Key)] {
					return fmt.Errorf("%q: version %d comes after %d", r.Key, r.Version, versions[string(r.Key)])
				}
				versions[string(r.Key)] = r.Version
			}
			if r.Op == journal.Flush || r.Version < flush {
				return nil
			}
			if r.Op == journal.Set && r.Expires() <= now && !r.ChangesMayFollow() {
				r.Op = journal.Delete
			}
			changes = append(changes, r)
			return nil
		}); err != nil {
			return err
		}
	}
	if err := restoreShared(e, changes, 3); err != nil {
		return err
	}
	if key, missed := e.Missed(now); missed {
		return fmt.Errorf("a state of %q is missing", key)
	}
	return nil
}

// restoreShared restores changes with several goroutines, each of which takes a
// share.
func restoreShared(e *Engine, changes []journal.Record, shares int) error {
	errs := make([]error, shares)
	var all sync.WaitGroup
	for share := range shares {
		all.Go(func() {
			for some := range slices.Chunk(changes, 150) {
				errs[share] = cmp.Or(errs[share], e.Restore(some, share, shares))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// A copy that is made during any steps, and the records since it began, give the
// same table again, with any number of shards.
func TestJournalGivesTheTableAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(Options{Shards: 4})
		notified := 0
		p.e.StartJournal(rapid.Uint64Range(0, 100).Draw(t, "version"), new(journal.Gate), func() { notified++ })
		now := int64(1e18)
		run := func(label string) {
			for range rapid.IntRange(0, 40).Draw(t, label) {
				st := step{
					op: rapid.Byte().Draw(t, "op"), key: rapid.Byte().Draw(t, "key"), limit: rapid.Byte().Draw(t, "limit"),
					cost: rapid.Byte().Draw(t, "cost"), dt: rapid.Int64Range(-10, 1000).Draw(t, "dt"),
				}
				now += st.dt
				if err := p.run(now, st); err != nil {
					t.Fatal(err)
				}
			}
		}
		run("before")
		drain(p.e, &journal.Buffer{})
		if p.e.Dirty() {
			t.Fatal("dirty after a drain")
		}
		var copied, log journal.Buffer
		notified = 0
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			cursor = p.e.Copy(now, cursor, &copied)
			if rapid.IntRange(0, 3).Draw(t, "meanwhile") == 0 {
				run("while it is copied")
			}
			if rapid.Bool().Draw(t, "drain") {
				drain(p.e, &log)
			}
		}
		run("after")
		drain(p.e, &log)
		if (log.Records > 0) != (notified > 0) {
			t.Fatalf("%d records were drained, and that was told %d times", log.Records, notified)
		}
		for i := range p.e.shards {
			now = max(now, p.e.shards[i].last)
		}
		again := New(Options{Shards: rapid.SampledFrom([]int{1, 2, 16}).Draw(t, "shards")})
		if err := again.Expect(now, rapid.SampledFrom([]int64{0, 10, 100, 100_000}).Draw(t, "expected")); err != nil {
			t.Fatal(err)
		}
		if err := replay(again, now, copied.Bytes, log.Bytes); err != nil {
			t.Fatal(err)
		}
		again.check()
		again.Tidy()
		again.check()
		want, got := contents(p.e, now), contents(again, now)
		for k, v := range want {
			if got[k] != v {
				t.Fatalf("%q is %s, want %s", k, got[k], v)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d keys, want %d", len(got), len(want))
		}
	})
}

// Evicted keys are gone for good, also from the records. A state that finds no
// room leaves no record.
func TestJournalUnderABudget(t *testing.T) {
	for _, policy := range []Policy{NoEviction, LeastDebt} {
		e := New(Options{Shards: 1, MaxMemory: 300 << 10, Policy: policy})
		e.StartJournal(0, new(journal.Gate), func() {})
		l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: 1e9, Burst: 10}
		var log journal.Buffer
		var d limit.Decision
		refused := 0
		for i := range 20_000 {
			if err := e.Take(1e18, fmt.Appendf(nil, "key:%d", i), &l, 1, &d); err == ErrOOM {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				drain(e, &log)
			}
		}
		drain(e, &log)
		if st := e.Stats(); (policy == LeastDebt) != (st.Evicted > 0) || (policy == NoEviction) != (refused > 0) {
			t.Fatalf("policy %d: %d refused, %+v", policy, refused, st)
		}
		again := New(Options{})
		if err := replay(again, 1e18, nil, log.Bytes); err != nil {
			t.Fatal(err)
		}
		if want, got := contents(e, 1e18), contents(again, 1e18); len(want) != len(got) {
			t.Errorf("policy %d: %d keys, want %d", policy, len(got), len(want))
		}
	}
}

// While many goroutines write and flush, every record is drained once and in
// order.
func TestDrainWhileManyWrite(t *testing.T) {
	e := New(Options{Shards: 8})
	wake := make(chan struct{}, 1)
	e.StartJournal(0, new(journal.Gate), func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	l := limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: 1e9, Burst: 1 << 30}
	var writers sync.WaitGroup
	for g := range 4 {
		writers.Go(func() {
			var d limit.Decision
			for i := range 5000 {
				if err := e.Take(1e18, fmt.Appendf(nil, "key:%d", (i*7+g)%97), &l, 1, &d); err != nil {
					t.Error(err)
				}
				if g == 0 && i%1000 == 999 {
					e.Flush()
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	var log journal.Buffer
	for running := true; running; {
		select {
		case <-wake:
			drain(e, &log)
		case <-done:
			running = false
		}
	}
	if e.Dirty() {
		drain(e, &log)
	}
	rest := journal.Buffer{}
	if drain(e, &rest); rest.Records > 0 {
		t.Error("there were records, and the engine was not dirty")
	}
	again := New(Options{Shards: 2})
	if err := replay(again, 1e18, nil, log.Bytes); err != nil {
		t.Fatal(err)
	}
	if want, got := contents(e, 1e18), contents(again, 1e18); fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// A long state is drained once, as it is then, however often it has changed since
// the last drain. If its key has gone, it is not drained.
func TestLongStatesAreDrainedOnce(t *testing.T) {
	e := New(Options{Shards: 2})
	e.StartJournal(0, new(journal.Gate), func() {})
	l := logLimit(2000)
	now := int64(1e18)
	take := func(key string, n int) {
		var d limit.Decision
		for range n {
			now += 1e6
			if err := e.Take(now, []byte(key), l, 1, &d); err != nil || d.Limited {
				t.Fatal(d, err)
			}
		}
	}
	var all journal.Buffer
	drained := func() int {
		before := len(all.Bytes)
		drain(e, &all)
		again := New(Options{})
		if err := replay(again, now, nil, all.Bytes); err != nil {
			t.Fatal(err)
		}
		if want, got := contents(e, now), contents(again, now); fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("%v\nwant %v", got, want)
		}
		return len(all.Bytes) - before
	}
	take("many", 500)
	short := drained() // its records, until it was long, and once as it is
	take("many", 500)
	if n := drained(); n > 2*short || !e.exists("many") {
		t.Errorf("500 changes of a long state drained %d bytes", n)
	}
	take("many", 1)
	take("another", 300)
	e.Reset(now, []byte("many"))
	drained()
	take("many", 300)
	e.Flush()
	take("another", 1)
	drained()
	take("another", 400)
	e.Reset(now, []byte("another"))
	take("another", 1)
	drained()
	take("another", 500)
	now += 2 * 3600 * second
	drained()
	if e.Dirty() {
		t.Error("dirty after a drain")
	}
}

// One cut has all of a TakeAll, short states and long ones, whatever happens
// between the cut and the end of its drain.
func TestCutHasAllOfATakeAll(t *testing.T) {
	for _, long := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(long, " long states"), func(t *testing.T) {
			e := New(Options{Shards: 16})
			e.StartJournal(0, new(journal.Gate), func() {})
			const most = 1 << 16
			short := limit.Limit{Algorithm: limit.GCRA, Max: 1, Period: 3600e9, Burst: most}
			limits := []limit.Limit{short, short}
			for i := range long {
				limits[i] = *logLimit(most)
			}
			const pairs, turns = 8, 2000
			const now = int64(1e18)
			pair := func(i int) [][]byte { return [][]byte{fmt.Appendf(nil, "a:%d", i), fmt.Appendf(nil, "b:%d", i)} }
			var writers sync.WaitGroup
			for i := range pairs {
				writers.Go(func() {
					ds := make([]limit.Decision, 2)
					for n := range turns {
						if at, err := e.TakeAll(now+int64(n)*1001, pair(i), limits, []int64{1, 1}, ds); at >= 0 || err != nil {
							t.Error(at, err)
							return
						}
					}
				})
			}
			done := make(chan struct{})
			go func() { writers.Wait(); close(done) }()
			again := New(Options{Shards: 1})
			cuts := 0
			left := func(key []byte, l *limit.Limit) int64 {
				var d limit.Decision
				if err := again.Peek(now+turns*1001, key, l, 0, &d); err != nil {
					t.Fatal(err)
				}
				return d.Remaining
			}
			var log journal.Buffer
			for running := true; running; {
				select {
				case <-done:
					running = false
				default:
				}
				log.Reset(0)
				drain(e, &log)
				cuts++
				var records []journal.Record
				for b := log.Bytes; len(b) > 0; {
					r, rest, err := journal.Parse(b)
					if err != nil {
						t.Fatal(err)
					}
					records, b = append(records, r), rest
				}
				if err := again.Restore(records, 0, 1); err != nil {
					t.Fatal(err)
				}
				for i := range pairs {
					keys := pair(i)
					// Both keys have the same room, and lose the same.
					if a, b := left(keys[0], &limits[0]), left(keys[1], &limits[1]); a != b {
						t.Fatalf("after cut %d: %d are left of one key, %d of the other", cuts, a, b)
					}
				}
			}
			if left(pair(0)[0], &limits[0]) != most-turns {
				t.Errorf("%d are left", left(pair(0)[0], &limits[0]))
			}
		})
	}
}

// While a cut is drained, later TakeAlls and Flushes do not get into it. Later
// steps on one key may.
func TestWhatIsOwedIsPaidBeforeAGroup(t *testing.T) {
	now := int64(1e18)
	l := *logLimit(2000)
	keys := [][]byte{[]byte("a"), []byte("b")}
	type when struct {
		meanwhile func(e *Engine)
		want      int // units of either key in the cut
	}
	tests := map[string]when{
		"nothing": {func(*Engine) {}, 300},
		"a TakeAll": {func(e *Engine) {
			ds := make([]limit.Decision, 2)
			if at, err := e.TakeAll(now, keys, []limit.Limit{l, l}, []int64{5, 5}, ds); at >= 0 || err != nil {
				t.Fatal(at, err)
			}
		}, 300},
		"FLUSHALL":   {func(e *Engine) { e.Flush() }, 300},
		"two resets": {func(e *Engine) { e.Reset(now, keys[0]); e.Reset(now, keys[1]) }, 0},
	}
	check := func(name string, test when, parts int) {
		e := New(Options{Shards: 16})
		e.StartJournal(0, new(journal.Gate), func() {})
		ds := make([]limit.Decision, 2)
		for i := range int64(300) {
			if at, err := e.TakeAll(now-1e9+i*1_000_001, keys, []limit.Limit{l, l}, []int64{1, 1}, ds); at >= 0 || err != nil {
				t.Fatal(at, err)
			}
		}
		e.Cut()
		var log journal.Buffer
		for range parts {
			if !e.Drain(&log, 1) {
				t.Fatal("all is drained at once")
			}
		}
		test.meanwhile(e)
		e.Drain(&log, math.MaxInt)
		again := New(Options{})
		if err := replay(again, now, nil, log.Bytes); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, key := range keys {
			var d limit.Decision
			if err := again.Peek(now, key, &l, 0, &d); err != nil {
				t.Fatal(err)
			}
			if got := int(2000 - d.Remaining); got != test.want && parts == 0 || got != test.want && got != 300 {
				t.Errorf("%s after %d parts: %d units of %s are in the cut, want %d", name, parts, got, key, test.want)
			}
		}
		drain(e, &log)
		again = New(Options{})
		if err := replay(again, now, nil, log.Bytes); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want, got := contents(e, now), contents(again, now); fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("%s: after the next cut %v, want %v", name, got, want)
		}
	}
	for name, test := range tests {
		for parts := range 2 {
			check(name, test, parts)
		}
	}
}

// A drain of many long states exceeds its limit by one record at most.
func TestDrainInParts(t *testing.T) {
	now := int64(1e18)
	e := New(Options{Shards: 4})
	e.StartJournal(0, new(journal.Gate), func() {})
	e.RecordWhole(math.MaxInt64)
	l := logLimit(2000)
	for i := range 20 * 300 {
		if i == 20*200 { // all states are long from here on
			drain(e, new(journal.Buffer))
		}
		mustTake(t, e, now+int64(i)*1_000_001, fmt.Appendf(nil, "key:%d", i%20), l, 1)
	}
	e.Cut()
	const limit = 3000
	var all journal.Buffer
	for more := true; more; {
		var part journal.Buffer
		if more = e.Drain(&part, limit); len(part.Bytes) > 2*limit {
			t.Fatalf("%d bytes at once", len(part.Bytes))
		}
		all.Add(&part)
	}
	if e.Drain(&all, limit) || len(all.Bytes) < 5*limit {
		t.Errorf("%d bytes, and there is more", len(all.Bytes))
	}
	again := New(Options{})
	if err := replay(again, now, nil, all.Bytes); err != nil {
		t.Fatal(err)
	}
	if want, got := contents(e, now), contents(again, now); fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
}

func (e *Engine) exists(key string) bool {
	_, sp := e.find([]byte(key))
	return sp.Found()
}

// While nothing changes, a copy has every live key once, also keys whose states
// are in boxes, and no key that has expired.
func TestCopyHasEveryKeyOnce(t *testing.T) {
	e := New(Options{Shards: 2})
	now := int64(1e18)
	for i := range 5000 {
		mustTake(t, e, now, fmt.Appendf(nil, "key:%d", i), perSecond(int64(1+i%2)), 1)
	}
	long := logLimit(4000)
	for i := range 4000 {
		mustTake(t, e, now+int64(i)*99_991, []byte("long"), long, 1)
	}
	if boxCount(e) == 0 {
		t.Fatal("no state is in a box")
	}
	now += 700e6 // those of two a second are full again
	var copied journal.Buffer
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		cursor = e.Copy(now, cursor, &copied)
	}
	if copied.Records != 2501 {
		t.Errorf("%d records, want 2501", copied.Records)
	}
	again := New(Options{})
	if err := replay(again, now, copied.Bytes); err != nil {
		t.Fatal(err)
	}
	if want, got := contents(e, now), contents(again, now); fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
}

// A hold by the short way changes a key and what is beside it. The last cut has neither, also if it owes the key, whose state has become short since.
func TestWhatIsOwedIsPaidBeforeAHold(t *testing.T) {
	l := *logLimit(2000)
	e := New(Options{Shards: 1})
	defer e.Close()
	e.StartJournal(0, new(journal.Gate), func() {})
	now := int64(1e18)
	for range 300 {
		now += 1_000_001
		if _, err := take(e, now, key(0), &l, 1); err != nil {
			t.Fatal(err)
		}
	}
	e.Cut()
	now += 2 * l.Period // what was taken counts no longer
	if _, err := take(e, now, key(0), &l, 1); err != nil {
		t.Fatal(err)
	}
	var d limit.Decision
	if err := e.HoldAt(0, now, key(0), &l, 5, &Hold{ID: []byte("request"), TTL: 60e9}, &d); err != nil || d.Limited {
		t.Fatal(d, err)
	}
	var log journal.Buffer
	e.Drain(&log, math.MaxInt)
	again := New(Options{})
	defer again.Close()
	if err := replay(again, now, log.Bytes); err != nil {
		t.Fatal(err)
	}
	if d, err := peek(again, now, key(0), &l, 0); err != nil || l.Max-d.Remaining != 1 {
		t.Errorf("%d units are in the cut, want 1: %v", l.Max-d.Remaining, err)
	}
	drain(e, &log)
	last := New(Options{})
	defer last.Close()
	if err := replay(last, now, log.Bytes); err != nil {
		t.Fatal(err)
	}
	if got, want := contents(last, now), contents(e, now); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after the next cut %v, want %v", got, want)
	}
}

// TestCopyOfASetThatMoves moves a key's set of ids while a copy is made. The set is in a box when the segment is copied. When the copy comes to that
// box, the set is in the key's record, or in one that the key has left. The copy must have it all the same.
func TestCopyOfASetThatMoves(t *testing.T) {
	l := parsed(t, "GCRA 1000/h")[0]
	for _, reset := range []bool{false, true} {
		e := New(Options{Shards: 1})
		defer e.Close()
		e.StartJournal(0, new(journal.Gate), func() {})
		now := int64(1.7e18)
		hold := func(i int) {
			var d limit.Decision
			if err := e.HoldAt(0, now, key(0), &l, 1, &Hold{ID: fmt.Appendf(nil, "%0100d", i), TTL: 60e9}, &d); err != nil || d.Limited {
				t.Fatal(i, d, err)
			}
		}
		for i := range 100 {
			hold(i)
		}
		var log journal.Buffer
		boxes, _ := e.copySegment(now, 0, &log)
		if len(boxes) != 1 {
			t.Fatalf("%d boxes", len(boxes))
		}
		now += 120e9 // all are forgotten
		hold(100)
		if boxCount(e) > 0 {
			t.Fatal("the set is still in a box")
		}
		if reset && !e.Reset(now, key(0)) {
			t.Fatal("there was no key")
		}
		from := len(log.Bytes)
		e.shardOf(boxes[0].Hash).copySpot(&boxes[0], &log)
		r, _, err := journal.Parse(log.Bytes[from:])
		if err == nil {
			err = Sound(r.Kind, r.State)
		}
		if err != nil || limit.Kind(r.Kind) != limit.HOLDS || contents(e, now)["beside "+string(key(0))] != fmt.Sprintf("%v %x", limit.HOLDS, r.State) {
			t.Errorf("reset %t: the copy has %+v, %v", reset, r, err)
		}
	}
}
