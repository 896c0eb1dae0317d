package serve

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"limitdb/cmd/limitdb/cli"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/internal/disk"
	"limitdb/internal/journal"
	"limitdb/persistence"
	"limitdb/replication"
)

// The first node of a cluster can begin with the state of the standalone server in its directory. That state becomes the node's first snapshot. Until this is
// durable, the files of the server stay as they are. Then the node retires them: a server that started from them later would give back what was
// used since.

// importedFile is in the node's directory. It names the instance whose state the node has imported, or is about to.
const (
	importedFile = "imported"
	importedKind = "from"
)

// imported is what that file has.
type imported struct{ Instance string }

// standalone is the state of a standalone server, in the directory of a node.
type standalone struct {
	p      *process
	store  *persistence.Store
	engine *engine.Engine
	kept   keptRules
	marker string // a path
}

// openStandalone locks the state in the data directory. It returns nil if there is none.
func (m *member) openStandalone(dir string) (*standalone, error) {
	d := m.p.durable
	if !persistence.HasData(d.dir) {
		return nil, nil
	}
	a := &standalone{p: m.p, engine: m.replica.newEngine(), marker: filepath.Join(dir, importedFile)}
	o := d.options()
	o.Parts = []persistence.Part{a.keys(), a.kept.part(), a.others()}
	var err error
	if a.store, err = persistence.Open(o); err != nil {
		return nil, d.refused(err)
	}
	return a, nil
}

// keys returns the part of the store that takes the keys.
func (a *standalone) keys() persistence.Part {
	return persistence.Part{
		Owns:   func(kind byte) bool { return kind < journal.Foreign },
		Expect: func(keys int64) error { return a.engine.Expect(a.p.clock.Now(), keys) },
		Apply:  a.engine.Restore,
	}
}

// errImport is returned for a state that a cluster cannot take over.
var errImport = errors.New("its state has more than keys, such as the mark of recovery-mode conservative, which a cluster cannot take over: start it once alone without that")

// others returns the part that refuses everything else.
func (a *standalone) others() persistence.Part {
	return persistence.Part{
		Owns:   func(kind byte) bool { return kind >= journal.Foreign && kind != rulesKind },
		Expect: func(int64) error { return nil },
		Apply: func(records []journal.Record, share, _ int) error {
			if len(records) > 0 && share == 0 {
				return errImport
			}
			return nil
		},
	}
}

// read returns the state for a cluster that begins.
func (a *standalone) read() (*replication.Import, error) {
	if a == nil {
		return nil, nil
	}
	l, err := a.store.Read()
	if err != nil {
		return nil, a.p.durable.refused(err)
	}
	if key, missed := a.engine.Missed(l.Now); missed {
		return nil, cli.WithStatus(fmt.Errorf("the state of the standalone server is corrupt: a record changes a part of the state of key %.200q, which has none", key), cli.ExitCorrupt)
	}
	a.engine.Tidy()
	if err := a.mark(); err != nil {
		return nil, err
	}
	a.p.log.Info("the cluster begins with the state of the standalone server in this directory", "keys", a.engine.Stats().Keys, "bytes", l.Bytes, "clean", l.Clean)
	return &replication.Import{Clock: l.Now, Copy: func(cursor uint64, dst *journal.Buffer) uint64 {
		if cursor == 0 {
			a.kept.copyTo(dst)
		}
		return a.engine.Copy(l.Now, cursor, dst)
	}}, nil
}

func (a *standalone) instance() string {
	id := a.store.Instance()
	return hex.EncodeToString(id[:])
}

// mark notes durably whose state is about to be imported.
func (a *standalone) mark() error {
	return disk.WriteRecord(disk.OS{}, a.marker, importedKind, imported{a.instance()})
}

// retire ends the state in the data directory, which the node has imported durably. It returns an error if the node has imported another, or none.
func (a *standalone) retire() error {
	if a == nil {
		return nil
	}
	defer a.engine.Close()
	var of imported
	if err := disk.ReadRecord(disk.OS{}, a.marker, importedKind, &of); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.store.Release()
		return err
	}
	if of.Instance != a.instance() {
		a.store.Release()
		return fmt.Errorf("%s has the state of a node, and also that of a standalone server, which the node has not imported: move one of them away", a.p.durable.dir)
	}
	return a.store.Retire()
}

// release unlocks the state.
func (a *standalone) release() {
	if a != nil {
		a.store.Release()
		a.engine.Close()
	}
}

// loading is a table that is only loaded.
type loading struct {
	replication.Table
	engine *engine.Engine
	kept   keptRules
	shards int
}

// Clear makes the table empty.
func (l *loading) Clear() error {
	if l.engine != nil {
		l.engine.Close()
	}
	l.engine = engine.New(engine.Options{Shards: l.shards})
	l.kept.clear()
	return nil
}

// Missed returns a key that lacks a state.
func (l *loading) Missed(now int64) (string, bool) { return l.engine.Missed(now) }

// Apply applies records.
func (l *loading) Apply(_ int64, records []journal.Record) error {
	return l.engine.Restore(l.kept.apply(records), 0, 1)
}

// Export makes a directory for a standalone server from that of a node, which must not run. It returns how far the node's log
// goes and how many keys there are, or the errors of the file system and of the log.
func Export(dir, to string) (replication.Exported, int64, error) {
	if err := ofSeveral(dir); err != nil {
		return replication.Exported{}, 0, err
	}
	from := &loading{}
	x, err := replication.Export(filepath.Join(dir, RaftDir), from)
	if err != nil {
		return x, 0, err
	}
	e := from.engine
	defer e.Close()
	if err := os.Mkdir(to, 0o700); err != nil {
		return x, 0, fmt.Errorf("%w: give a directory that is not there yet", err)
	}
	now := func() int64 { return x.Clock }
	keys := 0 // that the newest snapshot has: the table has expired ones as well, which nobody has asked for since
	store, err := persistence.Open(persistence.Options{
		Dir: to, Now: now, Boot: clock.SystemBoot(), Policy: persistence.Never, Workers: runtime.GOMAXPROCS(0),
		Fatal: func(error) {},
		Parts: []persistence.Part{{
			Owns:  func(kind byte) bool { return kind < journal.Foreign },
			Dirty: e.Dirty,
			Cut:   e.Cut,
			Drain: e.Drain,
			Copy: func(cursor uint64, dst *journal.Buffer) uint64 {
				if cursor == 0 {
					keys = 0
				}
				before := dst.Records
				next := e.Copy(x.Clock, cursor, dst)
				keys += dst.Records - before
				return next
			},
			Expect: func(int64) error { return nil },
			Apply:  func([]journal.Record, int, int) error { return nil },
			Resume: func(version uint64, gate *journal.Gate, dirtied func()) {
				e.Tidy()
				e.StartJournal(version, gate, dirtied)
			},
		}, from.kept.part()},
	})
	if err != nil {
		return x, 0, err
	}
	if _, err := store.Load(); err != nil {
		return x, 0, err
	}
	store.Start()
	err = errors.Join(store.Snapshot(), store.Close())
	return x, int64(keys), err
}
