package groups

import (
	"fmt"
	"slices"
)

// problem is the directory as the oracle sees it.
func (w *world) problem() *problem {
	p := &problem{}
	zones, sizes := map[string]int{}, []int{}
	var ids []string
	for _, n := range w.dir.Nodes {
		if n.Draining {
			continue
		}
		if _, ok := zones[n.Zone]; !ok {
			zones[n.Zone] = len(zones)
			sizes = append(sizes, 0)
		}
		sizes[zones[n.Zone]]++
		ids = append(ids, n.ID)
		p.weight, p.zone = append(p.weight, n.Weight), append(p.zone, zones[n.Zone])
	}
	p.zones = len(zones)
	need := min(w.dir.Replicas, len(ids))
	most := 1 // replicas in one zone
	for fits := 0; ; most++ {
		fits = 0
		for _, size := range sizes {
			fits += min(most, size)
		}
		if fits >= need {
			break
		}
	}
	for _, place := range w.dir.Places[1:] {
		now := make([]bool, len(ids))
		for i, id := range ids {
			now[i] = place.Has(id)
		}
		p.now, p.barred = append(p.now, now), append(p.barred, make([]bool, len(ids)))
		p.need, p.room = append(p.need, need), append(p.room, slices.Repeat([]int{most}, p.zones))
	}
	return p
}

// distance returns how many moves the directory is away from the best places, at least.
func (w *world) distance() int {
	_, moves := w.problem().best()
	return int(moves)
}

// even returns an error unless the places of the directory, and who leads there, are as even as they can be.
func (w *world) even() error {
	p := w.problem()
	uneven, moves := p.best()
	if moves != 0 {
		return fmt.Errorf("%d moves are left", moves)
	}
	index := map[string]int{}
	for _, n := range w.dir.Nodes {
		if !n.Draining {
			index[n.ID] = len(index)
		}
	}
	leaders := &problem{weight: p.weight, zone: make([]int, len(p.weight)), zones: 1}
	load, leads := make([]int64, len(p.weight)), make([]int64, len(p.weight))
	for g, place := range w.dir.Places {
		for _, id := range place.Nodes {
			if _, ok := index[id]; !ok {
				return fmt.Errorf("group %d is still on %s", g, id)
			}
		}
		if g == 0 {
			if len(place.Nodes) != min(MaxReplicas, len(index)) {
				return fmt.Errorf("group 0 has the voters %v", place.Nodes)
			}
			continue
		}
		barred := slices.Repeat([]bool{true}, len(index))
		for _, id := range place.Nodes {
			load[index[id]]++
			barred[index[id]] = false
		}
		leads[index[place.Leader]]++
		leaders.now, leaders.barred = append(leaders.now, make([]bool, len(index))), append(leaders.barred, barred)
		leaders.need, leaders.room = append(leaders.need, 1), append(leaders.room, []int{1})
	}
	if got := sumOf(load, p.weight); got != uneven {
		return fmt.Errorf("the loads %v are uneven by %d, not %d", load, got, uneven)
	}
	if even, _ := leaders.best(); sumOf(leads, p.weight) != even {
		return fmt.Errorf("the leaders %v are uneven by %d, not %d", leads, sumOf(leads, p.weight), even)
	}
	return nil
}

// check checks what must hold when the cluster has come to rest.
func (w *world) check() {
	if err := w.even(); err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
	for g, place := range w.dir.Places {
		var voters []string
		for _, s := range w.group[g].servers {
			if s.Voter {
				voters = append(voters, s.Node)
			} else if _, ok := w.dir.Node(s.Node); g > 0 || !ok {
				w.t.Errorf("seed %d: group %d still has %+v", w.seed, g, s)
			}
		}
		slices.Sort(voters)
		if !slices.Equal(voters, place.Nodes) {
			w.t.Errorf("seed %d: group %d has the voters %v, not %v", w.seed, g, voters, place.Nodes)
		}
		if all := len(w.group[0].servers); all != len(w.dir.Nodes) {
			w.t.Errorf("seed %d: group 0 has %d members of %d nodes", w.seed, all, len(w.dir.Nodes))
		}
		if g > 0 && w.group[g].leader != place.Leader {
			w.t.Errorf("seed %d: %s leads group %d, not %s", w.seed, w.group[g].leader, g, place.Leader)
		}
	}
	w.t.Logf("seed %d: %d nodes, %d groups, %d ticks, %d changes of places, %d moves of %d that were owed; %d stale, %d refused",
		w.seed, len(w.dir.Nodes), w.dir.Groups(), w.tick, w.steps, w.moves, w.owed, w.stale, w.refused)
}

// sumOf returns the sum of load²/weight, times unit.
func sumOf(load []int64, weight []int) (sum int64) {
	for n, l := range load {
		for k := range l {
			sum += (2*k + 1) * unit / int64(weight[n])
		}
	}
	return sum
}
