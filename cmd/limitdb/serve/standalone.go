package serve

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"limitdb/cmd/limitdb/cli"
	"limitdb/engine"
	"limitdb/groups"
	"limitdb/internal/disk"
	"limitdb/internal/journal"
	"limitdb/persistence"
	"limitdb/replication"
	"limitdb/resp"
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
	p       *process
	store   *persistence.Store
	engines []*engine.Engine // for each group of the cluster, from group 1 on, its keys
	kept    keptRules
	marker  string              // a path
	loaded  *persistence.Loaded // nil until it is
}

// openStandalone locks the state in the data directory. It returns nil if there is none.
func (m *member) openStandalone(dir string) (*standalone, error) {
	d := m.p.durable
	if !persistence.HasData(d.dir) {
		return nil, nil
	}
	a := &standalone{p: m.p, marker: filepath.Join(dir, importedFile)}
	for range m.count() {
		a.engines = append(a.engines, m.replica.newEngine())
	}
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
		Owns: func(kind byte) bool { return kind < journal.Foreign },
		Expect: func(keys int64) (err error) {
			for _, e := range a.engines {
				err = cmp.Or(err, e.Expect(a.p.clock.Now(), keys/int64(len(a.engines))))
			}
			return err
		},
		Apply: a.restore,
	}
}

// restore applies records, each to the group of its key.
func (a *standalone) restore(records []journal.Record, share, shares int) error {
	if len(a.engines) == 1 {
		return a.engines[0].Restore(records, share, shares)
	}
	var of [groups.Most][]journal.Record
	for _, r := range records {
		g := groups.Of(resp.Slot(r.Key), len(a.engines)) - 1
		of[g] = append(of[g], r)
	}
	for g, e := range a.engines {
		if err := e.Restore(of[g], share, shares); err != nil {
			return err
		}
	}
	return nil
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

// load reads the state, the first time.
func (a *standalone) load() error {
	if a.loaded != nil {
		return nil
	}
	l, err := a.store.Read()
	if err != nil {
		return a.p.durable.refused(err)
	}
	keys := int64(0)
	for _, e := range a.engines {
		if key, missed := e.Missed(l.Now); missed {
			return cli.WithStatus(fmt.Errorf("the state of the standalone server is corrupt: a record changes a part of the state of key %.200q, which has none", key), cli.ExitCorrupt)
		}
		e.Tidy()
		keys += e.Stats().Keys
	}
	if err := a.mark(); err != nil {
		return err
	}
	a.p.log.Info("the cluster begins with the state of the standalone server in this directory", "keys", keys, "bytes", l.Bytes, "clean", l.Clean)
	a.loaded = &l
	return nil
}

// part returns what reads the state with which a group of a cluster begins: the only one with all, or of several the first with what is kept beside
// keys, and each other with its keys.
func (a *standalone) part(group int) func() (*replication.Import, error) {
	return func() (*replication.Import, error) {
		if a == nil {
			return nil, nil
		}
		if err := a.load(); err != nil {
			return nil, err
		}
		now := a.loaded.Now
		return &replication.Import{Clock: now, Copy: func(cursor uint64, dst *journal.Buffer) uint64 {
			if cursor == 0 && (group == 0 || len(a.engines) == 1) {
				a.kept.copyTo(dst)
			}
			if group == 0 {
				return 0
			}
			return a.engines[group-1].Copy(now, cursor, dst)
		}}, nil
	}
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
	defer a.close()
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
		a.close()
	}
}

func (a *standalone) close() {
	for _, e := range a.engines {
		e.Close()
	}
}
