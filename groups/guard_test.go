package groups

import (
	"errors"
	"testing"
)

func TestRemovable(t *testing.T) {
	d := cluster(t, 3, "a b c d e", "a b c", "a b c", "c d e")
	for what, c := range map[string]struct {
		id     string
		silent string
		voters string // of group 1; those of the others are their places
		want   error
	}{
		"nobody":                               {"x", "", "a b c", ErrNode},
		"all answer":                           {"a", "", "a b c", nil},
		"it does not answer":                   {"a", "a", "a b c", nil},
		"another does not":                     {"a", "b", "a b c", ErrNeeded},
		"another does not, elsewhere":          {"d", "b", "a b c", nil},
		"two others do not":                    {"d", "c e", "a b c", ErrNeeded},
		"four vote while one moves":            {"a", "", "a b c d", nil},
		"of four, one does not answer":         {"a", "b", "a b c d", ErrNeeded},
		"it votes no more":                     {"a", "", "b c d", nil},
		"two vote":                             {"a", "", "a b", ErrNeeded},
		"it is alone":                          {"d", "", "d", ErrNeeded},
		"nobody knows, and it may":             {"a", "", "", ErrLeaderless},
		"nobody knows, and it may not":         {"e", "", "", nil},
		"one that votes has been removed":      {"a", "", "a b x", ErrNeeded},
		"one that votes has been removed, one": {"d", "", "a b d x", ErrNeeded},
	} {
		r, err := Removable(d, silentNodes(fields(c.silent)...), c.id, func(g int) []string {
			if g == 1 {
				return fields(c.voters)
			}
			return d.Places[g].Nodes
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if err == nil && r != (RemoveNode{c.id, d.Revision}) {
			t.Errorf("%s: %+v", what, r)
		}
	}
	moving := change1(t, d, SetPlace{1, 2, fields("b c d"), "b"})
	if _, err := Removable(moving, Facts{}, "a", func(int) []string { return nil }); !errors.Is(err, ErrLeaderless) {
		t.Errorf("it may still vote: %v", err)
	}
}
