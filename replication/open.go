package replication

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// Disk is where a node keeps its own, and how it is reached by the others.
type Disk struct {
	// Dir is the directory, which is made where it is missing.
	Dir string
	// Bind is the address at which the node listens for its peers and which they dial: an IP address of loopback and a port.
	Bind string
	// Bootstrap starts a cluster of one where the directory has none.
	Bootstrap bool
}

// The node's directory has a file "node", which says whose it is, Raft's log, and the snapshots.
const (
	nodeFile     = "node"
	logFile      = "log.db"
	snapshotsDir = "snapshots"
)

// identity is what the file "node" has, as JSON.
type identity struct {
	Format int
	ID     string
}

// Open starts a node on its directory. An empty ID in the options is that of the directory, or a new one.
func Open(o Options, d Disk) (*Node, error) {
	if err := checkBind(d.Bind); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if o.ID, err = identify(d.Dir, o.ID); err != nil {
		return nil, err
	}
	p, err := openParts(&o, d)
	if err != nil {
		return nil, err
	}
	if err := begin(o, p, d); err != nil {
		return nil, errors.Join(err, p.close())
	}
	n, err := start(o, p)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return n, nil
}

// begin makes a new cluster where the directory has none and one is asked for.
func begin(o Options, p parts, d Disk) error {
	has, err := raft.HasExistingState(p.logs, p.stable, p.snapshots)
	if err != nil || has || !d.Bootstrap {
		return err
	}
	o.Log.Info("a new cluster begins with this node", "id", o.ID)
	return bootstrap(o, p, raft.Server{ID: raft.ServerID(o.ID), Address: raft.ServerAddress(d.Bind)})
}

// checkBind refuses what everybody could reach: the nodes do not yet make sure who their peers are.
func checkBind(bind string) error {
	host, port, err := net.SplitHostPort(bind)
	if err != nil {
		return fmt.Errorf("replication: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() || port == "0" {
		return fmt.Errorf("replication: %s is not an IP address of loopback and a port: without TLS between the nodes, no other is accepted", bind)
	}
	return nil
}

// identify returns the id of the directory's node, which is id where the directory is new, or drawn where that is empty.
func identify(dir, id string) (string, error) {
	path := filepath.Join(dir, nodeFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if exists(filepath.Join(dir, logFile)) {
			return "", fmt.Errorf("replication: %s has a log, and no file %q that says whose it is", dir, nodeFile)
		}
		if id == "" {
			var drawn [8]byte
			_, _ = rand.Read(drawn[:])
			id = hex.EncodeToString(drawn[:])
		}
		b, err := json.Marshal(identity{Format: Format, ID: id})
		if err != nil {
			return "", err
		}
		tmp := path + tmpSuffix
		if err := os.RemoveAll(tmp); err != nil {
			return "", err
		}
		if err := writeSynced(tmp, b); err != nil {
			return "", err
		}
		if err := os.Rename(tmp, path); err != nil {
			return "", err
		}
		return id, syncDir(dir)
	}
	if err != nil {
		return "", err
	}
	var had identity
	switch err := json.Unmarshal(b, &had); {
	case err != nil:
		return "", fmt.Errorf("replication: %s: %w", path, err)
	case had.Format > Format:
		return "", fmt.Errorf("%w: %s", ErrNewer, path)
	case id != "" && id != had.ID:
		return "", fmt.Errorf("replication: %s is the directory of node %s, and not of %s", dir, had.ID, id)
	}
	return had.ID, nil
}

const (
	// logCache is how many entries are kept in memory for followers that are nearly up to date.
	logCache = 64
	// lockTimeout is how long another process may hold the directory.
	lockTimeout = time.Second
	// rpcTimeout bounds what a peer may take to answer.
	rpcTimeout = 2 * time.Second
	maxPool    = 3
)

// openParts opens the stores and listens.
func openParts(o *Options, d Disk) (parts, error) {
	// Each commit writes the pages that it has changed, syncs, writes the meta page, and syncs. The list of
	// free pages is not written with them: it is found again at the start. As a map it
	// costs no search in a log whose old end is cut off all the time.
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path:        filepath.Join(d.Dir, logFile),
		BoltOptions: &bbolt.Options{Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
	})
	if err != nil {
		return parts{}, fmt.Errorf("replication: %s: %w", d.Dir, err)
	}
	snapshots, err := openSnapshots(filepath.Join(d.Dir, snapshotsDir))
	if err != nil {
		return parts{}, errors.Join(err, bolt.Close())
	}
	g := &guarded{elapsed: o.Clock.Elapsed, LogStore: bolt, stable: bolt, snapshots: snapshots, fatal: o.Fatal}
	logs, err := raft.NewLogCache(logCache, g)
	if err != nil {
		return parts{}, errors.Join(err, bolt.Close())
	}
	t, err := listen(d.Bind, o.Address, o.Log)
	if err != nil {
		return parts{}, errors.Join(err, bolt.Close())
	}
	return parts{logs: logs, stable: g, guarded: g, snapshots: snapshots, transport: t, note: filepath.Join(d.Dir, noteFile), lastLog: t.lastLog, ask: t.l.ask, client: t.l.client, close: func() error {
		return errors.Join(t.Close(), bolt.Close())
	}}, nil
}
