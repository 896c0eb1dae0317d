package groups

import (
	"errors"
	"fmt"
	"slices"
)

// Errors of Removable, beside ErrNode. What is needed may change: a node that is silent may answer again, and one that
// drains is needed by no group in the end.
var (
	// ErrNeeded is returned for a node without which a group would have no majority.
	ErrNeeded = errors.New("groups: the node is needed")
	// ErrLeaderless is returned if nobody knows who votes in a group that the node may vote in.
	ErrLeaderless = errors.New("groups: no leader says who votes")
)

// Removable returns the change that removes a node, if every group would have a majority of voters without it: of the
// voters that there are now, including the node, since it is one until another has replaced it. voters returns the nodes
// that vote in a group, as the group's leader says, or nil if there is none.
func Removable(d Directory, f Facts, id string, voters func(group int) []string) (RemoveNode, error) {
	if _, ok := d.Node(id); !ok {
		return RemoveNode{}, ErrNode
	}
	for g, place := range d.Places {
		vote := voters(g)
		if vote == nil && (place.Has(id) || slices.Contains(place.Leaving, id)) {
			return RemoveNode{}, fmt.Errorf("%w in group %d, where node %s may be one of those", ErrLeaderless, g, id)
		}
		if !slices.Contains(vote, id) {
			continue
		}
		answer := 0
		for _, v := range vote {
			if _, member := d.Node(v); member && v != id && !f.Silent[v] {
				answer++
			}
		}
		if answer <= len(vote)/2 {
			return RemoveNode{}, fmt.Errorf("%w: without node %s, group %d would have %d of the %d voters that it has, which is no majority", ErrNeeded, id, g, answer, len(vote))
		}
	}
	return RemoveNode{id, d.Revision}, nil
}
