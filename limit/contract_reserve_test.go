package limit

import (
	"bytes"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Reserve agrees with the model for any int64.
func TestContractReserveModel(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		tw := twin{model: models()[a]()}
		anything := anyInt64()
		l, now := drawLimit(t, a), int64(1_700_000_000_000_000_000)
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			now += rapid.Int64Range(-span(l)/8, span(l)/4).Draw(t, "later")
			cost := rapid.Int64Range(0, 2*most(t, l)+1).Draw(t, "cost")
			maxWait := rapid.Int64Range(-1, 2*span(l)).Draw(t, "max wait")
			var err error
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				err = tw.reserve(drawAny(t, a), anything.Draw(t, "now"), anything.Draw(t, "cost"), anything.Draw(t, "max wait"))
			case 1:
				err = tw.step(l, now, cost, true)
			case 2, 3:
				err = tw.step(l, now, cost, false)
			default:
				err = tw.reserve(l, now, cost, maxWait)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// reservable runs a property for each algorithm that can be reserved.
func reservable(t *testing.T, property func(t *rapid.T, l Limit)) {
	t.Helper()
	for _, a := range Algorithms() {
		if _, can := models()[a]().(reserver); can {
			t.Run(a.String(), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { property(t, drawLimit(t, a)) })
			})
		}
	}
}

// drawDebts draws the state of a key that has been reserved for a while.
func drawDebts(t *rapid.T, l Limit) (state []byte, now int64) {
	state, now = drawKey(t, l)
	for range rapid.IntRange(0, 5).Draw(t, "debts") {
		now += rapid.Int64Range(-span(l)/8, span(l)/2).Draw(t, "later")
		state, _ = mustReserve(t, l, state, now, rapid.Int64Range(0, 2*most(t, l)).Draw(t, "cost"), -1)
	}
	return state, now
}

// mustReserve is Reserve with the state to keep.
func mustReserve(t *rapid.T, l Limit, state []byte, now, cost, maxWait int64) ([]byte, Decision) {
	t.Helper()
	next, d, err := reserve(&l, state, now, cost, maxWait, nil)
	if err != nil {
		t.Fatalf("%v at %d, cost %d within %d: %v", l, now, cost, maxWait, err)
	}
	if changes := !d.Limited && cost > 0; changes != (next != nil) {
		t.Fatalf("%+v: next state %x", d, next)
	}
	if next == nil {
		next = state
	}
	return next, d
}

// keepReserve is mustReserve of a key whose limit may have changed.
func keepReserve(t *rapid.T, l Limit, state []byte, now, cost, maxWait int64) ([]byte, Decision) {
	t.Helper()
	next, d, err := reserve(&l, state, now, cost, maxWait, nil)
	if err != nil {
		t.Fatalf("%v at %d, cost %d within %d: %v", l, now, cost, maxWait, err)
	}
	if next == nil {
		next = state
	}
	return next, d
}

// A denied reservation changes nothing, and is granted after Wait and not 1 ns
// before. A granted one waits no longer than it may.
func TestContractReserveWait(t *testing.T) {
	reservable(t, func(t *rapid.T, l Limit) {
		state, now := drawDebts(t, l)
		before, dst := bytes.Clone(state), []byte("12345678")
		cost := rapid.Int64Range(0, 2*most(t, l)).Draw(t, "cost")
		maxWait := rapid.Int64Range(0, 2*span(l)).Draw(t, "max wait")
		next, d, err := reserve(&l, state, now, cost, maxWait, dst)
		if err != nil {
			t.Fatal(err)
		}
		if next == nil && (!bytes.Equal(state, before) || string(dst) != "12345678") {
			t.Fatalf("%+v: changed %x to %x and dst to %q", d, before, state, dst)
		}
		switch {
		case d.Wait == 0 || d.Wait < Never:
			t.Fatalf("%+v", d)
		case !d.Limited && d.Wait > maxWait:
			t.Fatalf("%+v, within %d", d, maxWait)
		case d.Limited && next != nil:
			t.Fatalf("%+v leaves %x", d, next)
		case !d.Limited || d.Wait == Never:
			return
		}
		_, then := mustReserve(t, l, state, now+d.Wait, cost, maxWait)
		// In a queue, it may have been the room that was waited for.
		if exact := max(0, then.Wait) == maxWait; then.Limited || !exact && l.Algorithm != QUEUE || then.Wait > maxWait {
			t.Fatalf("%+v within %d, and then %+v", d, maxWait, then)
		}
		if _, then := mustReserve(t, l, state, now+d.Wait-1, cost, maxWait); !then.Limited || then.Wait != 1 {
			t.Fatalf("%+v within %d, and 1 ns before %+v", d, maxWait, then)
		}
		if _, any := mustReserve(t, l, state, now, cost, -1); !any.Limited && any.Wait != d.Wait+maxWait {
			t.Fatalf("%+v within %d, and without bound %+v", d, maxWait, any)
		}
	})
}

// In any time t, apart from the last request, no more goes ahead than Take promises
// for t, reserved or taken. A request never overtakes one before it.
func TestContractReservePromise(t *testing.T) {
	reservable(t, func(t *rapid.T, l Limit) {
		type departure struct{ at, cost int64 }
		var log []departure
		var state []byte
		now := int64(1_700_000_000_000_000_000)
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now += rapid.Int64Range(0, span(l)/4).Draw(t, "later")
			cost := rapid.Int64Range(1, 2*most(t, l)+1).Draw(t, "cost")
			var d Decision
			if rapid.IntRange(0, 3).Draw(t, "take") == 0 {
				next, taken, err := take(&l, state, now, cost, nil)
				if err != nil {
					t.Fatal(err)
				}
				if next != nil {
					state = next
				}
				d = taken
			} else {
				state, d = mustReserve(t, l, state, now, cost, rapid.Int64Range(-1, 2*span(l)).Draw(t, "max wait"))
			}
			if !d.Limited {
				log = append(log, departure{now + max(0, d.Wait), cost})
			}
		}
		for i, first := range log {
			sum := int64(0)
			for j, dep := range log[i:] {
				if j > 0 && dep.at < log[i+j-1].at {
					t.Fatalf("%v: %+v goes before %+v", l, dep, log[i+j-1])
				}
				if most := promised(l, dep.at-first.at); big.NewInt(sum).Cmp(most) > 0 {
					t.Fatalf("%v: %d before the last in %d ns, promised are %v", l, sum, dep.at-first.at, most)
				}
				sum += dep.cost
			}
		}
	})
}

// While there are debts, Remaining is 0. Take is denied until the debts and its
// cost are paid.
func TestContractReserveDebt(t *testing.T) {
	reservable(t, func(t *rapid.T, l Limit) {
		state, now := drawDebts(t, l)
		_, d := mustReserve(t, l, state, now, 0, -1)
		if d.Limited || d.Wait == Never || l.Algorithm == QUEUE { // who waits in a queue owes nothing
			return
		}
		if d.Remaining != 0 {
			t.Fatalf("%+v", d)
		}
		told := mustPeek(t, l, state, now, 1)
		if !told.Limited || told.Remaining != 0 || told.Wait != Never && told.Wait < d.Wait {
			t.Fatalf("in debt for %+v, one more is %+v", d, told)
		}
		checkWait(t, l, state, now, 1)
	})
}
