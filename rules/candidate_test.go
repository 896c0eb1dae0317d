package rules

import (
	"errors"
	"testing"
)

func TestTry(t *testing.T) {
	for _, test := range []struct {
		now, next, want string
		err             error
	}{
		{"name: a\nlimit: 1/m\n", "name: a\nlimit: 2/m\n", "name: a\nlimit: 1/m\ncandidate: 2/m\n", nil},
		{"{name: a, limit: 1/m}", "limit: 2/m # more\nname: a\n", "{name: a, limit: 1/m, candidate: 2/m, # more\n}\n", nil},
		{"name: a\nlimit: 1/m\ncandidate: 3/m\nkey: [u]\n", "name: a\nlimit: 2/m\nkey: [u]\n", "name: a\nlimit: 1/m\ncandidate: 2/m\nkey: [u]\n", nil},
		{"name: a\nlimit: 1/m\n", "name: a\nlimit: 1/m\n", "", ErrTry},
		{"name: a\nlimit: 1/m\n", "name: a\nlimit: 2/m\nmode: shadow\n", "", ErrTry},
		{"name: a\nlimit: 1/m\nkey: [u]\n", "name: a\nlimit: 2/m\n", "", ErrTry},
		{"name: a\nunlimited: true\n", "name: a\nlimit: 2/m\n", "", ErrTry},
		{"name: a\nplan: {field: p, limit: x, default: y}\n", "name: a\nlimit: 2/m\n", "", ErrTry},
	} {
		got, err := Try([]byte(test.now), []byte(test.next))
		if string(got) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q to %q: %q, %v", test.now, test.next, got, err)
		}
	}
	for _, bad := range []string{"", "[", "- a", "a", "&a [*a]"} {
		if _, err := Try([]byte(bad), []byte("limit: 1/m")); err == nil {
			t.Errorf("%q is a rule", bad)
		}
		if _, err := Try([]byte("limit: 1/m"), []byte(bad)); err == nil {
			t.Errorf("%q is a rule", bad)
		}
	}
}

func TestSettle(t *testing.T) {
	const rule = "name: a\nlimit: 1/m\ncandidate: 2/m\nkey: [u]\n"
	for adopt, want := range map[bool]string{true: "name: a\nlimit: 2/m\nkey: [u]\n", false: "name: a\nlimit: 1/m\nkey: [u]\n"} {
		if got, err := Settle([]byte(rule), adopt); string(got) != want || err != nil {
			t.Errorf("%v: %q, %v", adopt, got, err)
		}
	}
	if _, err := Settle([]byte("name: a\nlimit: 1/m\n"), true); !errors.Is(err, ErrNoCandidate) {
		t.Error(err)
	}
}
