package groups

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// event lets something happen to the cluster. It never takes a majority away for good: that would not be our own doing.
func (w *world) event(most int) {
	before := w.distance()
	defer func() { w.owed += w.distance() - before }()
	n := w.dir.Nodes[w.r.IntN(len(w.dir.Nodes))]
	node := w.nodes[n.ID]
	switch k := w.r.IntN(12); {
	case k < 4 || len(w.dir.Nodes) < 4:
		if len(w.dir.Nodes) < most && w.group[0].leader != "" {
			w.apply(SetNode{w.newNode()})
		}
	case k < 6: // a crash, perhaps of several at once
		if node.up {
			node.up, node.back = false, w.tick+5+w.r.IntN(60)
		}
	case k < 7: // a node is lost for good, or its disk
		if !node.up || w.dir.Replicas == 1 || !w.others(n.ID) || w.group[0].leader == "" {
			return
		}
		node.up, node.back = false, 0
		w.elect(0)
		if !w.remove(n.ID) {
			node.back = w.tick + 10
			return
		}
		if w.chance(50) { // it comes back under its name, with nothing
			w.nodes[n.ID] = &simNode{up: true, incarnations: map[int]string{}, newest: map[int]uint64{}}
			w.apply(SetNode{n})
		}
	case k < 9:
		if _, err := w.dir.Apply(Drain{n.ID, !n.Draining}); err == nil && w.group[0].leader != "" {
			w.apply(Drain{n.ID, !n.Draining})
		}
	case k < 10: // the operator changes something
		if w.group[0].leader == "" {
			return
		}
		if w.chance(30) {
			w.apply(SetReplicas{[]int{1, 3, 3, 5}[w.r.IntN(4)]})
			return
		}
		n.Zone, n.Weight = []string{"a", "b", "c"}[w.r.IntN(3)], 50*(1+w.r.IntN(4))
		w.apply(SetNode{n})
	default: // what has been drained goes
		for _, n := range w.dir.Nodes {
			if n.Draining && w.group[0].leader != "" && !w.holds(n.ID) && w.remove(n.ID) {
				w.nodes[n.ID].up = false
				return
			}
		}
	}
}

// others reports whether every group has a majority without a node.
func (w *world) others(id string) bool {
	up := w.nodes[id].up
	w.nodes[id].up = false
	defer func() { w.nodes[id].up = up }()
	for g, group := range w.group {
		if !w.majority(g, group.servers) {
			return false
		}
	}
	return true
}

// holds reports whether a node is in any group, but as a learner of group 0.
func (w *world) holds(id string) bool {
	for g, group := range w.group {
		for _, s := range group.servers {
			if s.Node == id && (g > 0 || s.Voter) {
				return true
			}
		}
	}
	return false
}

// remove has the operator remove a node.
func (w *world) remove(id string) bool {
	r, err := Removable(w.dir, Facts{Silent: w.silent()}, id, func(g int) (ids []string) {
		if w.group[g].leader == "" {
			return nil
		}
		for _, s := range w.group[g].servers {
			if s.Voter {
				ids = append(ids, s.Node)
			}
		}
		return ids
	})
	if err != nil {
		return false
	}
	if _, err := w.dir.Apply(r); err != nil {
		return false
	}
	return w.apply(r)
}

// settle lets the cluster come to rest.
func (w *world) settle(ticks int) {
	w.calm = true
	for _, n := range w.nodes {
		if n.back > 0 {
			n.back = w.tick
		}
	}
	// What a voter knows of itself is a tick old, so one look is not enough.
	for end, still := w.tick+ticks, 0; still < 3; {
		if still++; !w.rests() {
			still = 0
		}
		if w.tick == end {
			for g, group := range w.group {
				if s := Reconcile(w.dir.Places[g], w.learners(w.dir, g), w.view(g)); s.Action != Wait || !w.dir.Places[g].Settled() {
					w.t.Logf("group %d led by %s: %+v for %+v: %+v", g, group.leader, s, w.dir.Places[g], group.servers)
				}
			}
			w.t.Fatalf("seed %d: no rest after %d ticks", w.seed, ticks)
		}
		w.run()
	}
	w.calm = false
}

// rests reports whether nothing is left to do.
func (w *world) rests() bool {
	if _, ok := Next(w.dir, Facts{}); ok || len(w.sent) > 0 {
		return false
	}
	for g, group := range w.group {
		v := w.view(g)
		v.Confirmed, v.MayTransfer = w.dir.Places[g].Version, true
		if group.leader == "" || !w.dir.Places[g].Settled() || Reconcile(w.dir.Places[g], w.learners(w.dir, g), v).Action != Wait {
			return false
		}
	}
	return true
}

// liveThrough lets things happen to a cluster that grows to so many nodes, and come to rest, a few times.
func (w *world) liveThrough(times, events, most int) {
	for range times {
		for range events {
			w.event(most)
			for range w.r.IntN(40) {
				w.run()
			}
		}
		w.settle(3000)
		w.check()
	}
}

// A cluster in which everything goes wrong comes to rest with all even. No step on the way costs a group its majority, and
// hardly any moves are made that did not have to be. With LIMITDB_LONG=1 there are 2000 clusters, from a random seed on, and
// more large ones; LIMITDB_SEED is the one to look at.
func TestClusters(t *testing.T) {
	moves, owed := 0, 0
	for _, seed := range seeds(t, 30, 2000) {
		w := newWorld(t, seed, 1<<(1+seed%3), []int{3, 3, 5, 1}[seed%4])
		w.liveThrough(6, 6, 4+int(seed%9))
		moves, owed = moves+w.moves, owed+w.owed
		if 10*w.moves > 12*w.owed+40 {
			t.Errorf("seed %d: %d moves of %d that were owed", w.seed, w.moves, w.owed)
		}
	}
	t.Logf("%d moves of %d that were owed", moves, owed)
	if 100*moves > 105*owed+400 {
		t.Errorf("%d moves of %d that were owed", moves, owed)
	}
}

// A cluster grows from one node to a hundred, and everything else happens to it as well.
func TestLargeCluster(t *testing.T) {
	for _, seed := range seeds(t, 1, 20) {
		w := newWorld(t, seed, 64, 3)
		for _, nodes := range []int{3, 5, 30, 99} {
			before := w.distance()
			for len(w.dir.Nodes) < nodes {
				w.apply(SetNode{w.newNode()})
			}
			w.owed += w.distance() - before
			w.liveThrough(1, 5, 100)
		}
		if 10*w.moves > 12*w.owed {
			t.Errorf("seed %d: %d moves of %d that were owed", w.seed, w.moves, w.owed)
		}
	}
}

// seeds returns the seeds of a test: the same each time, but for many of them.
func seeds(t *testing.T, few, many int) (all []uint64) {
	if s := os.Getenv("LIMITDB_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	first := uint64(0)
	if os.Getenv("LIMITDB_LONG") == "1" {
		first, few = rand.Uint64()>>32, many
	}
	for i := range few {
		all = append(all, first+uint64(i))
	}
	return all
}
