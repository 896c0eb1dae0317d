package group

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/journal"
)

// Each who waits is told once, in order, and not before the drain that it waits for.
func TestWaiters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Waiters
		begun, kept := uint64(0), uint64(0)
		var waiting, told []uint64
		tell := func(some Told) {
			before := len(told)
			some.Tell(nil)
			if got := told[before:]; !slices.Equal(got, waiting[:len(got)]) {
				t.Fatalf("%v are told of %v", got, waiting)
			}
			waiting = waiting[len(told)-before:]
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				at := begun + rapid.Uint64Range(0, 1).Draw(t, "dirty")
				w.Add(at, func(error) { told = append(told, at) })
				waiting = append(waiting, at)
				if w.Kicked() || w.Last() != at {
					t.Fatalf("it is known before the kick, or waits for %d", w.Last())
				}
			},
			"kick": func(t *rapid.T) {
				if known := w.Kicked(); w.Kick() == known || !w.Kicked() || w.Kick() {
					t.Fatal("a kick tells of those who are new, once")
				}
			},
			"drain": func(*rapid.T) { begun++ },
			"keep": func(t *rapid.T) {
				kept = rapid.Uint64Range(kept, begun).Draw(t, "up to")
				tell(w.Until(kept))
				if len(waiting) > 0 && waiting[0] <= kept {
					t.Fatalf("%d is kept, and %v wait", kept, waiting)
				}
			},
			"all": func(t *rapid.T) {
				tell(w.All())
				if len(waiting) > 0 || w.Last() != 0 {
					t.Fatalf("%v still wait", waiting)
				}
			},
			"": func(t *rapid.T) {
				if w.Len() != len(waiting) {
					t.Fatalf("%d wait of %d", w.Len(), len(waiting))
				}
			},
		})
	})
}

// A drain is cut behind a closed gate, and passed on in pieces, up to an error.
func TestDrain(t *testing.T) {
	var d Drain
	cut := false
	d.Cut(func() { cut = d.Gate.Closed() })
	if !cut || d.Gate.Closed() {
		t.Error("the gate is open during a cut, or closed after it")
	}
	full := errors.New("full")
	for _, fails := range []int{0, 1, 2, 3} {
		pieces, passed := 3, 0
		err := d.Each(10, func(dst *journal.Buffer) (bool, error) {
			if len(dst.Bytes) != 10 || dst.Records != 0 {
				t.Errorf("piece %d begins with %d bytes", 3-pieces, len(dst.Bytes))
			}
			dst.Set(1, 1, []byte("k"), make([]byte, 2*keepBuffer))
			pieces--
			return pieces > 0, nil
		}, func(piece *journal.Buffer, more bool) error {
			if passed++; passed == fails {
				return full
			}
			if piece.Records != 1 || more != (passed < 3) {
				t.Errorf("piece %d has %d records; more: %v", passed, piece.Records, more)
			}
			return nil
		})
		if (fails > 0) != errors.Is(err, full) || fails > 0 && passed != fails || fails == 0 && passed != 3 {
			t.Errorf("failing at %d: %d pieces, %v", fails, passed, err)
		}
		if cap(d.buf.Bytes) > keepBuffer {
			t.Errorf("%d bytes are kept", cap(d.buf.Bytes))
		}
	}
}
