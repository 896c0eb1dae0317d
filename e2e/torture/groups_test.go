package torture

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"limitdb/groups"
	"limitdb/resp"
)

const (
	// groupCount is how many groups of keys the cluster has, and historiesAt how many histories run at once: their keys are in several groups.
	groupCount  = 4
	historiesAt = 4
)

// The nodes of a cluster of several groups are killed, paused, cut off and full, one by one or all at once; another one joins, is drained and leaves.
// Replicas move and leaders change meanwhile, and at times the directory has no leader. Every key is still decided as by one server.
func TestTortureGroups(t *testing.T) {
	isolated(t, tortureGroups)
}

func tortureGroups(t *testing.T) {
	c, seed, total := begin(t, groupCount)
	defer c.report()
	c.await("all groups have three replicas", func() bool { return c.whole(replicas) })
	l := startLoad(t, c, seed)
	var all []*histories
	for i := range historiesAt {
		h := newHistories(t, 10*time.Minute)
		h.first = i * 1_000_000
		all = append(all, h)
		for j := range clients / historiesAt {
			w := c.client(seed + uint64(10*i+j) + 1)
			l.work.Go(func() { h.run(w, j, &l.gate, l.stop) })
		}
	}
	shared := newCrossings()
	var crossing []*crosser
	for i := range crossers {
		x := newCrosser(t, c.client(seed+uint64(i)+500), i, shared)
		crossing = append(crossing, x)
		l.work.Go(func() { x.run(&l.gate, l.stop) })
	}
	l.run(total, func() {
		c.await("all groups are led, by nodes that have them", func() bool { return c.whole(replicas) })
	})
	operations, checked, undecided := 0, 0, 0
	for _, h := range all {
		if y := h.enter(); y != nil {
			h.leave(y, true)
		}
		h.checks.Wait()
		operations, checked, undecided = operations+h.operations, checked+h.checked, undecided+h.undecided
	}
	if leader := c.leader(); leader != nil {
		l.check(leader, c.epochs(" group="+strconv.Itoa(groups.Of(resp.Slot([]byte("rate")), groupCount))+" "))
	}
	shared.check(c, crossing)
	t.Logf("%d operations in %d histories, %d of them undecided; %v; %v, of them %d lately after a part was taken; %d epochs; faults: %v", operations, checked, undecided, l, shared, c.late(), c.epochs(""), c.counts)
	if undecided > 0 {
		t.Errorf("porcupine did not come to an end of %d histories", undecided)
	}
}

// whole reports whether every group is led, and has at least so many replicas that have caught up.
func (c *cluster) whole(replicas int) bool {
	l := c.leader()
	if l == nil {
		return false
	}
	all, err := l.askSoon("RAFT", "GROUPS")
	if err != nil || len(all.Elems) != groupCount {
		return false
	}
	for _, row := range all.Elems {
		f := map[string]resp.Value{}
		for i := 0; i+1 < len(row.Elems); i += 2 {
			f[row.Elems[i].Text] = row.Elems[i+1]
		}
		voters := 0
		for _, r := range f["replicas"].Elems {
			if !strings.Contains(r.Text, "learner") {
				voters++
			}
		}
		if f["leader"].Text == "" || voters < replicas {
			return false
		}
	}
	return true
}

// directory returns the numbers of the nodes that vote in the group of the directory.
func (c *cluster) directory() (voters []int) {
	l := c.leader()
	if l == nil {
		return nil
	}
	all, err := l.askSoon("RAFT", "SERVER", "LIST")
	if err != nil {
		return nil
	}
	for _, row := range all.Elems {
		text := fmt.Sprint(row)
		for _, n := range c.nodes {
			if strings.Contains(text, n.raft) && strings.Contains(text, " voter") {
				voters = append(voters, n.number)
			}
		}
	}
	return voters
}
