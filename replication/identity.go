package replication

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"limitdb/internal/disk"
	"limitdb/replication/peers"
)

// A node has a directory for each group, with an incarnation that is drawn at random when the directory is made. The Raft of the group knows the node by
// its server id, which is the raft-id and the incarnation. So a node that has lost its directory is another server to
// Raft. It must be, because it has forgotten what it voted for and acknowledged.

// ErrDirectory is returned for a directory that belongs to another node or another cluster.
var ErrDirectory = errors.New("replication: not the directory of this node")

// nodeKind is the kind of the record in the file "node".
const nodeKind = "node"

// stored is what the file "node" has.
type stored struct {
	ID          string // the raft-id
	Group       int
	Incarnation string
	Cluster     string // "" until the node is a member of one
	Began       bool   // the node has begun the cluster, or its group
	Groups      int    `json:",omitempty"` // how many groups with keys the cluster has, if the node was told
}

// identity is who a node is, as its file "node" says.
type identity struct {
	path  string
	fresh bool // the directory has no such file yet

	inForce atomic.Uint32 // the format of entries in force, 0 until the node knows

	mu sync.Mutex // guards stored
	stored
}

// draw returns 16 random hexadecimal digits.
func draw() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// identify returns the identity in a directory. If there is none, it draws a new one with the given raft-id, or a random one
// if that is empty. createStores stores it.
func identify(dir, name string) (*identity, error) {
	who := &identity{path: filepath.Join(dir, nodeFile)}
	err := disk.ReadRecord(disk.OS{}, who.path, nodeKind, &who.stored)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		who.fresh, who.stored = true, stored{ID: name, Incarnation: draw()}
		if name == "" {
			who.ID = draw()
		}
	case err != nil:
		return nil, ofFile(who.path, err)
	case name != "" && name != who.ID:
		return nil, fmt.Errorf("%w: %s is the directory of node %s, and not of %s", ErrDirectory, dir, who.ID, name)
	}
	return who, nil
}

// store makes the identity durable. The caller holds the lock, or no one else has the identity yet.
func (who *identity) store() error {
	err := disk.WriteRecord(disk.OS{}, who.path, nodeKind, who.stored)
	who.fresh = who.fresh && err != nil
	return err
}

// server returns the node's server id.
func (who *identity) server() string { return peers.ServerID(who.ID, who.Incarnation) }

// cluster returns the id of the node's cluster, or "" if it is in none.
func (who *identity) cluster() string {
	who.mu.Lock()
	defer who.mu.Unlock()
	return who.Cluster
}

// begin notes that the node begins a cluster. It returns false if another node has begun its cluster already: that node
// must come back.
func (who *identity) begin() (bool, error) {
	who.mu.Lock()
	defer who.mu.Unlock()
	if who.Cluster == "" {
		who.Cluster, who.Began = draw(), true
		return true, who.store()
	}
	return who.Began, nil
}

// InCluster reports whether a directory is that of a node that is, or was, a member of a cluster.
func InCluster(dir string) bool {
	var s stored
	return disk.ReadRecord(disk.OS{}, filepath.Join(dir, nodeFile), nodeKind, &s) == nil && s.Cluster != ""
}

// join stores the id of the node's cluster. It returns ErrDirectory if the node is in another cluster.
func (who *identity) join(cluster string) error {
	who.mu.Lock()
	defer who.mu.Unlock()
	switch who.Cluster {
	case cluster:
		return nil
	case "":
		who.Cluster = cluster
		return who.store()
	}
	return fmt.Errorf("%w: it belongs to the cluster %s, not to %s", ErrDirectory, who.Cluster, cluster)
}

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
