package crossing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/limit"
	"limitdb/server/durable"
	"limitdb/server/group"
	"limitdb/server/handler"
	"limitdb/server/waiters"
)

const (
	start    = 1_600_000_000_000_000_000
	patience = 3_000_000_000
)

// still is a clock that stands still, unless a test moves it.
type still struct {
	group.Clock
	now int64
}

func (s *still) Now() int64 { return s.now }

// node has some groups, each with what keeps its state.
type node struct {
	t      testing.TB
	groups []*group.Group
	keeps  []*keeps
	counts across.Counters
	clock  *still

	returns Returns
	waiting *waiting // nil: nobody waits for a leader
}

// waiting are those who wait for a leader.
type waiting struct {
	waiters.Set
	most, soon int
}

func (w *waiting) Add(x waiters.Waiter) bool { return w.Set.Add(x, 0, int64(w.most)) }
func (w *waiting) WakeSoon()                 { w.soon++ }

// ways are those of the node's requests.
func (d *node) ways() Ways {
	w := Ways{Counts: &d.counts, Now: d.clock.Now, Kicks: true, Returns: &d.returns, Patience: patience}
	if d.waiting != nil {
		w.Leaderless = d.waiting
	}
	return w
}

// keeps keeps the state of a group. It says that it is durable when a test wants it to.
type keeps struct {
	turn  uint64
	holds bool
	waits []func(error)
	at    func() // called within the next Wait
}

func (k *keeps) source() *durable.Source {
	return &durable.Source{
		Turn:  func() uint64 { return k.turn },
		Holds: func() bool { return k.holds },
		Kick:  func() {},
		Wait: func(turn uint64, fn func(error)) bool {
			if at := k.at; at != nil {
				k.at = nil
				at()
			}
			if turn != k.turn {
				fn(errors.New("another turn"))
				return true
			}
			k.waits = append(k.waits, fn)
			return true
		},
	}
}

// end ends all waits.
func (k *keeps) end(err error) {
	all := k.waits
	k.waits = nil
	for _, fn := range all {
		fn(err)
	}
}

func newNode(t testing.TB, n int) *node {
	d := &node{t: t, clock: &still{now: start}}
	for range n {
		k := &keeps{turn: 1}
		d.keeps = append(d.keeps, k)
		d.groups = append(d.groups, group.New(engine.New(engine.Options{Seed: 1, Shards: 2}), d.clock, k.source(), nil))
	}
	return d
}

// of is the group that the first byte of a key names.
func (d *node) of(key []byte) *group.Group { return d.groups[key[0]-'0'] }

func together(words ...string) *engine.Together {
	r := &engine.Together{CountDenied: true}
	for _, w := range words {
		key, text, _ := strings.Cut(w, " ")
		l := limit.Limit{}
		var lease *limit.Lease
		if id, ok := strings.CutPrefix(text, "LEASE "); ok {
			lease = &limit.Lease{Limit: 2, TTL: 60_000_000_000, Weight: 1, ID: []byte(id)}
		} else {
			var err error
			if l, err = (&limit.Parser{}).Parse(text); err != nil {
				panic(err)
			}
		}
		r.Keys, r.Limits, r.Costs, r.Leases = append(r.Keys, []byte(key)), append(r.Limits, l), append(r.Costs, 1), append(r.Leases, lease)
	}
	n := len(r.Keys)
	r.Decisions, r.Blocks, r.Soft = make([]limit.Decision, n), make([]engine.BlockOutcome, n), make([]bool, n)
	return r
}

// ask begins a request. woken counts the wake-ups.
func (d *node) ask(r *engine.Together) (x *Crossing, woken *int) {
	x, woken = New(r, handler.Each{}, d.of), new(int)
	x.Begin(d.ways(), func() { *woken++ })
	return x, woken
}

// take takes one from a key.
func (d *node) take(key []byte, l limit.Limit) {
	one := engine.Together{Keys: [][]byte{key}, Limits: []limit.Limit{l}, Costs: []int64{1}, Decisions: make([]limit.Decision, 1)}
	if err := d.of(key).Engine.Load().UpdateAt(0, start, one.Keys, func(t *engine.Txn) error { _, err := t.Together(&one); return err }); err != nil {
		d.t.Fatal(err)
	}
}

// left returns what is left of keys, as a request that takes nothing sees it.
func (d *node) left(r *engine.Together) (all []int64) {
	for i, key := range r.Keys {
		one := engine.Together{
			Keys: [][]byte{key}, Limits: r.Limits[i : i+1], Costs: []int64{0}, Leases: r.Leases[i : i+1], Decisions: make([]limit.Decision, 1),
			Free: make([]limit.Decision, 1), Peek: true,
		}
		err := d.of(key).Engine.Load().UpdateAt(0, start, one.Keys, func(t *engine.Txn) error {
			at, err := t.Together(&one)
			if at >= 0 {
				one.Free = one.Decisions
			}
			return err
		})
		if err != nil {
			d.t.Fatal(err)
		}
		all = append(all, one.Free[0].Remaining)
	}
	return all
}

func (d *node) expect(what string, r *engine.Together, x *Crossing, want string, left ...int64) {
	d.t.Helper()
	if !x.Resume() {
		d.t.Fatalf("%s: there is no result", what)
	}
	res := x.Result()
	got := [...]string{"", "granted", "denied", "failed", "leaderless", "unknown"}[res.Outcome]
	if res.At >= 0 {
		got += fmt.Sprint(" ", res.At)
	}
	if got != want {
		d.t.Errorf("%s: %s %v, want %s", what, got, res.Err, want)
	}
	if got := d.left(r); !slices.Equal(got, left) {
		d.t.Errorf("%s: %v are left, want %v", what, got, left)
	}
}

// TestTakesInAllGroups takes at once in groups that need not wait.
func TestTakesInAllGroups(t *testing.T) {
	d := newNode(t, 3)
	r := together("0a FIXED 2/h", "1b FIXED 9/h", "0c FIXED 9/h", "2d FIXED 9/h BLOCK 5m", "1e LEASE {id}")
	for i, want := range []struct {
		verdict string
		left    []int64
	}{
		{"granted", []int64{1, 8, 8, 8, 1}},
		{"granted", []int64{0, 7, 7, 7, 0}},
		{"denied 0", []int64{0, 7, 7, 7, 0}},
	} {
		for j, l := range r.Leases {
			if l != nil {
				r.Leases[j].ID = fmt.Append(nil, "id", i)
			}
		}
		r.Blocks[3] = engine.InBlock // of an earlier request
		x, _ := d.ask(r)
		d.expect(fmt.Sprint("request ", i), r, x, want.verdict, want.left...)
		if r.Blocks[3] != engine.NoBlock {
			t.Error("nothing was blocked")
		}
		if !x.check.Done() {
			t.Error("it is not done")
		}
	}
	r.Peek = true
	x, _ := d.ask(r)
	d.expect("a look", r, x, "denied 0", 0, 7, 7, 7, 0)
	if d.counts.Requests.Load() != 4 || d.counts.DeniedLate.Load()+d.counts.Left.Load() > 0 {
		t.Error("the counts are wrong")
	}
}

// TestDeniedLate has a group deny when the other has taken its part: that is given back, with its lease.
func TestDeniedLate(t *testing.T) {
	d := newNode(t, 2)
	for _, k := range d.keeps {
		k.holds = true
	}
	r := together("0a FIXED 9/h", "0b LEASE l1", "1c FIXED 1/h")
	d.keeps[0].at = func() { // the first group has taken
		d.take(r.Keys[2], r.Limits[2])
	}
	x, woken := d.ask(r)
	if x.Resume() || *woken > 0 {
		t.Fatal("there is a result before anything is durable")
	}
	d.keeps[1].end(nil)
	if *woken != 1 || x.Resume() {
		t.Fatal("there is a result, though what the first group has shown is not durable")
	}
	d.keeps[0].end(nil)
	d.expect("a late denial", r, x, "denied 2", 9, 2, 0)
	d.keeps[0].end(nil) // the way back
	if d.counts.DeniedLate.Load() != 1 || d.counts.GivenBack.Load() != 1 || d.counts.Left.Load() != 0 || !x.check.Done() {
		t.Error("it is not done, or the counts are wrong")
	}
}

// TestUnknown has a group lose its turn before its part is durable.
func TestUnknown(t *testing.T) {
	d := newNode(t, 2)
	d.keeps[1].holds = true
	r := together("0a FIXED 9/h", "1b FIXED 9/h")
	x, _ := d.ask(r)
	if x.Resume() {
		t.Fatal("it is not durable")
	}
	d.keeps[1].turn = 0
	d.keeps[1].end(errors.New("lost"))
	d.expect("a lost take", r, x, "unknown", 9, 8)
	if d.counts.GivenBack.Load() != 1 || d.counts.Left.Load() != 0 || x.check.Done() || d.returns.Len() != 1 {
		t.Error("it is not tried again, or the counts are wrong")
	}
	for _, word := range r.Keys { // its memory has other users now
		copy(word, "xxxxx")
	}
	d.returns.Again()
	d.keeps[1].turn, d.keeps[1].holds = 2, true
	d.returns.Again()
	d.keeps[1].end(errors.New("lost"))
	d.returns.Again()
	if x.check.Done() || d.returns.Len() != 0 {
		t.Error("it is done before it is durable")
	}
	d.keeps[1].end(nil)
	r = together("0a FIXED 9/h", "1b FIXED 9/h")
	if got := d.left(r); !slices.Equal(got, []int64{9, 9}) || d.counts.GivenBack.Load() != 2 || d.counts.Left.Load() != 0 || !x.check.Done() || d.returns.bytes != 0 {
		t.Errorf("%v are left; it is not done, or the counts are wrong", got)
	}
}

// TestLeft cannot give back in time, or has no room for what is to be given back.
func TestLeft(t *testing.T) {
	for _, full := range []bool{false, true} {
		d := newNode(t, 2)
		d.keeps[1].holds = true
		x, _ := d.ask(together("0a FIXED 9/h", "1b FIXED 9/h"))
		if full {
			d.returns.bytes = mostReturns - returnOver
		}
		d.clock.now += across.TTL - 1
		d.keeps[1].turn = 0
		d.keeps[1].end(errors.New("lost"))
		if x.Resume(); !full {
			if d.returns.Again(); d.counts.Left.Load() != 0 || d.returns.Len() != 1 {
				t.Error("it is not tried again")
			}
			d.clock.now++
			d.returns.Again()
			d.returns.bytes += mostReturns - returnOver
		}
		if d.counts.Left.Load() != 1 || d.counts.GivenBack.Load() != 1 || d.returns.Len() != 0 || d.returns.bytes != mostReturns-returnOver || !x.check.Done() {
			t.Errorf("full %v: it is not counted as left", full)
		}
	}
}

// TestWaitsForLeaders has groups that no node leads for some time.
func TestWaitsForLeaders(t *testing.T) {
	d := newNode(t, 2)
	d.waiting = &waiting{most: 1}
	r := together("0a FIXED 9/h", "1b FIXED 9/h")
	waits := func(what string, x *Crossing) { // as long as it may
		t.Helper()
		for _, ns := range []int64{0, 1, patience - 2} {
			d.clock.now += ns
			if d.waiting.Wake(); x.Resume() || d.waiting.Len() != 1 {
				t.Fatalf("%s: it does not wait", what)
			}
		}
	}
	late := func() {
		d.clock.now++
		d.waiting.Wake()
	}
	d.keeps[0].turn, d.keeps[1].turn = 0, 0
	x, _ := d.ask(r)
	waits("two looks", x)
	d.keeps[1].turn = 1
	d.waiting.Wake()
	if x.Resume() {
		t.Error("the other look does not wait")
	}
	late()
	d.expect("too long", r, x, "leaderless", 9, 9)

	x, woken := d.ask(r)
	y, _ := d.ask(r)
	d.expect("where too many wait", r, y, "leaderless", 9, 9)
	waits("a look", x)
	d.keeps[0].turn = 1
	if d.waiting.Wake(); *woken != 4 {
		t.Errorf("it was woken %d times", *woken)
	}
	d.expect("a look, in the end", r, x, "granted", 8, 8)

	// The second group has no leader when the first has taken.
	d.keeps[0].holds = true
	begin := func() {
		d.keeps[0].at, d.keeps[1].turn = func() { d.keeps[1].turn = 0 }, 1
		x, _ = d.ask(r)
	}
	begin()
	waits("a take", x)
	d.keeps[1].turn = 2
	d.waiting.Wake()
	if x.Resume() {
		t.Error("it is not durable")
	}
	d.keeps[0].end(nil)
	d.expect("a take, in the end", r, x, "granted", 7, 7)
	begin()
	waits("a take", x)
	late()
	d.expect("a take, too long", r, x, "unknown", 7, 7)
	d.keeps[0].end(nil)
	begin()
	waits("a take", x)
	d.keeps[0].end(errors.New("lost"))
	d.expect("a take beside one that is lost", r, x, "unknown", 7, 7)
	d.keeps[0].end(nil)
	if d.waiting.Len() != 0 || d.counts.Left.Load() != 0 || d.returns.Len() != 0 || !x.check.Done() {
		t.Error("it is not done")
	}
}

// TestLeaderless asks groups that this node does not lead, or no longer.
func TestLeaderless(t *testing.T) {
	d := newNode(t, 2)
	r := together("0a FIXED 9/h", "1b FIXED 9/h")
	d.keeps[1].turn = 0
	x, _ := d.ask(r)
	d.expect("without a turn", r, x, "leaderless", 9, 9)
	d.keeps[1].turn = 1
	d.groups[0].Follow()
	x, _ = d.ask(r)
	d.expect("while it follows", r, x, "leaderless", 9, 9)
}

// TestLooksAgainInAnotherTurn has another turn of a group begin between its look and its take: what it has seen is of a state that may be lost.
func TestLooksAgainInAnotherTurn(t *testing.T) {
	d := newNode(t, 3)
	r := together("0a FIXED 9/h", "1b FIXED 9/h", "2c FIXED 1/h")
	d.keeps[0].holds = true
	d.keeps[0].at = func() { // when the first has taken
		d.keeps[1].turn = 3
		d.take(r.Keys[1], r.Limits[1])
		d.take(r.Keys[2], r.Limits[2])
	}
	x, _ := d.ask(r)
	d.keeps[0].end(nil)
	d.expect("in another turn", r, x, "denied 2", 9, 8, 0)
	if got := r.Decisions[1].Remaining; got != 8 {
		t.Errorf("%d are left, as it says", got)
	}
}

// TestFails has a group refuse its part.
func TestFails(t *testing.T) {
	d := newNode(t, 2)
	r := together("0a FIXED 9/h", "1b FIXED 9/h", "1c LEASE x")
	d.take(r.Keys[2], r.Limits[1])
	x, _ := d.ask(r)
	if !x.Resume() || x.Result().Outcome != across.Failed || x.Result().At != 2 || x.Result().Err != engine.ErrWrongType {
		t.Errorf("%+v", x.Result())
	}
}

// TestAbandoned goes on without its caller, and gives back what another group denies.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newNode(t, 2)
		d.keeps[0].holds, d.keeps[1].holds = true, true
		r := together("0a FIXED 9/h", "1b FIXED 1/h")
		d.keeps[0].at = func() {
			d.take(r.Keys[1], r.Limits[1])
		}
		x, woken := NewSeries([]handler.Asked{{Together: r}}, d.of), 0
		x.Begin(d.ways(), func() { woken++ })
		x.Abandon()
		d.keeps[1].end(nil)
		synctest.Wait()
		if woken > 0 {
			t.Error("the caller was woken")
		}
		if got := d.left(r); !slices.Equal(got, []int64{9, 0}) {
			t.Errorf("%v are left", got)
		}
		d.keeps[0].end(nil) // the goroutine ends
	})
}

// TestEach gives back in every group.
func TestEach(t *testing.T) {
	d := newNode(t, 2)
	r := together("0a FIXED 9/h", "1b FIXED 9/h", "1c LEASE l1")
	x, _ := d.ask(r)
	d.expect("a request", r, x, "granted", 8, 8, 1)
	for _, k := range d.keeps {
		k.holds = true
	}
	each := func(want string, left ...int64) {
		x := New(r, handler.Each{How: handler.Refunds}, d.of)
		x.Begin(d.ways(), func() {})
		if x.Resume() {
			t.Fatal("it is not durable")
		}
		for _, k := range d.keeps {
			k.end(nil)
		}
		d.expect("each", r, x, want, left...)
	}
	each("granted", 9, 9, 1)
	d.take(r.Keys[1], r.Limits[1])
	d.keeps[0].turn = 0
	each("unknown", 9, 9, 1)
}

// TestSameAsInOneGroup asks for limits and leases in several groups, and in one.
func TestSameAsInOneGroup(t *testing.T) {
	d, one := newNode(t, 3), engine.New(engine.Options{Seed: 1, Shards: 2})
	r := rand.New(rand.NewPCG(1, 2))
	granted := 0
	for i := range 400 {
		var words []string
		for _, w := range []string{"0a FIXED 9/h", "0b LEASE", "1c LOG 30/h", "1d LEASE", "2e GCRA 80/m BLOCK 1m", "2f LEASE"} {
			if r.IntN(2) == 0 {
				words = append(words, strings.Replace(w, "LEASE", fmt.Sprint("LEASE id", i), 1))
			}
		}
		if len(words) < 2 || words[0][0] == words[len(words)-1][0] {
			continue
		}
		if i%7 == 0 { // room again
			for _, key := range []string{"0b", "1d", "2f", "0a"} {
				for _, e := range []*engine.Engine{one, d.of([]byte(key)).Engine.Load()} {
					if err := e.UpdateAt(0, start, [][]byte{[]byte(key)}, func(t *engine.Txn) error { _, err := t.Delete([]byte(key)); return err }); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		want, got := together(words...), together(words...)
		want.Peek, got.Peek = i%5 == 0, i%5 == 0
		at := -1
		if err := one.UpdateAt(0, start, want.Keys, func(t *engine.Txn) (err error) { at, err = t.Together(want); return err }); err != nil {
			t.Fatal(err)
		}
		x, _ := d.ask(got)
		if !x.Resume() || (at < 0) != (x.Result().Outcome == across.Granted) || at != x.Result().At || !slices.Equal(want.Decisions, got.Decisions) {
			t.Fatalf("%q: %+v\n%+v, want %d\n%+v", words, x.Result(), got.Decisions, at, want.Decisions)
		}
		if at < 0 {
			granted++
		}
	}
	if granted < 30 || granted > 300 {
		t.Error(granted)
	}
}
