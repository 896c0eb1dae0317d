package limit

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Charge answers any integers: it changes no state in place but dst, gives nothing back, and what it leaves can be read, charged once more and returned.
func TestChargeOfAnything(t *testing.T) {
	contract(t, func(t *rapid.T, a Algorithm) {
		l := drawLimit(t, a)
		if rapid.Bool().Draw(t, "any") {
			l = drawAny(t, a)
		}
		var state []byte
		now := anyInt64().Draw(t, "now")
		if l.Validate() == nil && rapid.Bool().Draw(t, "used") && l.Max <= 1000 && span(l) < 1<<60 {
			state, now = drawKey(t, l)
		}
		for range 4 {
			cost := rapid.OneOf(anyInt64(), rapid.Int64Range(0, 100), rapid.Int64Range(math.MaxInt64-100, math.MaxInt64)).Draw(t, "cost")
			before := bytes.Clone(state)
			var was, d Decision
			peeked := Peek(&l, state, now, 0, &was)
			next, err := Charge(&l, state, now, cost, nil, &d)
			if !bytes.Equal(state, before) {
				t.Fatalf("the state was changed in place from %x to %x", before, state)
			}
			room := append(make([]byte, 0, MaxState), state...)
			var again Decision
			if also, err2 := Charge(&l, room, now, cost, room, &again); !bytes.Equal(also, next) || !errors.Is(err2, err) || err == nil && again != d {
				t.Fatalf("in place: %x, %+v, %v, else %x, %+v, %v", also, again, err2, next, d, err)
			}
			if err != nil {
				if next != nil {
					t.Fatalf("%v and %x", err, next)
				}
				continue
			}
			if peeked != nil || d.Limited || d.Remaining < 0 || d.Remaining > d.Limit || d.Reset < 0 || d.Wait != Never || a != WARMUP && d.Remaining > was.Remaining {
				t.Fatalf("%d charged to %+v, %v: %+v", cost, was, peeked, d)
			}
			if next == nil {
				if cost > 0 && l.Max > 0 {
					t.Fatalf("%d charged to %x: nothing", cost, state)
				}
				continue
			}
			after, err := peek(&l, next, now, 0)
			if err != nil || after.Remaining != d.Remaining || after.Reset != d.Reset {
				t.Fatalf("%d charged to %x: %x, %+v; then %+v, %v", cost, state, next, d, after, err)
			}
			if got, err := peek(&l, next, now, 1); err == nil && d.Remaining == 0 && !got.Limited && a != QUEUE {
				t.Fatalf("%+v leaves %x, which grants", d, next)
			}
			back := now + d.Reset
			if back < now {
				t.Fatalf("%+v ends after the end of time", d)
			}
			if left, n, err := Return(&l, next, now, back, cost, nil); err != nil || n > cost {
				t.Fatalf("%d of %d returned to %x: %x, %v", n, cost, next, left, err)
			}
			state = next
			now += rapid.Int64Range(0, min(1<<40, math.MaxInt64-max(now, 0))).Draw(t, "later")
		}
	})
}
