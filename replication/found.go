package replication

import (
	"errors"
	"io/fs"
	"path/filepath"

	"limitdb/internal/disk"
)

// A node of a cluster of several groups keeps in the directory of group 0 of which cluster it is, and how many groups that has. That directory is
// the first that it makes. A cluster begins when its group 0 does, which is the last to begin.

// Identity is who a node is, as one of its directories says.
type Identity struct {
	ID, Incarnation string
	Cluster         string // "" until the node is a member of one
	Groups          int    // with keys, 0 in a cluster of one group
	Began           bool   // the node has begun the cluster
}

// Known returns the identity in a directory, the zero Identity if there is none.
func Known(dir string) (Identity, error) {
	var s stored
	path := filepath.Join(dir, nodeFile)
	switch err := disk.ReadRecord(disk.OS{}, path, nodeKind, &s); {
	case errors.Is(err, fs.ErrNotExist):
		return Identity{}, nil
	case err != nil:
		return Identity{}, ofFile(path, err)
	}
	return Identity{ID: s.ID, Incarnation: s.Incarnation, Cluster: s.Cluster, Groups: s.Groups, Began: s.Began}, nil
}

// Found makes a new directory, and returns the identity in it. If the node begins a cluster, that has an id from now on, and its other groups can
// begin. begun reports whether the group of the directory has something in its log already.
func Found(id string, d Disk) (who Identity, begun bool, err error) {
	in, err := d.identify(id)
	if err != nil {
		return who, false, err
	}
	if in.fresh {
		if err := createStores(d.Dir, in); err != nil {
			return who, false, err
		}
	}
	if d.Bootstrap {
		if _, err := in.begin(); err != nil {
			return who, false, err
		}
	}
	snapshots, err := openSnapshots(disk.OS{}, filepath.Join(d.Dir, snapshotsDir))
	if err != nil {
		return who, false, err
	}
	s, err := openStores(d.Dir, in, true)
	if err != nil {
		return who, false, err
	}
	last, _ := s.log.LastIndex()
	newest, err := snapshots.newest()
	who = Identity{ID: in.ID, Incarnation: in.Incarnation, Cluster: in.Cluster, Groups: in.Groups, Began: in.Began}
	return who, last > 0 || newest != nil, errors.Join(err, s.close())
}
