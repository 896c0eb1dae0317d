package limit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLeaseSteps(t *testing.T) {
	type d = Decision
	var state []byte
	for i, step := range []struct {
		t      int64
		op     string // id op
		limit  int64
		ttl    int64
		weight int64
		want   Decision
		err    error
		ends   string // id:end×weight, the soonest to end first
	}{
		{t: 0, op: "a lease", limit: 2, ttl: 100, weight: 1, want: d{Limit: 2, Remaining: 1, Wait: Never, Reset: 100}, ends: "a:100×1"},
		{t: 10, op: "b lease", limit: 2, ttl: 50, weight: 1, want: d{Limit: 2, Wait: Never, Reset: 90}, ends: "b:60×1 a:100×1"},
		{t: 10, op: "c lease", limit: 2, ttl: 50, weight: 1, want: d{Limited: true, Limit: 2, Wait: 50, Reset: 90}, ends: "b:60×1 a:100×1"},
		{t: 10, op: "c lease", limit: 2, ttl: 50, weight: 2, want: d{Limited: true, Limit: 2, Wait: 90, Reset: 90}, ends: "b:60×1 a:100×1"},
		{t: 10, op: "c lease", limit: 2, ttl: 50, weight: 3, want: d{Limited: true, Limit: 2, Wait: Never, Reset: 90}, ends: "b:60×1 a:100×1"},
		// The same id renews, and does not count twice.
		{t: 20, op: "b lease", limit: 2, ttl: 100, weight: 1, want: d{Limit: 2, Wait: Never, Reset: 100}, ends: "a:100×1 b:120×1"},
		{t: 20, op: "b lease", limit: 2, ttl: 100, weight: 2, want: d{Limited: true, Limit: 2, Wait: 80, Reset: 100}, ends: "a:100×1 b:120×1"},
		{t: 20, op: "b lease", limit: 3, ttl: 100, weight: 2, want: d{Limit: 3, Wait: Never, Reset: 100}, ends: "a:100×1 b:120×2"},
		// The limit shrinks: holders keep their leases, and others wait until
		// enough have ended.
		{t: 20, op: "b lease", limit: 1, ttl: 90, weight: 2, want: d{Limit: 1, Wait: Never, Reset: 90}, ends: "a:100×1 b:110×2"},
		{t: 20, op: "b lease", limit: 1, ttl: 80, weight: 1, want: d{Limit: 1, Wait: Never, Reset: 80}, ends: "a:100×1 b:100×1"},
		{t: 20, op: "c lease", limit: 1, ttl: 90, weight: 1, want: d{Limited: true, Limit: 1, Wait: 80, Reset: 80}, ends: "a:100×1 b:100×1"},
		{t: 20, op: "c lease", limit: 0, ttl: 90, weight: 1, want: d{Limited: true, Wait: Never, Reset: 80}, ends: "a:100×1 b:100×1"},
		{t: 20, op: "a renew", ttl: 10, want: d{Limit: 1}, ends: "a:30×1 b:100×1"},
		{t: 20, op: "a lease", limit: 2, ttl: 9, weight: 2, want: d{Limited: true, Limit: 2, Wait: 80, Reset: 80}, ends: "a:30×1 b:100×1"}, // its own end is no help
		{t: 20, op: "c renew", ttl: 10, err: ErrNoLease, ends: "a:30×1 b:100×1"},
		{t: 20, op: "a renew", ttl: 0, err: ErrTTL, ends: "a:30×1 b:100×1"},
		{t: 20, op: "a renew", ttl: math.MaxInt64, err: ErrOverflow, ends: "a:30×1 b:100×1"},
		{t: 29, op: "c lease", limit: 2, ttl: 5, weight: 1, want: d{Limited: true, Limit: 2, Wait: 1, Reset: 71}, ends: "a:30×1 b:100×1"},
		{t: 30, op: "a release", err: ErrNoLease, ends: "b:100×1"}, // it is over
		{t: 30, op: "c lease", limit: 2, ttl: 5, weight: 1, want: d{Limit: 2, Wait: Never, Reset: 70}, ends: "c:35×1 b:100×1"},
		{t: 30, op: "c release", want: d{Limit: 1}, ends: "b:100×1"},
		{t: 30, op: "c release", err: ErrNoLease, ends: "b:100×1"},
		{t: 30, op: "b release", want: d{Limit: 1}, ends: ""},
		{t: 30, op: "b release", err: ErrNoLease, ends: ""},
		{t: 30, op: "c lease", limit: 2, ttl: math.MaxInt64, weight: 1, err: ErrOverflow},
		{t: 30, op: "c lease", limit: -1, ttl: 1, weight: 1, err: ErrMax},
		{t: 30, op: "c lease", limit: 1, ttl: 0, weight: 1, err: ErrTTL},
		{t: 30, op: "c lease", limit: 1, ttl: 1, weight: 0, err: ErrWeight},
		{t: 30, op: " lease", limit: 1, ttl: 1, weight: 1, err: ErrLeaseID},
		{t: -5, op: "c lease", limit: math.MaxInt64, ttl: 1, weight: math.MaxInt64, want: d{Limit: math.MaxInt64, Wait: Never, Reset: 1}, ends: "c:-4×9223372036854775807"},
		{t: -5, op: "d lease", limit: math.MaxInt64, ttl: 1, weight: 1, want: d{Limited: true, Limit: math.MaxInt64, Wait: 1, Reset: 1}, ends: "c:-4×9223372036854775807"},
	} {
		id, op, _ := bytes.Cut([]byte(step.op), []byte(" "))
		got, err := Decision{}, error(nil)
		var next []byte
		switch string(op) {
		case "lease":
			l := Lease{Limit: step.limit, TTL: step.ttl, Weight: step.weight, ID: id}
			before := bytes.Clone(state)
			var peeked Decision
			peekErr := PeekLease(&l, state, step.t, &peeked)
			next, err = TakeLease(&l, state, step.t, nil, &got)
			if peeked != got || !errors.Is(peekErr, err) && peekErr != err || !bytes.Equal(before, state) {
				t.Errorf("step %d: a peek says %+v, %v; the take %+v, %v", i, peeked, peekErr, got, err)
			}
		case "renew":
			next, got.Limit, err = RenewLease(id, step.ttl, state, step.t, nil)
		case "release":
			next, got.Limit, err = ReleaseLease(id, state, step.t, nil)
		}
		if got != step.want || !errors.Is(err, step.err) {
			t.Errorf("step %d at %d, %s = %+v, %v; want %+v, %v", i, step.t, step.op, got, err, step.want, step.err)
		}
		if next != nil {
			state = next
		}
		if text := leaseText(state, step.t); text != step.ends {
			t.Errorf("step %d at %d, %s leaves %q, want %q", i, step.t, step.op, text, step.ends)
		}
		if held := Expires(LEASE, state) > step.t; held != (step.ends != "") {
			t.Errorf("step %d: expires at %d", i, Expires(LEASE, state))
		}
	}
}

func leaseText(state []byte, now int64) string {
	var words []string
	for h := range Holders(state, now) {
		words = append(words, fmt.Sprintf("%s:%d×%d", h.ID, h.End, h.Weight))
	}
	return strings.Join(words, " ")
}

// leaseModel is the leases of one key in plain slow Go.
type leaseModel map[string]Holder

func (m leaseModel) clean(now int64) {
	maps.DeleteFunc(m, func(_ string, h Holder) bool { return h.End <= now })
}

// sorted returns the leases, the soonest to end first.
func (m leaseModel) sorted() []Holder {
	return slices.SortedFunc(maps.Values(m), func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.End, b.End), bytes.Compare(a.ID, b.ID))
	})
}

func (m leaseModel) held(but string) (sum int64) {
	for id, h := range m {
		if id != but {
			sum += h.Weight
		}
	}
	return sum
}

func (m leaseModel) take(l Lease, now int64) Decision {
	m.clean(now)
	id := string(l.ID)
	d := Decision{Limit: l.Limit, Wait: Never}
	if l.Weight <= m[id].Weight || l.Weight+m.held(id) <= l.Limit {
		m[id] = Holder{ID: l.ID, Weight: l.Weight, End: now + l.TTL}
	} else {
		d.Limited = true
		d.Wait = m.wait(l, now)
	}
	d.Remaining = max(0, l.Limit-m.held(""))
	for _, h := range m {
		d.Reset = max(d.Reset, h.End-now)
	}
	return d
}

// wait tries the end of each lease, one after the other.
func (m leaseModel) wait(l Lease, now int64) int64 {
	later := maps.Clone(m)
	for _, h := range m.sorted() {
		later.clean(h.End)
		if l.Weight+later.held(string(l.ID)) <= l.Limit {
			return h.End - now
		}
	}
	return Never
}

// leaseTwin runs each step on a state and on the model.
type leaseTwin struct {
	state []byte
	model leaseModel
	inDst bool // the next state is written over the one before
}

func (tw *leaseTwin) dst() []byte {
	if tw.inDst {
		return tw.state[:0]
	}
	return nil
}

func (tw *leaseTwin) keep(next []byte) {
	if next != nil {
		tw.state = next
	}
}

func (tw *leaseTwin) take(l Lease, now int64) error {
	before := bytes.Clone(tw.state)
	var peeked, got Decision
	if err := PeekLease(&l, tw.state, now, &peeked); err != nil || !bytes.Equal(before, tw.state) {
		return fmt.Errorf("peek: %v, the state is %x, was %x", err, tw.state, before)
	}
	next, err := TakeLease(&l, tw.state, now, tw.dst(), &got)
	want := tw.model.take(l, now)
	if err != nil || got != want || peeked != want {
		return fmt.Errorf("%+v at %d = %+v, %v, peeked %+v; want %+v", l, now, got, err, peeked, want)
	}
	if got.Limited && (next != nil || !bytes.Equal(before, tw.state)) {
		return fmt.Errorf("a denial changes %x to %x, %x", before, tw.state, next)
	}
	tw.keep(next)
	if got.Limited && got.Wait != Never {
		var then, sooner Decision
		err1, err2 := PeekLease(&l, tw.state, now+got.Wait, &then), PeekLease(&l, tw.state, now+got.Wait-1, &sooner)
		if err1 != nil || err2 != nil || then.Limited || !sooner.Limited {
			return fmt.Errorf("%+v at %d: %+v, but then %+v, %v, and sooner %+v, %v", l, now, got, then, err1, sooner, err2)
		}
	}
	return tw.compare(now)
}

func (tw *leaseTwin) renewOrRelease(id []byte, ttl, now int64) error {
	tw.model.clean(now)
	want, held := tw.model[string(id)]
	var next []byte
	var got int64
	var err error
	if ttl > 0 {
		next, got, err = RenewLease(id, ttl, tw.state, now, tw.dst())
		if held {
			tw.model[string(id)] = Holder{ID: id, Weight: want.Weight, End: now + ttl}
		}
	} else {
		next, got, err = ReleaseLease(id, tw.state, now, tw.dst())
		delete(tw.model, string(id))
	}
	if held == errors.Is(err, ErrNoLease) || got != want.Weight {
		return fmt.Errorf("of %s at %d, ttl %d: %d, %v; want %+v", id, now, ttl, got, err, want)
	}
	tw.keep(next)
	return tw.compare(now)
}

// bringForward has the whole state expire sooner, as a restart may do.
func (tw *leaseTwin) bringForward(by, now int64) error {
	tw.model.clean(now)
	if len(tw.model) == 0 || Expires(LEASE, tw.state)-by <= now {
		return nil
	}
	to := Expires(LEASE, tw.state) - by
	binary.LittleEndian.PutUint64(tw.state, uint64(to))
	for id, h := range tw.model {
		h.End = min(h.End, to)
		tw.model[id] = h
	}
	return tw.compare(now)
}

func (tw *leaseTwin) compare(now int64) error {
	got := slices.SortedFunc(Holders(tw.state, now), func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.End, b.End), bytes.Compare(a.ID, b.ID))
	})
	want := tw.model.sorted()
	if !slices.EqualFunc(got, want, func(a, b Holder) bool {
		return string(a.ID) == string(b.ID) && a.Weight == b.Weight && a.End == b.End
	}) {
		return fmt.Errorf("at %d there are %v, want %v", now, got, want)
	}
	if at := Expires(LEASE, tw.state); (at > now) != (len(want) > 0) || at > now && at != want[len(want)-1].End {
		return fmt.Errorf("at %d it expires at %d, with %v", now, at, want)
	}
	return nil
}

// step makes one step out of four small numbers.
func (tw *leaseTwin) step(op, id byte, a, b int64, now int64) error {
	name := bytes.Repeat([]byte{'a' + id%8}, 1+int(id%8)*30)
	switch op % 4 {
	case 0, 1:
		scale := 1 + a%2*60 // weights of one and two bytes
		return tw.take(Lease{Limit: scale * (a % 20), TTL: 1 + b%50, Weight: scale * (1 + b%7), ID: name}, now)
	case 2:
		if b%5 == 0 {
			return tw.bringForward(a%20, now)
		}
		return tw.renewOrRelease(name, 1+b%50, now)
	}
	return tw.renewOrRelease(name, 0, now)
}

func TestLeaseModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tw := leaseTwin{model: leaseModel{}, inDst: rapid.Bool().Draw(t, "in place")}
		now := int64(1000)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now += rapid.Int64Range(0, 30).Draw(t, "dt") / 3
			if err := tw.step(rapid.Byte().Draw(t, "op"), rapid.Byte().Draw(t, "id"),
				rapid.Int64Range(0, 1000).Draw(t, "a"), rapid.Int64Range(0, 1000).Draw(t, "b"), now); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzLease checks that a state of any bytes gives an error or a state that the
// next steps can work on. It also runs steps beside the model.
func FuzzLease(f *testing.F) {
	var d Decision
	state, err := TakeLease(&Lease{Limit: 3, TTL: 100, Weight: 2, ID: []byte("first")}, nil, 1, nil, &d)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(state), []byte("\x00\x01\x05\x09\x02\x03\x01\x01"), int64(50))
	f.Add([]byte(nil), []byte("\x00\x01\x05\x09\x00\x02\x05\x09\x02\x01\x00\x00\x03\x01\x00\x00"), int64(0))
	f.Add(state[:len(state)-1], []byte("\x00\x01\x05\x09"), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, state, steps []byte, now int64) {
		checkLeaseState(t, state, now)
		tw := leaseTwin{model: leaseModel{}, inDst: now&1 == 1}
		clock := int64(0)
		for ; len(steps) >= 4; steps = steps[4:] {
			clock += int64(steps[3] >> 5)
			if err := tw.step(steps[0], steps[1], int64(steps[2]), int64(steps[3]), clock); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// checkLeaseState works on bytes that may be no state.
func checkLeaseState(t *testing.T, state []byte, now int64) {
	before := bytes.Clone(state)
	n := 0
	for h := range Holders(state, now) {
		if n++; h.End <= now || h.Weight < 1 || len(h.ID) == 0 {
			t.Fatalf("%x at %d holds %+v", state, now, h)
		}
	}
	l := Lease{Limit: math.MaxInt64, TTL: 1, Weight: 1, ID: []byte("x")}
	var d Decision
	next, err := TakeLease(&l, state, now, nil, &d)
	if !bytes.Equal(before, state) {
		t.Fatalf("%x became %x", before, state)
	}
	if err != nil || d.Limited {
		return
	}
	if Expires(LEASE, next) < now+1 {
		t.Fatalf("%x at %d became %x, which expires at %d", state, now, next, Expires(LEASE, next))
	}
	next, weight, err := ReleaseLease(l.ID, next, now, next[:0])
	if err != nil || weight != 1 {
		t.Fatalf("%x at %d: released %d, %v", state, now, weight, err)
	}
	if left := len(slices.Collect(Holders(next, now))); left != n && left != n-1 {
		t.Fatalf("%d leases of %d are left", left, n)
	}
}

func TestDamagedLeases(t *testing.T) {
	entry := func(end int64, rest ...byte) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, uint64(end)), rest...)
	}
	head := entry(100)
	good := append(bytes.Clone(head), entry(100, 1, 1, 'a')...)
	tests := map[string][]byte{
		"short":                 head[:7],
		"no leases":             head,
		"a lease cut":           good[:len(good)-1],
		"no id":                 append(bytes.Clone(head), entry(100, 1, 0)...),
		"weight 0":              append(bytes.Clone(head), entry(100, 0, 1, 'a')...),
		"weight above int64":    append(bytes.Clone(head), entry(100, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 'a')...),
		"a later end":           append(entry(101), good[8:]...),
		"the latest end first":  slices.Concat(head, entry(101, 1, 1, 'a'), entry(100, 1, 1, 'b')),
		"a weight beyond int64": slices.Concat(head, entry(100, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 'b'), entry(100, 1, 1, 'c')),
	}
	for name, state := range tests {
		l := Lease{Limit: 5, TTL: 1, Weight: 1, ID: []byte("x")}
		var d Decision
		next, err := TakeLease(&l, state, 50, nil, &d)
		_, _, err2 := RenewLease([]byte("a"), 5, state, 50, nil)
		_, _, err3 := ReleaseLease([]byte("a"), state, 50, nil)
		if next != nil || err != ErrState || err2 != ErrState || err3 != ErrState || d != (Decision{}) {
			t.Errorf("%s: %x, %+v, %v, %v, %v", name, next, d, err, err2, err3)
		}
	}
	if _, _, err := ReleaseLease([]byte("a"), good, 50, nil); err != nil {
		t.Errorf("a good state: %v", err)
	}
	if _, err := TakeLease(&Lease{Limit: 1, TTL: 1, Weight: 1, ID: []byte("x")}, good, math.MinInt64, nil, new(Decision)); err != ErrOverflow {
		t.Errorf("a wait that does not fit: %v", err)
	}
}

//test:norace
func TestMaxHolders(t *testing.T) {
	var state []byte
	var d Decision
	for i := range MaxHolders + 1 {
		l := Lease{Limit: math.MaxInt64, TTL: 1000, Weight: 1, ID: strconv.AppendInt(nil, int64(i), 10)}
		next, err := TakeLease(&l, state, 0, state[:0], &d)
		if i == MaxHolders {
			if !errors.Is(err, ErrHolders) || next != nil {
				t.Errorf("lease %d: %v", i, err)
			}
			break
		}
		if err != nil || d.Limited {
			t.Fatalf("lease %d: %+v, %v", i, d, err)
		}
		state = next
	}
	// A holder may renew.
	if _, err := TakeLease(&Lease{Limit: math.MaxInt64, TTL: 5, Weight: 2, ID: []byte("7")}, state, 0, nil, &d); err != nil || d.Limited {
		t.Errorf("the renewal: %+v, %v", d, err)
	}
}

// LEASE is a kind of state, but not an algorithm.
func TestLeaseIsNoAlgorithm(t *testing.T) {
	if _, ok := Lookup([]byte("lease")); ok || Algorithm(LEASE).Valid() {
		t.Error("LEASE is an algorithm of limits")
	}
	l := plain(Algorithm(LEASE), 1, 1, 1)
	if _, _, err := take(&l, nil, 0, 1, nil); !errors.Is(err, ErrAlgorithm) || !errors.Is(l.Validate(), ErrAlgorithm) {
		t.Errorf("taking with it: %v, %v", err, l.Validate())
	}
	if _, err := Parse("LEASE 5/s"); !errors.Is(err, ErrAlgorithm) {
		t.Errorf("it parses: %v", err)
	}
}

// The longest ID is MaxLeaseID bytes.
func TestLongestLeaseID(t *testing.T) {
	for n, want := range map[int]error{0: ErrLeaseID, 1: nil, MaxLeaseID: nil, MaxLeaseID + 1: ErrLeaseID} {
		l := Lease{Limit: 1, TTL: 1, Weight: 1, ID: make([]byte, n)}
		if err := l.Validate(); err != want {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
	}
}
