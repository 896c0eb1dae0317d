package groups

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a directory.
const (
	// MaxNodes is the largest number of nodes.
	MaxNodes = 256
	// MaxReplicas is the largest number of replicas of a group, and of voters in group 0.
	MaxReplicas = 5
	// MaxWeight is the largest weight of a node. The least is 1.
	MaxWeight = 10_000
	// MaxName is the largest length of a node's id and of a zone, MaxAddress that of an address, in bytes.
	MaxName, MaxAddress = 63, 300
)

// Errors of a change that is refused. Every node refuses the same changes, since all have the same directory.
var (
	// ErrStale is returned for a change that was computed from a directory or a place that is not the current one.
	ErrStale = errors.New("groups: the directory has changed meanwhile")
	// ErrBegun is returned for a second Begin, and for any other change before the first.
	ErrBegun = errors.New("groups: a directory begins once, with Begin")
	// ErrNode is returned for a node that the directory does not have.
	ErrNode = errors.New("groups: there is no such node")
	// ErrInvalid is returned for a change with a value out of bounds.
	ErrInvalid = errors.New("groups: invalid")
)

// Directory is what all nodes know about the cluster's nodes and groups: the state of group 0. It is a value: Apply
// returns another one, and never changes what it was given. The zero Directory has not begun.
type Directory struct {
	Revision uint64  // counts the changes
	Replicas int     // how many replicas a group is to have: 1, 3 or 5; fewer while there are fewer nodes
	Nodes    []Node  // by ID
	Places   []Place // by group; group 0 is the directory itself, and its place names its voters
}

// Node is a member of the cluster.
type Node struct {
	ID       string // its raft-id
	Client   string // where clients reach it, host:port
	Raft     string // where other nodes reach it, host:port
	Zone     string // what it may be lost together with; nodes without a zone are in one zone
	Weight   int    // how much it takes, beside the others
	Draining bool   // everything is to leave it
}

// Place says where the replicas of a group are to be. The group is brought there step by step: see Reconcile.
type Place struct {
	Version uint64   // counts the changes of this place
	Nodes   []string // the ids of the nodes that are to vote, in their order
	Leader  string   // who is to lead; "" if nobody in particular, as in group 0
	Joining []string // those of Nodes that are not known to be there yet, in their order
	Leaving []string // others that may still have a replica, in their order
}

// Settled reports whether the group is known to have come to its place.
func (p Place) Settled() bool { return len(p.Joining) == 0 && len(p.Leaving) == 0 }

// Has reports whether a node is to have a replica.
func (p Place) Has(id string) bool { return slices.Contains(p.Nodes, id) }

// Groups returns the number of groups that have keys, 0 before Begin.
func (d Directory) Groups() int { return max(0, len(d.Places)-1) }

// Node returns the node with an id.
func (d Directory) Node(id string) (Node, bool) {
	if i, ok := d.find(id); ok {
		return d.Nodes[i], true
	}
	return Node{}, false
}

// find returns where a node is in Nodes, or would be.
func (d Directory) find(id string) (int, bool) {
	return slices.BinarySearchFunc(d.Nodes, id, func(n Node, id string) int { return cmp.Compare(n.ID, id) })
}

// Check returns an error that wraps ErrInvalid if the directory is none that Apply can make.
func (d Directory) Check() error {
	if len(d.Places) == 0 {
		if d.Revision != 0 || d.Replicas != 0 || len(d.Nodes) != 0 {
			return fmt.Errorf("%w: a directory that has not begun has something", ErrInvalid)
		}
		return nil
	}
	if !ValidCount(d.Groups()) || !validReplicas(d.Replicas) || len(d.Nodes) == 0 || len(d.Nodes) > MaxNodes || d.Revision == 0 {
		return fmt.Errorf("%w: %d groups, %d replicas, %d nodes, revision %d", ErrInvalid, d.Groups(), d.Replicas, len(d.Nodes), d.Revision)
	}
	for i, n := range d.Nodes {
		if err := n.check(); err != nil {
			return err
		}
		if i > 0 && d.Nodes[i-1].ID >= n.ID {
			return fmt.Errorf("%w: the nodes are not in their order", ErrInvalid)
		}
	}
	for g, p := range d.Places {
		if err := p.check(g); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) check() error {
	if err := checkName(n.ID); err != nil {
		return err
	}
	switch {
	case n.Zone != "" && !validText(n.Zone, MaxName):
		return fmt.Errorf("%w: zone %q", ErrInvalid, n.Zone)
	case !validText(n.Client, MaxAddress) || !validText(n.Raft, MaxAddress):
		return fmt.Errorf("%w: address %q, %q", ErrInvalid, n.Client, n.Raft)
	case n.Weight < 1 || n.Weight > MaxWeight:
		return fmt.Errorf("%w: weight %d", ErrInvalid, n.Weight)
	}
	return nil
}

func (p *Place) check(group int) error {
	valid := p.Version > 0 && len(p.Nodes) >= 1 && len(p.Nodes) <= MaxReplicas && validIDs(p.Nodes) &&
		validIDs(p.Joining) && validIDs(p.Leaving) && len(p.Leaving) <= MaxNodes &&
		(p.Leader == "" || group > 0 && p.Has(p.Leader))
	for _, id := range p.Joining {
		valid = valid && p.Has(id)
	}
	for _, id := range p.Leaving {
		valid = valid && !p.Has(id)
	}
	if !valid {
		return fmt.Errorf("%w: the place of group %d", ErrInvalid, group)
	}
	return nil
}

func checkName(id string) error {
	if !validName(id) {
		return fmt.Errorf("%w: node id %q", ErrInvalid, id)
	}
	return nil
}

func checkGroup(group int) error {
	if group < 0 || group > Most {
		return fmt.Errorf("%w: group %d", ErrInvalid, group)
	}
	return nil
}

func validReplicas(n int) bool { return n == 1 || n == 3 || n == 5 }

// validIDs reports whether ids are those of nodes, each once and in their order.
func validIDs(ids []string) bool {
	for i, id := range ids {
		if !validName(id) || i > 0 && ids[i-1] >= id {
			return false
		}
	}
	return true
}

// validName reports whether s may be the id of a node: letters, digits, hyphens and underscores, as in raft-id.
func validName(s string) bool {
	return s != "" && len(s) <= MaxName && !strings.ContainsFunc(s, func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// validText reports whether s has 1 to most bytes, all of them printable ASCII other than the space.
func validText(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
