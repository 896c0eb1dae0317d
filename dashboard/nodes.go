package dashboard

import (
	"context"
	"fmt"
	"time"

	"limitdb/observe"
	"limitdb/resp"
)

// Node is a node of the cluster, as another one sees it.
type Node struct {
	ID      string `json:"id"`
	Address string `json:"address"` // that peers dial
	Client  string `json:"client"`  // that clients use, "" if the node does not answer
	Self    bool   `json:"self"`
	Leads   bool   `json:"leads"`
	Votes   bool   `json:"votes"`
	Answers bool   `json:"answers"`
	Contact int64  `json:"contact_ms"` // since it answered last, -1 for never
	Behind  int64  `json:"behind"`     // entries of the log that the leader is known to have and it is not, -1 if unknown
}

// cluster is what this node knows of the others.
type cluster struct {
	On      bool   `json:"on"`
	ID      string `json:"id"`
	Leads   bool   `json:"leads"`
	Leader  string `json:"leader"` // where clients reach it, "" if none is known
	Term    uint64 `json:"term"`
	Behind  uint64 `json:"behind"`     // entries that this node has to apply
	Contact int64  `json:"contact_ms"` // since the leader was heard, -1 for never
	Nodes   []Node `json:"nodes"`
	// Of a cluster of several groups; else empty.
	Placed []placedNode `json:"placed"`
	Groups []keyGroup   `json:"groups"`
}

// clusterOf returns what this node knows. It never waits for another one.
func (do Commands) clusterOf(ctx context.Context, s *observe.Snapshot) cluster {
	r := &s.Replication
	c := cluster{On: r.On, ID: r.ID, Leads: r.Leads, Leader: r.Leader, Term: r.Term, Contact: r.LastContact, Nodes: []Node{}, Placed: []placedNode{}, Groups: []keyGroup{}}
	if !c.On {
		return c
	}
	if r.LastContact > 0 {
		c.Contact = r.LastContact / int64(time.Millisecond)
	}
	c.Behind = r.Committed - min(r.Committed, r.Applied)
	v, err := do.ask(ctx, "RAFT", "SERVER", "LIST")
	if err != nil {
		return c // the node starts or stops
	}
	c.Nodes = Nodes(v, r.ID)
	if nodes, groups := do.groups(ctx); len(groups) > 0 {
		c.Placed, c.Groups = nodes, groups
	}
	return c
}

// Nodes returns the nodes in a reply to RAFT SERVER LIST of the node self.
func Nodes(v resp.Value, self string) []Node {
	last := int64(-1) // unknown while no node leads
	all := make([]fields, len(v.Elems))
	for i, e := range v.Elems {
		all[i] = fieldsOf(e)
		if all[i].text("role") == "leader" {
			last = all[i].int("last-index") // heard in the same second as those of the others
		}
	}
	nodes := make([]Node, 0, len(all))
	for _, f := range all {
		n := Node{
			ID: f.text("id"), Address: f.text("address"), Client: f.text("client"), Self: f.text("id") == self, Leads: f.text("role") == "leader",
			Votes: f.text("vote") == "voter", Answers: f.text("state") == "online", Contact: f.int("last-contact-ms"), Behind: -1,
		}
		if at := f.int("last-index"); at >= 0 && last >= 0 && n.Answers {
			n.Behind = max(0, last-at)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// concern is something that an operator should know.
type concern struct {
	Grave bool   `json:"grave"` // decisions are not made, or changes are lost
	Text  string `json:"text"`
}

// The bounds above which something is a concern.
const (
	lagsBy        = 1000                // entries
	clockOff      = time.Second         // from the machine's clock
	expiresSoon   = 14 * 24 * time.Hour // a certificate
	clientsNearly = 0.9                 // of maxclients
)

// concerns returns what an operator should know of this node and its cluster, the gravest first.
func concerns(s *observe.Snapshot, c *cluster, ready error) []concern {
	all := []concern{}
	grave := func(is bool, format string, args ...any) {
		if is {
			all = append(all, concern{true, fmt.Sprintf(format, args...)})
		}
	}
	slight := func(is bool, format string, args ...any) {
		if is {
			all = append(all, concern{false, fmt.Sprintf(format, args...)})
		}
	}
	if ready != nil { // also while no node leads
		grave(true, "No decisions are made here: %s.", ready)
	}
	grave(s.Refusing, "The log cannot be written, so changes are refused. Is the disk full?")
	none := ready == nil && c.On && c.Leader == "" && !c.Leads
	grave(none && len(c.Groups) == 0, "No node leads: decisions wait for one.")
	if n := leaderless(c.Groups); n > 0 {
		grave(true, "No node leads %d of %d groups: decisions on their keys wait for one.", n, len(c.Groups))
	}
	for _, n := range s.Certificates {
		grave(n.Left <= 0, "The certificate of %s has expired.", n.Directive)
	}
	slight(none && len(c.Groups) > 0, "No node leads group 0: rules, users and the places of groups cannot change.")
	for _, n := range c.Nodes {
		switch {
		case !n.Answers && n.Contact >= 0:
			slight(true, "Node %s has not answered for %s.", n.ID, (time.Duration(n.Contact) * time.Millisecond).Round(time.Second))
		case !n.Answers:
			slight(true, "Node %s does not answer.", n.ID)
		}
		slight(n.Behind > lagsBy, "Node %s is %d entries behind.", n.ID, n.Behind)
	}
	slight(c.Behind > lagsBy, "This node has still to apply %d entries.", c.Behind)
	slight(s.Durability.LastSnapshotFailed, "The last snapshot failed: the log of the server says why.")
	slight(s.RulesProblem, "The last change of the rules had a mistake, so the rules before it are in force: INFO has it in rules_last_error.")
	slight(!s.Config.LastReloadOK, "The last reload of the configuration failed: the log of the server says why.")
	for _, n := range s.Certificates {
		slight(n.Left > 0 && n.Left < expiresSoon, "The certificate of %s expires in %d days.", n.Directive, int(n.Left.Hours())/24)
	}
	slight(s.Clients.Max > 0 && float64(s.Clients.Connected) > clientsNearly*float64(s.Clients.Max), "%d of %d clients are connected: above maxclients, more are refused.", s.Clients.Connected, s.Clients.Max)
	slight(s.ClockOffset.Abs() > clockOff, "The clock of decisions is %s off the machine's: see RL.CLOCK.", s.ClockOffset.Abs().Round(time.Millisecond))
	return all
}
