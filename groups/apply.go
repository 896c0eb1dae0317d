package groups

import (
	"errors"
	"fmt"
	"slices"
)

// Begin begins a directory: all groups are on one node.
type Begin struct {
	Groups   int // how many groups have keys, from 1 to Most, a power of two; it never changes
	Replicas int // see Directory
	Node     Node
}

// SetReplicas changes how many replicas a group is to have.
type SetReplicas struct{ Replicas int }

// SetNode adds a node, or changes one. Of a node that is there, it leaves Draining as it is.
type SetNode struct{ Node Node }

// Drain has everything leave a node, or no longer.
type Drain struct {
	ID string
	On bool
}

// RemoveNode removes a node. Removable says whether it may, by a directory of a revision; if that is not the current one,
// it must be asked again.
type RemoveNode struct {
	ID       string
	Revision uint64
}

// SetPlace changes the place of a group. Version is the new one, which follows the one that the change was computed from.
type SetPlace struct {
	Group   int
	Version uint64
	Nodes   []string
	Leader  string
}

// Complete says that a group has come to its place of a version.
type Complete struct {
	Group   int
	Version uint64
}

// Apply returns the directory after a change. An error means that the change is refused, and d is returned as it is.
func (d Directory) Apply(r Record) (Directory, error) {
	next := d
	next.Nodes, next.Places = slices.Clone(d.Nodes), slices.Clone(d.Places)
	if _, begins := r.(Begin); begins != (d.Groups() == 0) {
		return d, ErrBegun
	}
	if err := r.check(); err != nil {
		return d, err
	}
	if err := r.apply(&next); err != nil {
		return d, err
	}
	next.Revision++
	return next, nil
}

func (r Begin) check() error {
	if !ValidCount(r.Groups) || !validReplicas(r.Replicas) || r.Node.Draining {
		return fmt.Errorf("%w: a beginning with %d groups of %d replicas", ErrInvalid, r.Groups, r.Replicas)
	}
	return r.Node.check()
}

func (r SetReplicas) check() error {
	if !validReplicas(r.Replicas) {
		return fmt.Errorf("%w: %d replicas", ErrInvalid, r.Replicas)
	}
	return nil
}

func (r SetNode) check() error    { return r.Node.check() }
func (r Drain) check() error      { return checkName(r.ID) }
func (r RemoveNode) check() error { return checkName(r.ID) }

func (r SetPlace) check() error {
	p := Place{Version: r.Version, Nodes: r.Nodes, Leader: r.Leader}
	return errors.Join(checkGroup(r.Group), p.check(r.Group))
}

func (r Complete) check() error { return checkGroup(r.Group) }

func (r Begin) apply(d *Directory) error {
	d.Replicas, d.Places = r.Replicas, make([]Place, 1+r.Groups)
	for g := range d.Places {
		d.Places[g] = Place{Version: 1, Nodes: []string{r.Node.ID}}
		if g > 0 {
			d.Places[g].Leader = r.Node.ID
		}
	}
	return SetNode{r.Node}.apply(d)
}

func (r SetReplicas) apply(d *Directory) error {
	d.Replicas = r.Replicas
	return nil
}

func (r SetNode) apply(d *Directory) error {
	for _, n := range d.Nodes {
		if n.ID != r.Node.ID && (n.Raft == r.Node.Raft || n.Client == r.Node.Client) {
			return fmt.Errorf("%w: node %s has the address of node %s", ErrInvalid, r.Node.ID, n.ID)
		}
	}
	i, known := d.find(r.Node.ID)
	switch {
	case known:
		draining := d.Nodes[i].Draining
		d.Nodes[i] = r.Node
		d.Nodes[i].Draining = draining
	case len(d.Nodes) == MaxNodes:
		return fmt.Errorf("%w: more than %d nodes", ErrInvalid, MaxNodes)
	default:
		d.Nodes = slices.Insert(d.Nodes, i, r.Node)
	}
	return nil
}

func (r Drain) apply(d *Directory) error {
	i, ok := d.find(r.ID)
	if !ok {
		return ErrNode
	}
	if r.On && !slices.ContainsFunc(d.Nodes, func(n Node) bool { return n.ID != r.ID && !n.Draining }) {
		return fmt.Errorf("%w: no node is left for what leaves node %s", ErrInvalid, r.ID)
	}
	d.Nodes[i].Draining = r.On
	return nil
}

func (r RemoveNode) apply(d *Directory) error {
	i, ok := d.find(r.ID)
	switch {
	case !ok:
		return ErrNode
	case r.Revision != d.Revision:
		return ErrStale
	case !slices.ContainsFunc(d.Nodes, func(n Node) bool { return n.ID != r.ID && !n.Draining }):
		return fmt.Errorf("%w: no node is left for what node %s has", ErrInvalid, r.ID)
	}
	d.Nodes = slices.Delete(d.Nodes, i, i+1)
	for g := range d.Places {
		p := &d.Places[g]
		if !p.Has(r.ID) {
			continue
		}
		// A node that comes back under this id is another one, without the replica. The version tells those who still
		// look at the old place.
		p.Version++
		if j, known := slices.BinarySearch(p.Joining, r.ID); !known {
			p.Joining = slices.Insert(slices.Clone(p.Joining), j, r.ID)
		}
	}
	return nil
}

func (r SetPlace) apply(d *Directory) error {
	if r.Group >= len(d.Places) {
		return fmt.Errorf("%w: group %d of %d", ErrInvalid, r.Group, d.Groups())
	}
	old := d.Places[r.Group]
	if r.Version != old.Version+1 {
		return ErrStale
	}
	next := Place{Version: r.Version, Nodes: slices.Clone(r.Nodes), Leader: r.Leader}
	for _, id := range r.Nodes {
		n, ok := d.Node(id)
		switch {
		case old.Has(id):
		case !ok:
			return ErrNode
		case n.Draining:
			return fmt.Errorf("%w: node %s is draining", ErrInvalid, id)
		}
		if !old.Has(id) || slices.Contains(old.Joining, id) {
			next.Joining = append(next.Joining, id)
		}
	}
	for _, id := range slices.Concat(old.Nodes, old.Leaving) {
		if !next.Has(id) {
			next.Leaving = append(next.Leaving, id)
		}
	}
	slices.Sort(next.Leaving)
	if len(next.Leaving) > MaxNodes {
		return fmt.Errorf("%w: group %d has been placed too often before it came to a place", ErrInvalid, r.Group)
	}
	d.Places[r.Group] = next
	return nil
}

func (r Complete) apply(d *Directory) error {
	if r.Group >= len(d.Places) {
		return fmt.Errorf("%w: group %d of %d", ErrInvalid, r.Group, d.Groups())
	}
	p := &d.Places[r.Group]
	if r.Version != p.Version {
		return ErrStale
	}
	p.Joining, p.Leaving = nil, nil
	return nil
}
