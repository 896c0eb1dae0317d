package engine

import (
	"testing"

	"limitdb/limit"
)

// blocked returns a limit of 1 in a second whose denials block for a minute.
func blocked(t *testing.T) *limit.Limit {
	t.Helper()
	l, err := limit.Parse("FIXED 1/s BLOCK 1m")
	if err != nil {
		t.Fatal(err)
	}
	return &l
}

// Of a request for several limits, each that denies blocks its own key, also if it stops nobody, and no other key.
func TestBlockOfSeveral(t *testing.T) {
	e := New(Options{})
	l := blocked(t)
	for _, key := range []string{"a", "soft"} {
		mustTake(t, e, start, []byte(key), l, 1)
	}
	all := Together{
		Keys: [][]byte{[]byte("a"), []byte("b"), []byte("soft")}, Limits: []limit.Limit{*l, *l, *l}, Costs: []int64{1, 1, 1},
		Decisions: make([]limit.Decision, 3), Soft: []bool{false, false, true}, Blocks: make([]BlockOutcome, 3),
	}
	peek := all
	peek.Peek = true
	if _, err := e.Together(start, &peek); err != nil {
		t.Fatal(err)
	}
	at, err := e.Together(start, &all)
	if err != nil || at != 0 || all.Blocks[0] != BlockBegun || all.Blocks[1] != NoBlock || all.Blocks[2] != BlockBegun {
		t.Fatal(at, err, all.Blocks)
	}
	now := start + 2*int64(1e9) // the window is over, the block is not
	for i, want := range []bool{true, false, true} {
		var d limit.Decision
		if err := e.Take(now, all.Keys[i], l, 1, &d); err != nil || d.Limited != want {
			t.Errorf("%q: %+v, %v", all.Keys[i], d, err)
		}
	}
	now += int64(1e9)
	if at, err = e.Together(now, &all); err != nil || at != 0 || all.Blocks[0] != InBlock {
		t.Error(at, err, all.Blocks)
	}
	all.Soft[0] = true // what only a soft limit denies goes ahead
	all.Keys[1] = []byte("c")
	if at, err = e.Together(now, &all); err != nil || at != -1 {
		t.Error(at, err)
	}
}

// A request that waits has not been denied: it begins no block. It waits for the end of one.
func TestBlockAndWaiters(t *testing.T) {
	e := New(Options{})
	l, key := blocked(t), []byte("k")
	mustTake(t, e, start, key, l, 1)
	first := &Waiter{Request: Request{Limit: *l, Cost: 1}, Until: start + int64(2e9), Owner: nobody{}}
	if !e.Ask(start, key, first) {
		t.Fatal("it does not wait")
	}
	e.Wake(start + int64(1e9))
	if d, granted, err := first.Result(); !first.Done() || granted != 1 || err != nil {
		t.Fatal(d, granted, err)
	}
	now := start + int64(1e9)
	var d limit.Decision
	if err := e.Take(now, key, l, 1, &d); err != nil || !d.Limited || d.Wait != int64(60e9) {
		t.Fatal(d, err)
	}
	second := &Waiter{Request: Request{Limit: *l, Cost: 1}, Until: now + int64(70e9), Owner: nobody{}}
	late := &Waiter{Request: Request{Limit: *l, Cost: 1}, Until: now + int64(59e9), Owner: nobody{}}
	if !e.Ask(now, key, second) || !e.Ask(now, key, late) {
		t.Fatal("they do not wait")
	}
	if e.Wake(now + int64(59e9)); second.Done() {
		t.Fatal("granted in a block")
	}
	if e.Wake(now + int64(59e9) + 1); !late.Done() || second.Done() {
		t.Fatal(late.Done(), second.Done())
	}
	if d, _, _ := late.Result(); !d.Limited || d.Wait > int64(1e9) {
		t.Fatalf("its denial has made the block longer: %+v", d)
	}
	if e.Wake(now + int64(60e9)); !second.Done() {
		t.Fatal("not granted after the block")
	}
}

// A take of a blocked key allocates nothing, and nor does one that begins a block.
func TestBlockAllocatesNothing(t *testing.T) {
	e := New(Options{})
	l, err := limit.Parse("GCRA 1/s BLOCK 1m UPTO 2m")
	if err != nil {
		t.Fatal(err)
	}
	key, now := []byte("k"), start
	var d limit.Decision
	for range 100 {
		mustTake(t, e, now, key, &l, 1)
		now += int64(10e9)
	}
	if n := testing.AllocsPerRun(1000, func() {
		now += int64(10e9)
		if err := e.Take(now, key, &l, 2, &d); err != nil {
			t.Fatal(err)
		}
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

// A block takes the place of an earlier one, longer but over for this limit, whose time the decision does not tell any more.
func TestBlockInPlaceOfALongerOne(t *testing.T) {
	e := New(Options{})
	long, err := limit.Parse("GCRA 4/us BLOCK 7us")
	if err != nil {
		t.Fatal(err)
	}
	short, err := limit.Parse("SEGMENTED 0/us SEGMENTS 2 BLOCK 3us")
	if err != nil {
		t.Fatal(err)
	}
	var d limit.Decision
	if err := e.Take(start, key(1), &long, 5, &d); err != nil || !d.Limited {
		t.Fatal(d, err)
	}
	if _, err := takePartial(e, start+3000, key(1), &short, 1, &d); err != nil || d.Reset != 3000 {
		t.Error(d, err)
	}
}

// A reservation that would come too late begins a block, even where a take would still be granted a later turn.
func TestReservationThatBeginsABlock(t *testing.T) {
	e := New(Options{})
	l, err := limit.Parse("QUEUE 3/us BLOCK 7us")
	if err != nil {
		t.Fatal(err)
	}
	var d limit.Decision
	for range 3 {
		if err := e.Reserve(start, key(1), &l, 1, -1, &d); err != nil || d.Limited {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if err := e.Reserve(start, key(1), &l, 1, 500, &d); err != nil || !d.Limited || d.Wait != 7000 || d.Remaining != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := take(e, start+6999, key(1), &l, 1); err != nil || d.Wait != 1 {
		t.Errorf("in the block: %+v, %v", d, err)
	}
}

// A denial that is counted for as long as a block is remembered says when that is over, as the fast way of a take does.
func TestDenialBehindABlockIsCounted(t *testing.T) {
	e := New(Options{})
	l, err := limit.Parse("SLIDING 3/us COUNTDENIED BLOCK 1us UPTO 2us")
	if err != nil {
		t.Fatal(err)
	}
	var fast, slow limit.Decision
	for i, cost := range []int64{4, 0} {
		now := start + 1 + int64(i)*1000 // not at the beginning of a window
		if err := e.TakeAt(0, now, key(1), &l, cost, &fast); err != nil {
			t.Fatal(err)
		}
		if err := e.on(now, key(2), func(tx *Txn) error {
			_, err := tx.Take(key(2), &Request{Limit: l, Cost: cost}, &slow)
			return err
		}); err != nil || slow != fast || !slow.Limited {
			t.Errorf("cost %d: %+v, %v; the fast way says %+v", cost, slow, err, fast)
		}
	}
}
