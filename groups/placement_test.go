package groups

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// cluster returns a directory whose groups have settled. Nodes are spelled id[/zone][*weight], places as the ids of their nodes, of
// which the first leads; those of group 0 come first.
func cluster(t testing.TB, replicas int, nodes string, places ...string) Directory {
	d := Directory{Revision: 1, Replicas: replicas}
	for _, spelled := range fields(nodes) {
		n := Node{Weight: 100}
		spelled, weight, ok := strings.Cut(spelled, "*")
		if ok {
			fmt.Sscan(weight, &n.Weight)
		}
		n.ID, n.Zone, _ = strings.Cut(spelled, "/")
		n.Client, n.Raft = n.ID+":1", n.ID+":2"
		d.Nodes = append(d.Nodes, n)
	}
	for g, place := range places {
		p := Place{Version: 1, Nodes: fields(place)}
		if g > 0 {
			p.Leader = p.Nodes[0]
		}
		slices.Sort(p.Nodes)
		d.Places = append(d.Places, p)
	}
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return d
}

func silentNodes(ids ...string) Facts {
	f := Facts{Silent: map[string]bool{}}
	for _, id := range ids {
		f.Silent[id] = true
	}
	return f
}

func change1(t *testing.T, d Directory, records ...Record) Directory {
	t.Helper()
	for _, r := range records {
		next, err := d.Apply(r)
		if err != nil {
			t.Fatalf("%#v: %v", r, err)
		}
		d = next
	}
	return d
}

// spell spells the place of a change: group, nodes, leader.
func spell(c SetPlace) string {
	return fmt.Sprintf("%d: %s, %s", c.Group, strings.Join(c.Nodes, " "), c.Leader)
}

func spellAll(plan []SetPlace) (all []string) {
	for _, c := range plan {
		all = append(all, spell(c))
	}
	return all
}

func TestPlan(t *testing.T) {
	drained := func(d Directory, ids ...string) Directory {
		for _, id := range ids {
			d = change1(t, d, Drain{id, true})
		}
		return d
	}
	removed := func(d Directory, id string) Directory { return change1(t, d, RemoveNode{id, d.Revision}) }
	for what, c := range map[string]struct {
		d    Directory
		f    Facts
		want []string
	}{
		"one node": {cluster(t, 3, "a", "a", "a", "a"), Facts{}, nil},
		"a second node": {
			cluster(t, 3, "a b", "a", "a", "a"),
			Facts{},
			[]string{"0: a b, ", "1: a b, a", "2: a b, a", "1: a b, b"},
		},
		"a third node": {
			cluster(t, 3, "a b c", "a b", "a b", "b a"),
			Facts{},
			[]string{"0: a b c, ", "1: a b c, a", "2: a b c, b"},
		},
		"one replica": {
			cluster(t, 1, "a b", "a b", "a", "a"),
			Facts{},
			[]string{"1: b, b"},
		},
		"three that are even": {cluster(t, 3, "a b c", "a b c", "a b c", "b c a"), Facts{}, nil},
		"five that are even":  {cluster(t, 3, "a b c d e", "a b c d e", "a b c", "d e a"), Facts{}, nil},
		"a node in the only other zone": {
			cluster(t, 3, "a/x b/x c/x d/y", "a b c d", "a b c", "b c a"),
			Facts{},
			[]string{"1: b c d, c", "2: a b d, b"},
		},
		"three zones": {
			cluster(t, 3, "a/x b/x c/x d/y e/z", "a b c d e", "a b c", "b c a"),
			Facts{},
			[]string{"1: b c d, c", "1: b d e, d", "2: a c d, a", "2: a d e, a"},
		},
		"a node of a larger weight": {
			cluster(t, 1, "a b*300", "a b", "a", "a", "a", "a"),
			Facts{},
			[]string{"1: b, b", "2: b, b", "3: b, b"},
		},
		"a node that drains": {
			drained(cluster(t, 3, "a b c d", "a b c d", "d a b", "a b c"), "d"),
			Facts{},
			[]string{"1: a b d, b", "1: a b c, b", "0: a b c, "},
		},
		"a node that drains, of three": {
			drained(cluster(t, 3, "a b c", "a b c", "a b c", "c a b"), "c"),
			Facts{},
			[]string{"2: a b c, b", "1: a b, a", "2: a b, b", "0: a b, "},
		},
		"all but one drain": {
			drained(cluster(t, 3, "a b c", "a b c", "a b c", "c a b"), "b", "c"),
			Facts{},
			[]string{"2: a b c, a", "1: a c, a", "1: a, a", "2: a c, a", "0: a c, ", "2: a, a", "0: a, "},
		},
		"a node that is gone": {
			removed(cluster(t, 3, "a b c d e f", "a b c d e", "a b c", "c d e"), "c"),
			Facts{},
			[]string{"0: a b d e f, ", "1: a b f, a", "2: a d e, d"},
		},
		"a silent node": {cluster(t, 3, "a b c d", "a b c", "a b c", "b c a", "c a b", "a b c"), silentNodes("d"), nil},
		"a silent node keeps what it has": {
			cluster(t, 3, "a b c d", "a b c d", "d b c", "b c d", "c d b", "d b c"), silentNodes("d"),
			[]string{"1: a c d, d", "2: a b d, b"},
		},
		"a node drains, and the one that should take over is silent": {
			drained(cluster(t, 3, "a b c d e", "a b c d e", "a b c", "b c d", "c d b", "b c d"), "d"), silentNodes("e"),
			[]string{"2: a b c, b", "3: a b c, c", "4: a b c, b", "0: a b c e, "},
		},
		"without a majority, nothing moves": {
			drained(cluster(t, 3, "a b c d", "a d", "a b c", "a b c"), "a"), silentNodes("b", "c"), nil,
		},
		"fewer replicas, and silent nodes": {
			cluster(t, 3, "a b c d e", "a b c d e", "a b c d e", "b c d e a"), silentNodes("a", "b"),
			[]string{"2: b c d e, b", "2: c d e, c"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			if got := spellAll(Plan(c.d, c.f)); !slices.Equal(got, c.want) {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

// While a replica moves, its group gets no other place, unless the new node goes away; and no node has more than so many
// on the move.
func TestNextWhileReplicasMove(t *testing.T) {
	d := cluster(t, 3, "a b c d e", "a b c d e", "a b c", "b c a", "c a b", "a b c", "b c a", "c a b", "a b c", "b c a")
	var moving []string
	for range 20 {
		if next, ok := Next(d, Facts{Moves: 1}); ok {
			d = change1(t, d, next)
			moving = append(moving, spell(next))
		}
	}
	joins := map[string]int{}
	for _, p := range d.Places[1:] {
		for _, id := range p.Joining {
			joins[id]++
		}
		for _, id := range p.Leaving {
			joins[id]++
		}
	}
	if len(moving) != 2 || !reflect.DeepEqual(joins, map[string]int{"a": 1, "c": 1, "d": 1, "e": 1}) {
		t.Errorf("%q, with %v on the move", moving, joins)
	}
	d = change1(t, d, RemoveNode{"d", d.Revision})
	for range 20 {
		if next, ok := Next(d, Facts{Moves: 1}); ok {
			if next.Group > 0 && slices.Contains(next.Nodes, "d") {
				t.Errorf("%s: it is gone", spell(next))
			}
			d = change1(t, d, next)
		}
	}
	for g, p := range d.Places {
		if p.Has("d") {
			t.Errorf("group %d is still to go to d: %+v", g, p)
		}
	}
}

// drawCluster draws a directory that has come to rest, and then some changes of the nodes.
func drawCluster(t *rapid.T) Directory {
	groups := 1 << rapid.IntRange(0, 4).Draw(t, "groups")
	d, err := Directory{}.Apply(Begin{groups, rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "replicas"), drawNode(t, 0)})
	if err != nil {
		t.Fatal(err)
	}
	change := func(r Record) {
		if next, err := d.Apply(r); err == nil {
			d = next
		}
	}
	for range 2 {
		for i := range rapid.IntRange(1, 10).Draw(t, "changes") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				change(Drain{d.Nodes[rapid.IntRange(0, len(d.Nodes)-1).Draw(t, "node")].ID, true})
			case 1:
				n := d.Nodes[rapid.IntRange(0, len(d.Nodes)-1).Draw(t, "node")]
				needed := func(p Place) bool {
					left := slices.DeleteFunc(slices.Clone(p.Nodes), func(id string) bool { _, ok := d.Node(id); return !ok || id == n.ID })
					return len(left) <= len(p.Nodes)/2
				}
				if !slices.ContainsFunc(d.Places, needed) {
					change(RemoveNode{n.ID, d.Revision})
				}
			case 2:
				change(SetReplicas{rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "replicas")})
			default:
				change(SetNode{drawNode(t, 1+i+100*int(d.Revision))})
			}
		}
		if rapid.Bool().Draw(t, "rest") {
			for _, next := range Plan(d, Facts{}) {
				change(next)
				change(Complete{next.Group, next.Version})
			}
		}
	}
	return d
}

func drawNode(t *rapid.T, i int) Node {
	n := node(fmt.Sprintf("n%d", i))
	n.Zone = rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "zone")
	n.Weight = rapid.SampledFrom([]int{100, 100, 50, 200, 400}).Draw(t, "weight")
	return n
}

// From any directory a plan leads, with the fewest moves that there can be, to places that are as even as they can be.
func TestPlanIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{dir: drawCluster(t)}
		before := w.distance()
		moves := 0
		for _, next := range Plan(w.dir, Facts{}) {
			if next.Group > 0 {
				moves += len(without(next.Nodes, w.dir.Places[next.Group].Nodes))
			}
			for _, r := range []Record{next, Complete{next.Group, next.Version}} {
				d, err := w.dir.Apply(r)
				if err != nil {
					t.Fatalf("%#v: %v", r, err)
				}
				w.dir = d
			}
		}
		if moves != before {
			t.Errorf("%d moves, and %d would do", moves, before)
		}
		if err := w.even(); err != nil {
			t.Error(err)
		}
	})
}

// The order of nodes and facts, and the time, do not matter: there are none.
func TestNextIsAFunction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawCluster(t)
		f := Facts{Silent: map[string]bool{}}
		for _, n := range d.Nodes {
			f.Silent[n.ID] = rapid.IntRange(0, 3).Draw(t, "silent") == 0
		}
		before := AppendSnapshot(nil, d)
		next, ok := Next(d, f)
		for range 3 {
			if again, o := Next(d, f); o != ok || !reflect.DeepEqual(again, next) {
				t.Fatalf("%+v, then %+v", next, again)
			}
		}
		if !slices.Equal(AppendSnapshot(nil, d), before) {
			t.Fatal("it changes the directory")
		}
		if !ok {
			return
		}
		after, err := d.Apply(next)
		if err != nil {
			t.Fatalf("%+v: %v", next, err)
		}
		for _, id := range after.Places[next.Group].Nodes {
			if f.Silent[id] && !d.Places[next.Group].Has(id) {
				t.Errorf("%+v brings something to %s, which is silent", next, id)
			}
		}
	})
}

// BenchmarkNext is a step of 64 groups on 100 nodes: the first when 97 of the nodes have just come, one when a node has
// begun to drain, and the look that finds nothing to do.
func BenchmarkNext(b *testing.B) {
	rest := func(d Directory, end func(SetPlace) bool) Directory {
		for next, ok := Next(d, Facts{}); ok && !end(next); next, ok = Next(d, Facts{}) {
			d, _ = d.Apply(next)
			d, _ = d.Apply(Complete{next.Group, next.Version})
		}
		return d
	}
	never := func(SetPlace) bool { return false }
	d := rest(begun64(b, 3), never)
	for i := 3; i < 100; i++ {
		d, _ = d.Apply(SetNode{Node{fmt.Sprintf("n%03d", i), fmt.Sprintf("c%d:1", i), fmt.Sprintf("r%d:1", i), fmt.Sprint(i % 5), 100, false}})
	}
	grown := rest(d, func(next SetPlace) bool { return next.Group > 0 })
	even := rest(grown, never)
	drains, err := even.Apply(Drain{"n050", true})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		d    Directory
		ok   bool
	}{{"97 nodes more", grown, true}, {"a node drains", drains, true}, {"at rest", even, false}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, ok := Next(c.d, Facts{}); ok != c.ok {
					b.Fatal(ok)
				}
			}
		})
	}
}

func begun64(t testing.TB, nodes int) Directory {
	d, err := Directory{}.Apply(Begin{64, 3, node("n000")})
	for i := 1; i < nodes && err == nil; i++ {
		d, err = d.Apply(SetNode{node(fmt.Sprintf("n%03d", i))})
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}
