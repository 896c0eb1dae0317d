package replication

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/replication/peers"
	"limitdb/replication/redo"
)

// Disk is where a node keeps its data, and how the other nodes reach it.
type Disk struct {
	// Dir is the directory, which is created if it is missing.
	Dir string
	// Group is the group of keys that the directory is for, 0 or more.
	Group int
	// Port is where the other nodes reach this one, for this group and others. The caller closes it after the node.
	Port *peers.Port
	// Redo is the redo log that the replicas of the node share, nil for none. The caller closes it after them.
	Redo *redo.Log
	// Cluster is the id of the cluster that a new directory is for, "" if the node learns that from others, or draws it. Groups is how many
	// groups with keys the cluster has, 0 if that is unknown or of no interest.
	Cluster string
	Groups  int
	// Bootstrap begins a cluster of one node if the directory has none, or the group of the cluster that the directory is for.
	Bootstrap bool
	// Import returns the state with which that cluster begins, or nil if there is none. Import itself may be nil.
	Import func() (*Import, error)

	segment int64 // bytes at which a segment of the log is full, in tests; 0: segmentBytes
}

// parts are where Raft stores its data, and what it talks through.
type parts struct {
	logs      raft.LogStore
	stable    raft.StableStore
	guarded   *guarded // below logs
	snapshots *snapshotStore
	transport raft.Transport
	wire      *peers.Transport // the transport, nil for one in memory
	who       *identity        // nil for a node in memory
	stores    *stores          // nil for a node in memory
	note      string           // the path of the note, "" for none
	close     func() error     // after Raft has stopped
}

// Open starts a node on its directory. If the ID in the options is empty, Open takes the one in the directory, or draws
// a new one.
func Open(o Options, d Disk) (*Node, error) {
	if len(o.Address) > maxAddress {
		return nil, fmt.Errorf("replication: the address %q is longer than %d bytes", o.Address, maxAddress)
	}
	who, err := d.identify(o.ID)
	if err != nil {
		return nil, err
	}
	if err := d.Port.Certifies(who.ID); err != nil {
		return nil, fmt.Errorf("replication: %w", err)
	}
	o.ID, o.server = who.ID, who.server()
	p, err := openParts(&o, d, who)
	if err != nil {
		return nil, err
	}
	l := d.Port.Layer(d.Group)
	l.Join, l.Clients, l.Asks, l.Elapsed, l.Self = who.join, o.Clients, o.Asks, o.Clock.Elapsed, func() peers.Hello { return o.hello(who, p.logs) }
	l.Serve()
	p.wire = peers.NewTransport(l, newRaftLog(o.Log, o.Away))
	p.transport = p.wire
	stores := p.close
	p.close = func() error { return errors.Join(p.wire.Close(), stores()) }
	if err := begin(o, p, d); err != nil {
		return nil, errors.Join(err, p.close())
	}
	n, err := start(o, p)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return n, nil
}

// identify makes the directory, if it is missing, and returns the identity in it. That of a new one is not stored yet.
func (d *Disk) identify(id string) (*identity, error) {
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, err
	}
	above := filepath.Dir(d.Dir)
	for _, dir := range []string{above, filepath.Dir(above)} { // MkdirAll may have made both
		if err := (disk.OS{}).SyncDir(dir); err != nil {
			return nil, err
		}
	}
	who, err := identify(d.Dir, id)
	switch {
	case err != nil:
		return nil, err
	case who.fresh:
		who.Group, who.Groups, who.Cluster = d.Group, d.Groups, d.Cluster
		who.Began = d.Bootstrap && d.Cluster != ""
	case who.Group != d.Group:
		return nil, fmt.Errorf("%w: %s is the directory of group %d, and not of %d", ErrDirectory, d.Dir, who.Group, d.Group)
	case d.Cluster != "" && who.Cluster != d.Cluster:
		return nil, fmt.Errorf("%w: %s belongs to the cluster %s, and the node to %s", ErrDirectory, d.Dir, who.Cluster, d.Cluster)
	case d.Groups != 0 && who.Groups != d.Groups:
		return nil, fmt.Errorf("%w: %s is of a cluster of %d groups, and not of %d", ErrDirectory, d.Dir, who.Groups, d.Groups)
	}
	return who, nil
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
	s, err := openStores(d.Dir, in, true, nil)
	if err != nil {
		return who, false, err
	}
	last, _ := s.log.LastIndex()
	newest, err := snapshots.newest()
	who = Identity{ID: in.ID, Incarnation: in.Incarnation, Cluster: in.Cluster, Groups: in.Groups, Began: in.Began}
	return who, last > 0 || newest != nil, errors.Join(err, s.close())
}

// hello returns the node's hello.
func (o *Options) hello(who *identity, logs raft.LogStore) peers.Hello {
	h := peers.Hello{From: o.server, Cluster: who.cluster(), Client: o.Address, Reads: Format, Writes: max(int(who.inForce.Load()), 1)}
	h.Last, _ = logs.LastIndex() // 0 after an error, which ends the node elsewhere
	if o.Agree != nil {
		h.Agree = o.Agree()
	}
	return h
}

// begin begins a new cluster, if the directory has none and the options ask for one.
func begin(o Options, p parts, d Disk) error {
	if !d.Bootstrap {
		return nil
	}
	if err := p.retractBeginning(); err != nil {
		return err
	}
	has, err := raft.HasExistingState(p.logs, p.stable, p.snapshots)
	if err != nil || has {
		return err
	}
	if begins, err := p.who.begin(); err != nil || !begins {
		return err
	}
	o.Log.Info("a new cluster begins with this node", "id", o.ID, "cluster", p.who.cluster())
	self := raft.Server{ID: raft.ServerID(o.server), Address: raft.ServerAddress(d.Port.Address())}
	if d.Import != nil {
		if from, err := d.Import(); err != nil || from != nil {
			if err == nil {
				err = importState(&p, self, from)
			}
			return err
		}
	}
	return bootstrap(o, p, self)
}

// retractBeginning sets the term back to 0 if this node has begun a cluster, but was stopped before it stored the first
// entry, which Raft does after the term. Nobody has voted in that term.
func (p *parts) retractBeginning() error {
	term, terr := p.stable.GetUint64([]byte(termKey))
	last, err := p.logs.LastIndex()
	if err != nil || terr != nil || term != 1 || last > 0 || !p.who.Began {
		return err
	}
	if newest, err := p.snapshots.newest(); err != nil || newest != nil {
		return err
	}
	return p.guarded.guard("a write of the term", func() error { return p.guarded.StableStore.SetUint64([]byte(termKey), 0) })
}

// logCache is how many entries are kept in memory for followers that are nearly up to date.
const logCache = 64

// openParts opens the stores, and creates those of a new node.
func openParts(o *Options, d Disk, who *identity) (parts, error) {
	if who.fresh {
		if err := createStores(d.Dir, who); err != nil {
			return parts{}, fmt.Errorf("replication: %w", err)
		}
	}
	s, err := openStores(d.Dir, who, false, d.Redo)
	if err != nil {
		return parts{}, err
	}
	snapshots, err := openSnapshots(disk.OS{}, filepath.Join(d.Dir, snapshotsDir))
	if err == nil {
		err = s.verify(snapshots)
	}
	if err != nil {
		return parts{}, errors.Join(err, s.close())
	}
	g := &guarded{elapsed: o.Clock.Elapsed, stall: o.stall, LogStore: s.log, StableStore: s.votes, snapshots: snapshots, fatal: o.Fatal}
	snapshots.sees = g.sees
	if o.Log != nil {
		snapshots.log = o.Log
	}
	logs, err := raft.NewLogCache(logCache, g)
	if err != nil {
		return parts{}, errors.Join(err, s.close())
	}
	if d.segment > 0 {
		s.log.segment = d.segment
	}
	return parts{logs: logs, stable: g, guarded: g, snapshots: snapshots, who: who, stores: &s, note: filepath.Join(d.Dir, noteFile), close: func() error {
		return errors.Join(s.last.reach(s.log), s.close())
	}}, nil
}
