package dashboard

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"limitdb/internal/stats"
)

// Of a cluster of several groups, the page has the nodes and groups of RAFT NODES and RAFT GROUPS, and asks for them in no other.
func TestGroups(t *testing.T) {
	b := newBoard()
	b.snapshot.Replication = stats.Replication{On: true, ID: "n1", Leads: true, Leader: "a:1"}
	b.replies["RAFT INFO"] = "%1\r\n$6\r\ngroups\r\n:1\r\n"
	c := b.serve(t)
	if s := get[state](t, c, "state"); s.Cluster.Groups == nil || s.Cluster.Placed == nil || len(s.Cluster.Groups)+len(s.Cluster.Placed) > 0 || slices.Contains(b.asked, "RAFT GROUPS") {
		t.Errorf("%+v, asked %q", s.Cluster, b.asked)
	}
	b.replies["RAFT INFO"] = "%1\r\n$6\r\ngroups\r\n:2\r\n"
	b.replies["RAFT NODES"] = "*2\r\n%8\r\n" + strings.TrimPrefix(bulk("id", "n1", "client", "a:1", "zone", "east", "state", "online"), "*8\r\n") +
		"$6\r\nweight\r\n:100\r\n$8\r\ndraining\r\n:0\r\n$8\r\nreplicas\r\n:2\r\n$5\r\nleads\r\n:1\r\n" +
		"%3\r\n" + strings.TrimPrefix(bulk("id", "n2", "state", "unreachable"), "*4\r\n") + "$8\r\ndraining\r\n:1\r\n"
	b.replies["RAFT GROUPS"] = "*2\r\n%11\r\n" + strings.TrimPrefix(bulk("leader", "n1", "wanted-leader", "n2"), "*4\r\n") +
		"$5\r\ngroup\r\n:1\r\n$10\r\nfirst-slot\r\n:0\r\n$9\r\nlast-slot\r\n:8191\r\n$5\r\nnodes\r\n" + bulk("n1", "n2", "n3") + "$8\r\nreplicas\r\n" + bulk("n1", "n3 (learner)", "n2") +
		"$7\r\nsettled\r\n:0\r\n$3\r\nlag\r\n:7\r\n$4\r\nkeys\r\n:42\r\n$20\r\ndecisions-per-second\r\n:340\r\n" +
		"%3\r\n" + strings.TrimPrefix(bulk("leader", ""), "*2\r\n") + "$5\r\ngroup\r\n:2\r\n$7\r\nsettled\r\n:1\r\n"
	s := get[state](t, c, "state").Cluster
	if want := []placedNode{{"n1", "a:1", "east", 100, false, true, 2, 1}, {ID: "n2", Draining: true}}; !slices.Equal(s.Placed, want) {
		t.Errorf("%+v", s.Placed)
	}
	want := []keyGroup{
		{1, 0, 8191, "n1", "n2", []string{"n1", "n3 (learner)", "n2"}, []string{"n3"}, false, 7, 42, 340},
		{Number: 2, Settled: true, Replicas: []string{}, To: []string{}},
	}
	if !reflect.DeepEqual(s.Groups, want) {
		t.Errorf("%+v", s.Groups)
	}
}
