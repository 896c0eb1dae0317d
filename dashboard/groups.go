package dashboard

import (
	"context"
	"slices"
)

// placedNode is a node of a cluster of several groups, as the directory and the node that is asked know it.
type placedNode struct {
	ID       string `json:"id"`
	Client   string `json:"client"`
	Zone     string `json:"zone"`
	Weight   int64  `json:"weight"`
	Draining bool   `json:"draining"`
	Answers  bool   `json:"answers"`
	Replicas int64  `json:"replicas"`
	Leads    int64  `json:"leads"`
}

// keyGroup is a group of keys.
type keyGroup struct {
	Number   int64    `json:"number"`
	First    int64    `json:"first"` // its slots
	Last     int64    `json:"last"`
	Leader   string   `json:"leader"` // "" if none is known
	Wanted   string   `json:"wanted"` // that is to lead
	Replicas []string `json:"replicas"`
	To       []string `json:"to"` // nodes on which the group is to be, and is not
	Settled  bool     `json:"settled"`
	Lag      int64    `json:"lag"` // most entries that a replica lacks
	Keys     int64    `json:"keys"`
	Rate     int64    `json:"rate"` // decisions a second
}

// groups returns the nodes and the groups of a cluster of several, as the node knows them; nothing in any other.
func (do Commands) groups(ctx context.Context) (nodes []placedNode, groups []keyGroup) {
	v, err := do.ask(ctx, "RAFT", "INFO")
	if err != nil || fieldsOf(v).int("groups") <= 1 {
		return nil, nil
	}
	if v, err = do.ask(ctx, "RAFT", "NODES"); err != nil {
		return nil, nil // the node starts or stops
	}
	for _, e := range v.Elems {
		f := fieldsOf(e)
		nodes = append(nodes, placedNode{
			f.text("id"), f.text("client"), f.text("zone"), f.int("weight"), f.int("draining") == 1, f.text("state") == "online", f.int("replicas"), f.int("leads"),
		})
	}
	if v, err = do.ask(ctx, "RAFT", "GROUPS"); err != nil {
		return nil, nil
	}
	for _, e := range v.Elems {
		f := fieldsOf(e)
		g := keyGroup{
			Number: f.int("group"), First: f.int("first-slot"), Last: f.int("last-slot"), Leader: f.text("leader"), Wanted: f.text("wanted-leader"),
			Replicas: texts(f["replicas"]), To: texts(f["nodes"]), Settled: f.int("settled") == 1, Lag: f.int("lag"), Keys: f.int("keys"), Rate: f.int("decisions-per-second"),
		}
		g.To = slices.DeleteFunc(g.To, func(id string) bool { return slices.Contains(g.Replicas, id) })
		groups = append(groups, g)
	}
	return nodes, groups
}

// leaderless returns how many groups nobody leads.
func leaderless(groups []keyGroup) (n int) {
	for i := range groups {
		if groups[i].Leader == "" {
			n++
		}
	}
	return n
}
