package group

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// Replies that have waited are told in their order, those that are lost one span at a time, and all others in as few parts as there can be: each may be
// a write to a socket.
func TestEachTellsInFewParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &Awaited{under: Shares{Tells: make([]Share, 3)}, lost: make([]atomic.Bool, 3)}
		any := false
		for i := range a.lost {
			is := rapid.IntRange(0, 3).Draw(t, "lost") == 0
			a.lost[i].Store(is)
			any = any || is
		}
		var b []byte
		var want []string // each part, with a sign before it
		add := func(lost bool, part string) {
			switch n := len(want) - 1; {
			case lost:
				want = append(want, "-"+part)
			case n >= 0 && want[n][0] == '+':
				want[n] += part
			default:
				want = append(want, "+"+part)
			}
			b = append(b, part...)
		}
		for range rapid.IntRange(0, 12).Draw(t, "spans") {
			of := rapid.IntRange(ofAll, 2).Draw(t, "of")
			add(of == ofAll && any || of >= 0 && a.lost[of].Load(), strings.Repeat(string(rune('a'+len(b)%26)), rapid.IntRange(1, 5).Draw(t, "length")))
			a.under.spans = append(a.under.spans, span{len(b), of})
		}
		if rapid.Bool().Draw(t, "a rest") {
			add(false, "rest")
		}
		var got []string
		a.Each(b, func(part []byte) { got = append(got, "+"+string(part)) }, func(part []byte) { got = append(got, "-"+string(part)) })
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}
