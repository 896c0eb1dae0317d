package group

import (
	"maps"
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
		a.loses.Store(any)
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

// What is noted of the bytes of replies is what was said of each, whatever the groups' numbers, and also after shares have been taken apart and put together.
func TestSharesModel(t *testing.T) {
	var groups []*Group
	for _, number := range []int{0, 1, 2, 63, 64, 65} { // some have one index
		groups = append(groups, &Group{Number: number})
	}
	// A model has, for each byte of replies, the group whose state it reveals, -1 for none and -2 for all that are told of.
	type model struct {
		bytes []int
		turns map[*Group]uint64
	}
	tell := func(m *model, g *Group, turn uint64) {
		if old, ok := m.turns[g]; ok && old != turn {
			turn = 0
		}
		m.turns[g] = turn
	}
	check := func(t *rapid.T, sh *Shares, m *model) {
		told := map[*Group]uint64{}
		for _, s := range sh.Tells {
			told[s.Group] = s.Turn
		}
		if len(told) != len(sh.Tells) || !maps.Equal(told, m.turns) {
			t.Fatalf("%v tell, want %v", sh.Tells, m.turns)
		}
		at := 0
		for i, of := range m.bytes {
			for at < len(sh.spans) && sh.spans[at].end <= i {
				at++
			}
			got := -1
			if at < len(sh.spans) {
				if got = sh.spans[at].of; got >= 0 {
					got = slices.Index(groups, sh.Tells[got].Group)
				}
			}
			if got != of {
				t.Fatalf("byte %d of %v is of %d: %v", i, m.bytes, got, sh.spans)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var shares, rest Shares
		new := func() *model { return &model{turns: map[*Group]uint64{}} }
		m, behind := new(), new()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			from := len(m.bytes)
			to := from + rapid.IntRange(0, 3).Draw(t, "length")
			add := func(of int) {
				for len(m.bytes) < to {
					m.bytes = append(m.bytes, of)
				}
			}
			switch op := rapid.IntRange(0, 20).Draw(t, "step"); op {
			case 0: // a reply of no group
				add(-1)
			case 1:
				to = max(to, from+1)
				for i := range rapid.IntRange(0, 2).Draw(t, "groups") {
					shares.Tell(groups[i], 1)
					tell(m, groups[i], 1)
				}
				if shares.NoteAll(from, to); len(m.turns) > 0 {
					add(-2)
				} else {
					add(-1)
				}
			case 2:
				shares.Reset()
				m = new()
			case 3:
				shares.swap(&rest)
				m, behind = behind, m
			case 4: // the replies of rest are behind
				rest.Add(len(behind.bytes), &shares)
				behind.bytes = append(behind.bytes, m.bytes...)
				for g, turn := range m.turns {
					tell(behind, g, turn)
				}
				shares.Reset()
				m = new()
			case 5:
				n := shares.Quiet()
				for i, of := range m.bytes[:n] {
					if of != -1 {
						t.Fatalf("byte %d is quiet", i)
					}
				}
				if n == 0 && len(shares.spans) > 0 && m.bytes[0] == -1 {
					t.Fatal("the first is not quiet")
				}
				m.bytes = m.bytes[n:]
			default:
				i, turn := rapid.IntRange(0, len(groups)-1).Draw(t, "group"), uint64(1+op/20)
				shares.Note(groups[i], turn, from, to)
				if add(i); to > from {
					tell(m, groups[i], turn)
				}
			}
			check(t, &shares, m)
			check(t, &rest, behind)
		}
	})
}
