package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"limitdb/internal/stats"
)

func TestNodes(t *testing.T) {
	b := newBoard()
	b.snapshot.Config.LastReloadOK = true
	b.snapshot.Replication = stats.Replication{On: true, ID: "n1", Leads: true, Leader: "a:1", Term: 3, Committed: 5000, Applied: 5000}
	server := func(id, role, state string, last, contact int) string {
		return "%7\r\n" + strings.TrimPrefix(bulk("id", id, "client", "a:1", "vote", "voter", "role", role, "state", state), "*10\r\n") +
			fmt.Sprintf("$10\r\nlast-index\r\n:%d\r\n$15\r\nlast-contact-ms\r\n:%d\r\n", last, contact)
	}
	b.replies["RAFT SERVER LIST"] = "*4\r\n" + server("n1", "leader", "online", 5000, 0) + server("n2", "follower", "online", 3000, 8) + server("n3", "follower", "unreachable", 4000, 12500) + server("n4", "follower", "unreachable", -1, -1)
	s := get[state](t, b.serve(t), "state")
	want := []Node{
		{ID: "n1", Client: "a:1", Self: true, Leads: true, Votes: true, Answers: true},
		{ID: "n2", Client: "a:1", Votes: true, Answers: true, Contact: 8, Behind: 2000},
		{ID: "n3", Client: "a:1", Votes: true, Contact: 12500, Behind: -1},
		{ID: "n4", Client: "a:1", Votes: true, Contact: -1, Behind: -1},
	}
	if !slices.Equal(s.Cluster.Nodes, want) {
		t.Errorf("%+v", s.Cluster.Nodes)
	}
	var said []string
	for _, c := range s.Concerns {
		said = append(said, c.Text)
	}
	if got := strings.Join(said, " "); got != "Node n2 is 2000 entries behind. Node n3 has not answered for 13s. Node n4 does not answer." {
		t.Error(got)
	}
}
