package serve

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSharesOfGroups(t *testing.T) {
	t.Parallel()
	if got := shares(0, []int64{1, 2}); !slices.Equal(got, []int64{0, 0}) {
		t.Errorf("without a budget: %v", got)
	}
	if got := shares(100, nil); len(got) != 0 {
		t.Errorf("without groups: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 64).Draw(t, "bytes")
		most := rapid.Int64Range(2<<20, 1<<44).Draw(t, "maxmemory")
		sum := int64(0)
		for i, share := range shares(most, bytes) {
			sum += share
			if share < 1 {
				t.Fatalf("group %d may have nothing", i)
			}
			for j, other := range shares(most, bytes) {
				if bytes[i] > bytes[j] && share < other {
					t.Fatalf("group %d has more and may have less than group %d", i, j)
				}
			}
		}
		if sum > most+int64(len(bytes)) || most-sum > int64(len(bytes)) {
			t.Fatalf("the shares are %d bytes of %d", sum, most)
		}
	})
}

// A node that leads a group keeps to the smallest budget that the group has on a node that votes in it and answers, its own or another's.
func TestBudgetIsTheSmallestOfAllVoters(t *testing.T) {
	t.Parallel()
	s := beginSeveral(t, 2, "--maxmemory", "64mb")
	s.watchBudget()
	const half = 32 << 20
	for g, want := range []int64{0, half, half} {
		if got := s.budget(g); got != want {
			t.Errorf("group %d: %d bytes, want %d", g, got, want)
		}
		if said := s.tells.groupState(g, s.replicas[g], s.replicas[g].node.Load()).Budget; said != want {
			t.Errorf("group %d: it says %d bytes, want %d", g, said, want)
		}
	}
	now := max(1, s.p.clock.Elapsed())
	s.near.mu.Lock()
	for id, budget := range map[string][3]int64{"b": {1, 9, 20}, "c": {2, 30, 0}, "d": {3, 50, 60}} { // by group; 0: any
		n := &neighbour{id: id, heard: now}
		if id == "d" {
			n.heard = now - int64(silence+time.Hour)
		}
		for g, bytes := range budget {
			n.said.Groups = append(n.said.Groups, groupState{Group: g, Budget: bytes})
		}
		s.near.at[id] = n
	}
	s.near.mu.Unlock()
	for _, c := range []struct {
		group  int
		voters []string
		want   int64
	}{
		{1, nil, 0}, {1, []string{"a", "b", "c"}, 9}, {1, []string{"a", "c"}, 30}, {2, []string{"b", "c"}, 20}, {2, []string{"c"}, 0}, {2, []string{"d"}, 0},
	} {
		votes := map[string]bool{"b": false, "c": false, "d": false}
		for _, id := range c.voters {
			votes[id] = true
		}
		if got := s.near.leastBudget(c.group, votes); got != c.want {
			t.Errorf("group %d with the voters %v: %d, want %d", c.group, c.voters, got, c.want)
		}
	}
	for _, c := range []struct{ smallest, want int64 }{{0, half}, {half + 1, half}, {half - 1, half - 1}} {
		s.replicas[1].smallest.Store(c.smallest)
		if got := s.budget(1); got != c.want {
			t.Errorf("others have %d: %d, want %d", c.smallest, got, c.want)
		}
	}
	s.replicas[1].leads.Store(false)
	if got := s.budget(1); got != 0 {
		t.Errorf("a node that follows has a budget of %d", got)
	}
	s.replicas[1].leads.Store(true)
}
