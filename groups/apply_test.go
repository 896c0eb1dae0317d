package groups

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// begun returns a directory of two groups of three replicas with some nodes, all of whose groups are on the first.
func begun(t interface{ Fatal(...any) }, ids ...string) Directory {
	d, err := Directory{}.Apply(Begin{2, 3, node(ids[0])})
	for _, id := range ids[1:] {
		if err == nil {
			d, err = d.Apply(SetNode{node(id)})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestApply(t *testing.T) {
	d := Directory{}
	for _, step := range []struct {
		r    Record
		want error
	}{
		{SetNode{node("b")}, ErrBegun},
		{Begin{2, 3, node("b")}, nil},
		{Begin{2, 3, node("b")}, ErrBegun},
		{SetNode{node("a")}, nil},
		{SetNode{Node{ID: "c", Client: "c:1", Raft: "a:2", Weight: 1}}, ErrInvalid}, // the address of a
		{SetNode{Node{ID: "c", Client: "b:1", Raft: "c:2", Weight: 1}}, ErrInvalid}, // the address of b
		{SetPlace{1, 2, []string{"a", "b"}, "b"}, nil},
		{SetPlace{1, 2, []string{"b"}, "b"}, ErrStale},
		{SetPlace{1, 4, []string{"b"}, "b"}, ErrStale},
		{SetPlace{3, 2, []string{"b"}, "b"}, ErrInvalid},
		{SetPlace{2, 2, []string{"b", "c"}, "b"}, ErrNode},
		{Complete{1, 1}, ErrStale},
		{Complete{3, 1}, ErrInvalid},
		{Complete{1, 2}, nil},
		{Complete{1, 2}, nil}, // once more
		{SetPlace{1, 3, []string{"a"}, "a"}, nil},
		{Drain{"c", true}, ErrNode},
		{Drain{"a", true}, nil},
		{Drain{"b", true}, ErrInvalid}, // the last
		{SetNode{node("a")}, nil},      // which goes on draining
		{SetPlace{2, 2, []string{"a", "b"}, "b"}, ErrInvalid},
		{RemoveNode{"a", 7}, ErrStale},
		{RemoveNode{"b", 8}, ErrInvalid},
		{RemoveNode{"c", 8}, ErrNode},
		{RemoveNode{"a", 8}, nil},
		{Complete{1, 3}, ErrStale}, // the node that was there is no more
		{SetReplicas{1}, nil},
	} {
		next, err := d.Apply(step.r)
		if !errors.Is(err, step.want) {
			t.Fatalf("%#v: %v, want %v", step.r, err, step.want)
		}
		if err != nil && !reflect.DeepEqual(next, d) {
			t.Fatalf("%#v is refused, and changes something", step.r)
		}
		d = next
	}
	want := Directory{
		Revision: 10, Replicas: 1, Nodes: []Node{node("b")},
		Places: []Place{
			{Version: 1, Nodes: []string{"b"}},
			{Version: 4, Nodes: []string{"a"}, Leader: "a", Joining: []string{"a"}, Leaving: []string{"b"}},
			{Version: 1, Nodes: []string{"b"}, Leader: "b"},
		},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, want %+v", d, want)
	}
}

// Who was on the way, or may still be there, is known until the group has come to its place.
func TestJoiningAndLeaving(t *testing.T) {
	d := begun(t, "a", "b", "c", "d")
	for i, step := range []struct{ nodes, joining, leaving string }{
		{"a b c", "b c", ""},
		{"b c d", "b c d", "a"},
		{"a b c", "a b c", "d"},
		{"a c", "a c", "b d"},
	} {
		var err error
		if d, err = d.Apply(SetPlace{1, uint64(2 + i), fields(step.nodes), ""}); err != nil {
			t.Fatal(err)
		}
		if p := d.Places[1]; !slices.Equal(p.Joining, fields(step.joining)) || !slices.Equal(p.Leaving, fields(step.leaving)) {
			t.Errorf("after %s: %+v", step.nodes, p)
		}
	}
	d, err := d.Apply(Complete{1, 5})
	if p := d.Places[1]; err != nil || !p.Settled() || !reflect.DeepEqual(p, Place{Version: 5, Nodes: fields("a c")}) {
		t.Errorf("%+v, %v", p, err)
	}
}

func drawRecord(t *rapid.T, d Directory) Record {
	id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
	group := rapid.IntRange(0, 3).Draw(t, "group")
	version := uint64(1)
	if group < len(d.Places) {
		version = d.Places[group].Version
	}
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		return Begin{2, 3, node(id.Draw(t, "id"))}
	case 1:
		return SetReplicas{rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "replicas")}
	case 2:
		n := node(id.Draw(t, "id"))
		n.Zone = rapid.SampledFrom([]string{"", "z"}).Draw(t, "zone")
		return SetNode{n}
	case 3:
		return Drain{id.Draw(t, "id"), rapid.Bool().Draw(t, "on")}
	case 4:
		return RemoveNode{id.Draw(t, "id"), d.Revision - uint64(rapid.IntRange(0, 1).Draw(t, "before"))}
	case 5:
		return Complete{group, version}
	default:
		nodes := rapid.SliceOfNDistinct(id, 1, 5, rapid.ID).Draw(t, "nodes")
		slices.Sort(nodes)
		leader := ""
		if group > 0 && rapid.Bool().Draw(t, "leads") {
			leader = nodes[0]
		}
		return SetPlace{group, version + 1, nodes, leader}
	}
}

// Whatever changes come, the directory is one that can be, its snapshot is the same directory, no change reaches an older copy, and
// all who apply the same bytes come to the same.
func TestAnyChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, other := begun(t, "a"), begun(t, "a")
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			r := drawRecord(t, d)
			before := AppendSnapshot(nil, d)
			b, err := Append(nil, r)
			if err != nil {
				t.Fatal(err)
			}
			read, err := Read(b)
			if err != nil {
				t.Fatal(err)
			}
			next, err := d.Apply(r)
			if other, _ = other.Apply(read); !reflect.DeepEqual(next, other) {
				t.Fatalf("%#v makes %+v, and %+v", r, next, other)
			}
			if !slices.Equal(AppendSnapshot(nil, d), before) {
				t.Fatalf("%#v reaches the directory that it was applied to", r)
			}
			if err == nil && next.Revision != d.Revision+1 || err != nil && !reflect.DeepEqual(next, d) {
				t.Fatalf("%#v: %v, from %+v to %+v", r, err, d, next)
			}
			if d = next; d.Check() != nil {
				t.Fatalf("%#v: %v", r, d.Check())
			}
			back, err := ReadSnapshot(AppendSnapshot(nil, d))
			if err != nil || !reflect.DeepEqual(back, d) {
				t.Fatalf("%+v comes back as %+v, %v", d, back, err)
			}
		}
	})
}
