package serve

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"limitdb/groups"
	"limitdb/replication"
)

// How many groups of keys the cluster has is said where it begins, and kept in the node's directory for group 0. A node that joins begins as that
// of a cluster of one group. When it learns that there are more, the process begins again.

// Replicas returns the directories of a node of a cluster that a data directory has, one for each group.
func Replicas(dir string) (dirs []string) {
	for g := range groups.Most + 1 {
		if d := filepath.Join(dir, raftDirs, strconv.Itoa(g)); replication.HasNode(d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// ofSeveral returns an error if a data directory is that of a node of a cluster of several groups.
func ofSeveral(dir string) error {
	if replication.HasNode(filepath.Join(dir, raftDirs, "0")) {
		return fmt.Errorf("%s is of a node of a cluster of several groups, of which no single node makes a cluster: limitdb export makes a directory from those of all nodes that are left, with which a new cluster can begin", dir)
	}
	return nil
}

// learned is the reason to begin again: the cluster has so many groups.
type learned int

func (n learned) Error() string { return fmt.Sprintf("the cluster has %d groups", int(n)) }

// countGroups returns how many groups with keys the cluster has, 1 if the node does not know better.
func (m *member) countGroups() (int, error) {
	set := m.p.set
	want := max(m.p.learned, int(set.RaftGroups.Get()))
	if !groups.ValidCount(want) {
		return 0, fmt.Errorf("raft-groups %d: it is a power of two from 1 to %d", want, groups.Most)
	}
	dir, err := filepath.Abs(set.Dir.Get())
	if err != nil {
		return 0, err
	}
	known, err := replication.Known(filepath.Join(dir, raftDirs, "0"))
	switch {
	case err != nil:
		return 0, err
	case known.Groups > 0 && want > 1 && want != known.Groups:
		return 0, fmt.Errorf("raft-groups is %d, and the cluster of this node has %d groups, which never changes: a new cluster can begin with what limitdb export makes from it", want, known.Groups)
	case known.Groups > 0:
		return known.Groups, nil
	case want > 1 && replication.InCluster(filepath.Join(dir, RaftDir)):
		return 0, fmt.Errorf("raft-groups is %d, and the cluster of this node has one group, which never changes: a new cluster can begin with what limitdb export makes from it", want)
	}
	return want, nil
}

// count returns how many groups with keys this process has.
func (m *member) count() int {
	if m.several != nil {
		return m.several.count
	}
	return 1
}

// agrees returns an error if a cluster that the node is to join has another number of groups, as a member says. It may be learned.
func (m *member) agrees(said string) error {
	n, err := strconv.Atoi(said)
	switch {
	case said == "" || err == nil && n == m.count():
		return nil
	case err != nil || !groups.ValidCount(n):
		return errors.New("it has a number of groups that this version does not know: " + said)
	case m.count() > 1:
		return fmt.Errorf("raft-groups is %d, and the cluster there has %d groups", m.count(), n)
	}
	return learned(n)
}
