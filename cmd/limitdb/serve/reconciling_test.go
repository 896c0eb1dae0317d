package serve

import (
	"slices"
	"testing"
	"time"

	"limitdb/groups"
	"limitdb/replication"
	"limitdb/resp"
)

// A replica may be made to lead when it has been caught up for 30 s, without a break, and votes. That a place is the current one counts for some seconds.
func TestReadyToLead(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	s.placing.beginDirectory()
	for i, id := range []string{"b", "c"} {
		address := freeAddress(t)
		if err := s.dir.change(groups.SetNode{Node: groups.Node{ID: id, Client: address, Raft: address, Weight: 1 + i}}); err != nil {
			t.Fatal(err)
		}
	}
	r := &reconciling{s: s, group: 1}
	b := replication.Server{Node: "b", Incarnation: "1", Voter: true, CaughtUp: true}
	c := replication.Server{Node: "c", Incarnation: "2", CaughtUp: true}
	behind := b
	behind.CaughtUp = false
	ready := func(what string, of replication.Server, caughtUp time.Duration, answers, want bool) {
		t.Helper()
		now := max(1, s.p.clock.Elapsed())
		if caughtUp >= 0 {
			r.caughtUp = map[replication.Server]int64{b: now - int64(caughtUp), c: now - int64(caughtUp)}
		}
		s.near.mu.Lock()
		delete(s.near.at, "b")
		if s.near.at["c"] = (&neighbour{id: "c", heard: now}); answers {
			s.near.at["b"] = &neighbour{id: "b", heard: now}
		}
		s.near.mu.Unlock()
		v := r.view(&replication.Configuration{Servers: []replication.Server{{Node: "a", Voter: true, CaughtUp: true}, of, c}})
		if v.Servers[1].Ready != want {
			t.Errorf("%s: ready %t", what, v.Servers[1].Ready)
		}
		if said := *s.ready[1].Load(); slices.Contains(said, "b") != want || slices.Contains(said, "c") {
			t.Errorf("%s: %v are said to be ready", what, said)
		}
	}
	ready("just caught up", b, -1, true, false)
	ready("for 29 s", b, 29*time.Second, true, false)
	ready("for 30 s", b, 30*time.Second, true, true)
	ready("behind", behind, 30*time.Second, true, false)
	ready("caught up again", b, -1, true, false)
	ready("silent", b, 30*time.Second, false, false)
	ready("heard again", b, -1, true, false)

	r.version = 7
	for _, c := range []struct {
		ago  time.Duration
		want uint64
	}{{0, 7}, {confirmedFor - time.Second, 7}, {confirmedFor, 0}} {
		r.confirmed = s.p.clock.Elapsed() - int64(c.ago)
		if v := r.view(&replication.Configuration{}); v.Confirmed != c.want {
			t.Errorf("confirmed %v ago: %d", c.ago, v.Confirmed)
		}
	}
}

// One group at a time changes its leader in the whole cluster. The turn goes on when it has, or has had time enough to.
func TestLeadersChangeOneByOne(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 4)
	s.placing.beginDirectory()
	address := freeAddress(t)
	if err := s.dir.change(groups.SetNode{Node: groups.Node{ID: "b", Client: address, Raft: address, Weight: 1}}); err != nil {
		t.Fatal(err)
	}
	to := func(group int, leader string) {
		t.Helper()
		version := s.dir.current().Places[group].Version + 1
		if err := s.dir.change(groups.SetPlace{Group: group, Version: version, Nodes: []string{"a", "b"}, Leader: leader}); err != nil {
			t.Fatal(err)
		}
	}
	for g := 1; g <= 4; g++ {
		to(g, "b")
	}
	ready := []string{"b"}
	for _, g := range []int{1, 2, 4} { // in group 3, b is not ready
		s.ready[g].Store(&ready)
	}
	began, turns := int64(0), 0
	for _, c := range []struct {
		after time.Duration // the turn has begun
		then  func()
		want  int
	}{
		{0, nil, 1},
		{time.Second, nil, 1},
		{10*time.Second - 1, nil, 1},
		{10 * time.Second, nil, 2}, // it could not
		{time.Second, func() { to(2, "a") }, 4},
		{9 * time.Second, nil, 4},
		{10 * time.Second, nil, 1},
		{time.Second, func() { to(1, "a"); to(2, "a"); to(4, "a") }, 0},
		{time.Second, nil, 0},
	} {
		if c.then != nil {
			c.then()
		}
		began = s.placing.nextTurn(began+int64(c.after), began)
		if got := int(s.placing.turn.Load()); got != c.want || s.placing.turnOf() != c.want {
			t.Errorf("step %d: it is the turn of group %d, want %d", turns, got, c.want)
		}
		turns++
	}
}

// A group without keys puts an entry into its log every 10 s, and one with keys, whose time passes, every second.
func TestGroupsWithoutKeysRest(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2)
	s.placing.beginDirectory()
	s.acceptSecret()
	key := []byte("a")
	for groups.Of(resp.Slot(key), 2) != 1 {
		key[0]++
	}
	if _, err := s.p.server.Do(t.Context(), []byte("RL.TAKE"), key, []byte("FIXED"), []byte("10/365d")); err != nil {
		t.Fatal(err)
	}
	if with, without := s.replicas[1].idle(), s.replicas[2].idle(); with != time.Second || without != 10*time.Second {
		t.Errorf("a group with keys rests for %v, one without for %v", with, without)
	}
	last := func(g int) uint64 { return s.replicas[g].node.Load().Says().Last }
	from := []uint64{last(0), last(1), last(2)}
	until(t, "entries of a group with keys", func() bool { return last(1) >= from[1]+3 })
	if n := last(2) - from[2]; n > 1 { // the first second of its leader may be one of these
		t.Errorf("%d entries of a group without keys meanwhile", n)
	}
}
