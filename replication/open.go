package replication

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
)

// Disk is where a node keeps its own, and how it is reached by the others.
type Disk struct {
	// Dir is the directory, which is made where it is missing.
	Dir string
	// Address is what the node's peers dial: a host and a port, at which the node listens. Without Certificates, the host must be
	// an IP address of loopback.
	Address string
	// Certificates are by which the nodes know one another, or nil.
	Certificates *Certificates
	// Bootstrap starts a cluster of one where the directory has none.
	Bootstrap bool
	// Import returns the state with which that cluster begins, or nil. If it is nil, there is none.
	Import func() (*Import, error)
}

// The node's directory has a file "node", which says whose it is, Raft's log and vote, and the snapshots.
const (
	nodeFile     = "node"
	logDir       = "log"
	voteFile     = "vote"
	snapshotsDir = "snapshots"
)

// Open starts a node on its directory. An empty ID in the options is that of the directory, or a new one.
func Open(o Options, d Disk) (*Node, error) {
	l, err := listen(d.Address, d.Certificates, o.Log)
	if err != nil {
		return nil, err
	}
	n, err := openOn(o, d, l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return n, nil
}

// openOn starts a node that listens already. After an error, the layer is still open.
func openOn(o Options, d Disk, l *layer) (*Node, error) {
	if len(o.Address) > maxAddress {
		return nil, fmt.Errorf("replication: the address %q is longer than %d bytes", o.Address, maxAddress)
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, err
	}
	who, err := identify(d.Dir, o.ID)
	if err != nil {
		return nil, err
	}
	if d.Certificates != nil {
		if err := d.Certificates.Check(who.ID); err != nil {
			return nil, fmt.Errorf("replication: %w", err)
		}
	}
	o.ID, o.server = who.ID, who.server()
	p, err := openParts(&o, d)
	if err != nil {
		return nil, err
	}
	p.who = who
	l.join, l.clients, l.self = who.join, o.Clients, func() hello { return o.hello(who) }
	p.wire = newWire(l)
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

// hello is what the node says of itself.
func (o *Options) hello(who *identity) hello {
	h := hello{From: o.server, Cluster: who.cluster(), Client: o.Address, Reads: Format, Writes: max(int(who.inForce.Load()), 1)}
	if o.Agree != nil {
		h.Agree = o.Agree()
	}
	return h
}

// begin makes a new cluster where the directory has none and one is asked for.
func begin(o Options, p parts, d Disk) error {
	has, err := raft.HasExistingState(p.logs, p.stable, p.snapshots)
	if err != nil || has || !d.Bootstrap {
		return err
	}
	if begins, err := p.who.begin(); err != nil || !begins {
		return err
	}
	o.Log.Info("a new cluster begins with this node", "id", o.ID, "cluster", p.who.cluster())
	self := raft.Server{ID: raft.ServerID(o.server), Address: raft.ServerAddress(d.Address)}
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

const (
	// logCache is how many entries are kept in memory for followers that are nearly up to date.
	logCache = 64
	// rpcTimeout bounds what a peer may take to answer.
	rpcTimeout = 2 * time.Second
	maxPool    = 3
)

// openParts opens the stores.
func openParts(o *Options, d Disk) (parts, error) {
	log, vote, err := openStores(d.Dir, false)
	if err != nil {
		return parts{}, err
	}
	snapshots, err := openSnapshots(filepath.Join(d.Dir, snapshotsDir))
	if err != nil {
		return parts{}, errors.Join(err, log.Close())
	}
	g := &guarded{elapsed: o.Clock.Elapsed, stall: o.stall, LogStore: log, StableStore: vote, snapshots: snapshots, fatal: o.Fatal}
	logs, err := raft.NewLogCache(logCache, g)
	if err != nil {
		return parts{}, errors.Join(err, log.Close())
	}
	return parts{logs: logs, stable: g, guarded: g, snapshots: snapshots, note: filepath.Join(d.Dir, noteFile), close: log.Close}, nil
}

// openStores opens the log and the votes of a node's directory. The errors are disk.ErrLocked, errLog and ErrNewer.
func openStores(dir string, readOnly bool) (*diskLog, *votes, error) {
	log, err := openLog(filepath.Join(dir, logDir), readOnly)
	if err != nil {
		return nil, nil, fmt.Errorf("replication: %w", err)
	}
	vote, err := openVotes(filepath.Join(dir, voteFile))
	if err == nil && len(vote.values) == 0 && len(log.segments) > 0 { // the term is stored before the first entry
		err = fmt.Errorf("%w: %s is missing", errLog, vote.path)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("replication: %w", err), log.Close())
	}
	return log, vote, nil
}
