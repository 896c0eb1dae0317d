//go:build severalgroups

package torture

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/groups"
	"limitdb/internal/testlengths"
	"limitdb/resp"
)

const (
	// groupCount is how many groups of keys the cluster has, and historiesAt how many histories run at once: their keys are in several groups.
	groupCount  = 4
	historiesAt = 4
)

// The nodes of a cluster of several groups are killed, paused, cut off and full; another one joins, is drained and leaves. Replicas move and leaders
// change meanwhile. Every key is still decided as by one server.
func TestTortureGroups(t *testing.T) { isolated(t, tortureGroups) }

func tortureGroups(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("LIMITDB_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	total := duration(t)
	t.Logf("LIMITDB_SEED=%d, for %v", seed, total)
	c := startCluster(t, seed, groupCount)
	defer c.report()
	c.await("all groups have three replicas", func() bool { return c.whole(members) })

	var gate sync.RWMutex // held while the nodes are compared
	stop := make(chan struct{})
	var work sync.WaitGroup
	var all []*histories
	for i := range historiesAt {
		h := newHistories(t, 10*time.Minute)
		h.first = i * 1_000_000
		all = append(all, h)
		for j := range clients / historiesAt {
			w := c.client(seed + uint64(10*i+j) + 1)
			work.Go(func() { h.run(w, j, &gate, stop) })
		}
	}
	k := &counts{began: time.Now()}
	for i := range 2 {
		w := c.client(seed + uint64(i) + 100)
		work.Go(func() { k.run(t, w, &gate, stop) })
	}
	lengths, values := testlengths.Read(t, longestText), new(atomic.Int64)
	for i := range 2 {
		x := &texts{client: c.client(seed + uint64(i) + 200), lengths: lengths, id: i, all: values}
		work.Go(func() { x.run(t, &gate, stop) })
	}
	held, ids := []*holder{}, new(atomic.Int64)
	for i := range 2 {
		x := &holder{asker: asker{client: c.client(seed + uint64(i) + 300), t: t}, number: i, all: ids}
		held = append(held, x)
		work.Go(func() { x.run(&gate, stop) })
	}
	end := time.Now().Add(total)
	goesOn := func() bool { return (time.Now().Before(end) || c.dealt < faultKinds) && !t.Failed() }
	for goesOn() {
		for calm := time.Now().Add(calmEvery); time.Now().Before(calm) && goesOn(); {
			c.expire(false)
			c.oneFault()
			time.Sleep(time.Duration(100+c.rand.IntN(600)) * time.Millisecond)
		}
		c.calm(&gate)
		c.await("all groups are led, by nodes that have them", func() bool { return c.whole(members) })
	}
	close(stop)
	work.Wait()
	operations, checked, undecided := 0, 0, 0
	for _, h := range all {
		if y := h.enter(); y != nil {
			h.leave(y, true)
		}
		h.checks.Wait()
		operations, checked, undecided = operations+h.operations, checked+h.checked, undecided+h.undecided
	}
	if l := c.leader(); l != nil {
		k.check(t, l, c.epochs(" group="+strconv.Itoa(groups.Of(resp.Slot([]byte("rate")), groupCount))+" "))
		for _, x := range held {
			x.check(l)
		}
	}
	t.Logf("%d operations in %d histories, %d of them undecided; %v; %d commands on values; %d ids that are held or count once, %d commands of them sent again; %d epochs; faults: %v",
		operations, checked, undecided, k, values.Load(), ids.Load(), held[0].again+held[1].again, c.epochs(""), c.counts)
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
