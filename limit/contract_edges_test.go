package limit

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// Any int64 gets the answer or the error of the model.
func TestContractExtremes(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		tw := twin{model: models()[a]()}
		anything := anyInt64()
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			l := drawAny(t, a)
			if rapid.Bool().Draw(t, "usual") {
				l = drawLimit(t, a)
			}
			now, cost := anything.Draw(t, "now"), anything.Draw(t, "cost")
			if err := tw.step(l, now, cost, rapid.Bool().Draw(t, "refund")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// dst may be the state itself, and a next state that fits is written there. A state of
// fixed size, and the first state of any key, fit in MaxState. If dst is too small, it
// stays as it is.
func TestContractInPlace(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		state, now := drawKey(t, l)
		cost := rapid.Int64Range(0, most(t, l)).Draw(t, "cost")
		for _, call := range []func(*Limit, []byte, int64, int64, []byte) ([]byte, Decision, error){take, refund} {
			want, wantD, wantErr := call(&l, state, now, cost, nil)
			room := append(make([]byte, 0, MaxState), state...)
			next, d, err := call(&l, room, now, cost, room)
			if !bytes.Equal(next, want) || d != wantD || !errors.Is(err, wantErr) {
				t.Fatalf("in place: %x, %+v, %v, else %x, %+v, %v", next, d, err, want, wantD, wantErr)
			}
			if next != nil && len(next) <= cap(room) && &next[0] != &room[:1][0] {
				t.Fatalf("a state of %d bytes has moved", len(next))
			}
			if grows := a == SEGMENTED || a == LOG; len(next) > MaxState && (state == nil || !grows) {
				t.Fatalf("a state of %d bytes", len(next))
			}
			tight := append(make([]byte, 0, len(state)), state...)
			next, _, _ = call(&l, tight, now, cost, tight)
			if len(next) > len(tight) && !bytes.Equal(tight, state) {
				t.Fatalf("a state that has moved was %x and is %x", state, tight)
			}
		}
	})
}

// All functions know every algorithm, and no function knows a number without one.
func TestContractComplete(t *testing.T) {
	for a := range Algorithm(255) {
		l := plain(a, 1, 1, 1)
		if a.Valid() {
			l = sample(t, a)
		}
		_, _, takeErr := take(&l, nil, 0, 1, nil)
		_, peekErr := peek(&l, nil, 0, 1)
		_, _, refundErr := refund(&l, nil, 0, 1, nil)
		_, _, reserveErr := reserve(&l, nil, 0, 1, 0, nil)
		if errors.Is(reserveErr, ErrReserve) {
			reserveErr = nil
		}
		for _, err := range []error{takeErr, peekErr, refundErr, reserveErr, l.Validate()} {
			if a.Valid() != (err == nil) || !a.Valid() && !errors.Is(err, ErrAlgorithm) {
				t.Errorf("%v: %v", a, err)
			}
		}
		if a.Valid() && models()[a] == nil {
			t.Errorf("%v has no model", a)
		}
	}
}

// The hot path allocates nothing, with everything on the caller's stack.
func TestContractAllocatesNothing(t *testing.T) {
	for _, a := range Algorithms() {
		given := sample(t, a)
		if n := testing.AllocsPerRun(100, func() {
			l := given
			var buf [MaxState]byte
			state, d, err := take(&l, nil, 1, 1, buf[:])
			if err != nil || d.Limited {
				t.Fatal("not taken")
			}
			if d, err := peek(&l, state, 1, 100); err != nil || !d.Limited {
				t.Fatal("not limited")
			}
			state, d, err = refund(&l, state, 1, 1, state)
			if err != nil || d.Remaining != 10 {
				t.Fatal("not refunded")
			}
			if _, _, err := take(&l, state, 1, -1, nil); err == nil {
				t.Fatal("no error")
			}
			if Expires(a.Kind(), state) > 1 {
				t.Fatal("not full")
			}
			if _, _, err := reserve(&l, state, 1, 1, 0, state); err != nil && err != ErrReserve {
				t.Fatal("not reserved")
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", a, n)
		}
	}
}
