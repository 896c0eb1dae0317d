package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/internal/disk"
	"limitdb/internal/journal"
	"limitdb/persistence"
	"limitdb/replication"
)

// loading is a table that is only loaded.
type loading struct {
	replication.Table
	engine *engine.Engine
	kept   keptRules
}

// Clear makes the table empty.
func (l *loading) Clear() error {
	l.close()
	l.engine = engine.New(engine.Options{})
	l.kept.clear()
	return nil
}

// Missed returns a key that lacks a state.
func (l *loading) Missed(now int64) (string, bool) { return l.engine.Missed(now) }

// Apply applies records.
func (l *loading) Apply(_ int64, records []journal.Record) error {
	return l.engine.Restore(l.kept.apply(records), 0, 1)
}

// add puts the states of another table, as they are at a time, into this one, and returns how many there were.
func (l *loading) add(from *loading, at int64) (keys uint64, err error) {
	return journal.Copy(func(cursor uint64, dst *journal.Buffer) uint64 { return from.engine.Copy(at, cursor, dst) }, 0, func(block *journal.Buffer) error {
		var records []journal.Record
		for rest := block.Bytes; len(rest) > 0; {
			var r journal.Record
			var err error
			if r, rest, err = journal.Parse(rest); err != nil {
				return err
			}
			records = append(records, r)
		}
		return l.engine.Restore(records, 0, 1)
	})
}

func (l *loading) close() {
	if l.engine != nil {
		l.engine.Close()
	}
}

// An Exported group is one whose keys Export has read.
type Exported struct {
	Group int
	Dir   string // the node's directory for the group from which it was read
	replication.Exported
}

// Export makes a directory for a standalone server from those of nodes, which must not run. Of each group it takes the replica with the
// newest log. It returns what it has read, the time of the new directory (Unix ns), and how many keys that has. The errors are those
// of the file system and of the logs, and that a group has no replica there.
//
// The groups of a cluster have times of their own. The new directory has the earliest of them, of those with keys: then no limit
// recovers by more than the time that has passed.
func Export(to string, dirs ...string) (from []Exported, at, keys int64, err error) {
	if from, err = newestReplicas(dirs); err != nil {
		return nil, 0, 0, err
	}
	var all *loading
	if all, at, err = load(from); err != nil {
		return nil, 0, 0, err
	}
	defer all.close()
	keys, err = all.store(to, at)
	return from, at, keys, err
}

// load reads groups, and returns a table with the keys of all and its time.
func load(from []Exported) (all *loading, at int64, err error) {
	all = &loading{}
	latest := int64(0) // of all groups
	for i := range from {
		one := &loading{}
		if len(from) == 1 {
			one = all
		} else if i == 0 {
			_ = all.Clear() // it never fails
		}
		if from[i].Exported, err = replication.Export(from[i].Dir, one); err == nil && one != all {
			var keys uint64
			keys, err = all.add(one, from[i].Clock)
			if keys > 0 && (at == 0 || from[i].Clock < at) {
				at = from[i].Clock
			}
			if from[i].Group == 0 {
				all.kept.values = one.kept.values
			}
			one.close()
		}
		latest = max(latest, from[i].Clock)
		if err != nil {
			all.close()
			return nil, 0, err
		}
	}
	delete(all.kept.values, directoryText)
	return all, cmp.Or(at, latest), nil
}

// newestReplicas returns a replica of each group of the cluster to which nodes belong.
func newestReplicas(dirs []string) ([]Exported, error) {
	var best []Exported // by group; of one that is not found yet, Dir is ""
	cluster := ""
	for i, dir := range dirs {
		first, count := onlyGroup, 1
		node := filepath.Join(dir, RaftDir)
		if d := filepath.Join(dir, raftDirs, "0"); replication.HasNode(d) {
			first, node = 0, d
		}
		switch {
		case replication.HasNode(node):
		case persistence.HasData(dir):
			return nil, fmt.Errorf("%s is the directory of a standalone server: export takes those of nodes, and a cluster begins in this one", dir)
		default:
			return nil, fmt.Errorf("%s is not the directory of a node", dir)
		}
		who, err := replication.Known(node)
		if err != nil {
			return nil, err
		}
		if first == 0 {
			count = who.Groups + 1
		}
		if i == 0 {
			best, cluster = make([]Exported, count), who.Cluster
		}
		if count != len(best) || who.Cluster != cluster {
			return nil, fmt.Errorf("%s and %s are of nodes of different clusters", dirs[0], dir)
		}
		for g := range best {
			best[g].Group = first + g
			if err := best[g].prefer(filepath.Join(dir, raftDirs, strconv.Itoa(first+g)), cluster, len(dirs)*count > 1); err != nil {
				return nil, err
			}
		}
	}
	for _, b := range best {
		if b.Dir == "" {
			return nil, fmt.Errorf("group %d has no replica in what is given: add that of a node which has one", b.Group)
		}
	}
	return best, nil
}

// prefer takes a directory for the group if its log is newer than that of the one before. choice reports whether there may be others.
func (x *Exported) prefer(dir, cluster string, choice bool) error {
	var of replication.Exported
	if choice {
		if !replication.HasNode(dir) {
			return nil
		}
		who, err := replication.Known(dir)
		if err != nil || who.Cluster != cluster { // one that has not heard of its group yet
			return err
		}
		if of, err = replication.Last(dir); err != nil {
			return err
		}
	}
	if x.Dir == "" || cmp.Or(cmp.Compare(of.Term, x.Term), cmp.Compare(of.Index, x.Index)) > 0 {
		x.Dir, x.Exported = dir, of
	}
	return nil
}

// store makes a directory for a standalone server with the states at a time, and returns how many there are.
func (l *loading) store(to string, at int64) (keys int64, err error) {
	err = makeWhole(to, func(dir string) (err error) {
		keys, err = l.fill(dir, at)
		return err
	})
	return keys, err
}

// makeWhole makes a directory with what fill puts into it. It has its name when all of it is durable; after an error nothing is left.
func makeWhole(to string, fill func(dir string) error) error {
	to = filepath.Clean(to) // a slash at its end is not part of the name
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s: %w: give a directory that is not there yet", to, fs.ErrExist)
	}
	tmp := to + disk.TmpSuffix
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	err := os.Mkdir(tmp, 0o700)
	if err == nil {
		err = fill(tmp)
	}
	if err == nil {
		err = disk.Publish(disk.OS{}, to)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}

// fill makes the directory of a standalone server of an empty one.
func (l *loading) fill(to string, at int64) (int64, error) {
	e := l.engine
	keys := 0 // that the newest snapshot has: the table has expired ones as well, which nobody has asked for since
	store, err := persistence.Open(persistence.Options{
		Dir: to, Now: func() int64 { return at }, Boot: clock.SystemBoot(), Policy: persistence.Never, Workers: runtime.GOMAXPROCS(0),
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
				next := e.Copy(at, cursor, dst)
				keys += dst.Records - before
				return next
			},
			Expect: func(int64) error { return nil },
			Apply:  func([]journal.Record, int, int) error { return nil },
			Resume: func(version uint64, gate *journal.Gate, dirtied func()) {
				e.Tidy()
				e.StartJournal(version, gate, dirtied)
			},
		}, l.kept.part()},
	})
	if err != nil {
		return 0, err
	}
	if _, err := store.Load(); err != nil {
		return 0, err
	}
	store.Start()
	err = errors.Join(store.Snapshot(), store.Close())
	return int64(keys), err
}
