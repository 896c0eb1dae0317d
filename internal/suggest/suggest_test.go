package suggest

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	names := []string{"RL.TAKE", "RL.PEEK", "PING", "CONFIG", "maxclients", "maxmemory"}
	for _, c := range []struct{ word, want string }{
		{"RL.TAEK", "RL.TAKE"}, // a swap is one change
		{"rl.tak", "RL.TAKE"},
		{"PIGN", "PING"},
		{"pin", "PING"},
		{"CONFG", "CONFIG"},
		{"maxcleints", "maxclients"},
		{"MAXMEM", ""}, // three letters are missing
		{"x", ""},
		{"", ""},
		{"completely-different", ""},
		{strings.Repeat("a", maxLen+1), ""},
	} {
		got, ok := Nearest(c.word, names, strings.Clone)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%q: %q, %v, want %q", c.word, got, ok, c.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"chekc", "check", 1},
		{"ab", "ba", 1},
		{"abcd", "badc", 2},
		{"ca", "abc", 3}, // no byte is changed twice
		{"kitten", "sitting", 3},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// plainDistance returns the definition, without a table.
func plainDistance(a, b string) int {
	switch {
	case a == "":
		return len(b)
	case b == "":
		return len(a)
	}
	x, y := a[len(a)-1], b[len(b)-1]
	cost := 1
	if x == y {
		cost = 0
	}
	d := min(plainDistance(a[:len(a)-1], b)+1, plainDistance(a, b[:len(b)-1])+1, plainDistance(a[:len(a)-1], b[:len(b)-1])+cost)
	if len(a) > 1 && len(b) > 1 && x == b[len(b)-2] && a[len(a)-2] == y {
		d = min(d, plainDistance(a[:len(a)-2], b[:len(b)-2])+1)
	}
	return d
}

func TestDistanceIsItsDefinition(t *testing.T) {
	word := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := Distance(a, b), plainDistance(a, b); got != want || got != Distance(b, a) {
			t.Fatalf("%q and %q: %d, want %d", a, b, got, want)
		}
	})
}
