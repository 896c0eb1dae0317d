package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"limitdb/cmd/limitdb/cli"
	"limitdb/internal/journal"
	"limitdb/internal/stats"
	"limitdb/limit"
	"limitdb/persistence"
	"limitdb/replication"
	"limitdb/server"
	"limitdb/state"
)

// durability connects the engine, the server and the store that saves the engine's state to disk.
type durability struct {
	p     *process
	store atomic.Pointer[persistence.Store] // nil while nothing is saved
	fatal chan error                        // receives an error if the log, or the node of a cluster, cannot be written; no replies may then be sent

	switching switching

	// usedUp is the time since when everything counts as used up (see assumption). kept is the same as an
	// earlier run has saved it. 0 means never.
	usedUp, kept atomic.Int64

	dir  string    // absolute
	room sync.Once // see roomForSyncs

	loading       atomic.Bool
	began         atomic.Int64
	total, loaded atomic.Int64
}

// openDurability opens the data directory, unless the configuration asks for no saving.
func openDurability(p *process) (*durability, error) {
	dir, err := filepath.Abs(p.set.Dir.Get())
	if err != nil {
		return nil, err
	}
	d := &durability{p: p, dir: dir, fatal: make(chan error, 1)}
	p.registry.OnChange(func() error {
		if p.member != nil {
			return errByRaft
		}
		if store := d.store.Load(); store != nil {
			store.SetPolicy(d.policy())
		}
		d.roomForSyncs()
		return nil
	}, p.set.AppendFsync)
	p.registry.OnChange(func() error {
		if store := d.store.Load(); store != nil {
			store.SetRewrite(p.set.RewritePercent.Get(), p.set.RewriteMinSize.Get())
		}
		return nil
	}, p.set.RewritePercent, p.set.RewriteMinSize)
	p.registry.OnChange(func() error {
		if store := d.store.Load(); store != nil {
			store.SetMaxUnsynced(int64(p.set.FsyncMaxDelay.Get()))
		}
		return nil
	}, p.set.FsyncMaxDelay)
	if p.member != nil {
		return d, d.replaced()
	}
	if (replication.InCluster(filepath.Join(dir, RaftDir)) || ofSeveral(dir) != nil) && !p.set.IgnoreData.Get() {
		return nil, fmt.Errorf("%s has the state of a node of a cluster, which a standalone server does not read: start it with --raft-addr, "+
			"make another directory with limitdb export, or leave the state unread with --ignore-existing-data yes", dir)
	}
	if !d.wanted() {
		return d, d.ignore()
	}
	o := d.options()
	o.Recovering = d.recovering
	o.Progress = func(done, total int64) { d.loaded.Store(done); d.total.Store(total) }
	store, err := persistence.Open(o)
	if err != nil {
		return nil, d.refused(err)
	}
	d.store.Store(store)
	d.switching.logged = p.set.AppendOnly.Get()
	d.loading.Store(true)
	d.began.Store(p.clock.Now())
	return d, nil
}

// wanted reports whether the configuration asks for saving.
func (d *durability) wanted() bool {
	return d.p.set.AppendOnly.Get() || len(d.p.set.Save.Get()) > 0
}

// replaced returns an error if a node of a cluster would leave the state of a standalone server unread in its
// directory. A node that begins a cluster imports it.
func (d *durability) replaced() error {
	if persistence.HasData(d.dir) && !d.p.set.RaftBootstrap.Get() {
		return fmt.Errorf("%s has the state of a standalone server: begin a cluster with it by --raft-bootstrap yes, or give the node another --dir", d.dir)
	}
	return nil
}

// ignore returns an error if a server that saves nothing would start, probably by mistake, in a directory
// that has state.
func (d *durability) ignore() error {
	switch {
	case !persistence.HasData(d.dir):
	case !d.p.set.IgnoreData.Get():
		return fmt.Errorf("%s has the state of an earlier run, which a server that keeps nothing would ignore: "+
			"load it with --appendonly yes, or leave it unread with --ignore-existing-data yes", d.dir)
	default:
		d.p.log.Warn("the directory has the state of an earlier run, which this server does not read", "dir", d.dir)
	}
	return nil
}

// options returns the options of a store, as for one that is opened while the server runs.
func (d *durability) options() persistence.Options {
	p := d.p
	return persistence.Options{
		Dir: d.dir, Parts: []persistence.Part{d.keys(), d.assumption(), d.p.kept.part()}, Policy: d.policy(),
		Now: p.clock.Now, Boot: p.boot, WallClock: p.set.RecoveryClock.Get() == "wall",
		Workers:        runtime.GOMAXPROCS(0),
		RewritePercent: p.set.RewritePercent.Get(), RewriteMin: p.set.RewriteMinSize.Get(),
		MaxUnsynced: int64(p.set.FsyncMaxDelay.Get()),
		Refusing:    func(err error) { p.server.SetRefusing(err) },
		Fatal:       func(err error) { d.fatal <- err },
		Log:         p.log,
	}
}

// roomForSyncs gives Go's scheduler one more processor under appendfsync always, once.
//
// The writer then spends nearly all its time in a system call. If the other goroutines are busy, the
// scheduler takes the writer's processor away after every 20 µs of that, with a thread that never sleeps
// longer. That costs a fifth of all CPU time at one command for each sync; with one more processor it does
// not happen. GOMAXPROCS in the environment is left unchanged.
func (d *durability) roomForSyncs() {
	if d.policy() != persistence.Always || os.Getenv("GOMAXPROCS") != "" {
		return
	}
	d.room.Do(func() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1) })
}

// keys returns the engine's table as a part of the store.
func (d *durability) keys() persistence.Part {
	e := d.p.engine
	return persistence.Part{
		Owns:  func(kind byte) bool { return kind < journal.Foreign },
		Dirty: e.Dirty,
		Cut:   e.Cut,
		Drain: e.Drain,
		Copy: func(cursor uint64, dst *journal.Buffer) uint64 {
			return e.Copy(0, cursor, dst) // at each shard's own time: what a later decision still finds must be there
		},
		Expect: func(keys int64) error {
			if d.usedUp.Load() != 0 {
				return nil
			}
			return e.Expect(d.p.clock.Now(), keys)
		},
		Apply: func(records []journal.Record, share, shares int) error {
			if d.usedUp.Load() != 0 {
				records = usedUpRecords(records)
			}
			return e.Restore(records, share, shares)
		},
		Missed: func() (string, bool) {
			if d.p.set.RecoveryClock.Get() == "wall" { // the times of expiry are other ones
				return "", false
			}
			return e.Missed(d.p.clock.Now())
		},
		Resume: func(version uint64, gate *journal.Gate, dirtied func()) {
			e.Tidy()
			e.StartJournal(version, gate, dirtied)
		},
	}
}

// usedUpRecords returns what counts of records while everything counts as used up: the states of limits do not, but what their keys had
// before them is gone as well. Of a blocked key only the block is left. The records are overwritten.
func usedUpRecords(records []journal.Record) []journal.Record {
	kept := records[:0]
	for _, r := range records {
		if r.Op == journal.Set || r.Op == journal.Change {
			kind := state.Kind(r.Kind).Restored()
			if kind.OfLimit() {
				if r.Op == journal.Change {
					continue // its key has no state any more
				}
				r.Op, r.State = journal.Delete, nil
			}
			if kind == state.BLOCK {
				var b limit.Block
				if _, _, err := b.Open(r.State, 0); err != nil { // what cannot be read counts as used up as well
					r.Op, r.State = journal.Delete, nil
				} else {
					r.State = b.Put(nil, 0, nil)
				}
			}
		}
		kept = append(kept, r)
	}
	clear(records[len(kept):])
	return kept
}

// call calls a function of the store, if there is one.
func (d *durability) call(fn func(*persistence.Store) error) error {
	store := d.store.Load()
	if store == nil {
		return errNothingKept
	}
	if err := fn(store); !errors.Is(err, persistence.ErrBusy) {
		return err
	}
	return server.ErrSnapshotting
}

// errNothingKept is returned if the log has just been turned off.
var errNothingKept = errors.New("no state is kept on disk")

// policy returns the policy for appendfsync. With only save there is a log as well, but only snapshots sync
// it.
func (d *durability) policy() persistence.Policy {
	switch fsync := d.p.set.AppendFsync.Get(); {
	case fsync == "no" || !d.p.set.AppendOnly.Get():
		return persistence.Never
	case fsync == "always":
		return persistence.Always
	}
	return persistence.EverySec
}

// recovering sets the clock to the time from which decisions continue, before the first decision.
func (d *durability) recovering(l persistence.Loaded) {
	wall := d.p.clock.Now()
	if ahead := time.Duration(l.Now - wall); ahead.Abs() > time.Second {
		d.p.log.Warn("decisions continue at a time that differs from the machine's clock", "ahead", ahead)
	}
	d.p.clock.Set(l.Now)
	if d.conservative() && !l.Clean {
		d.p.log.Warn("the last run did not stop cleanly: everything counts as used up now", "recovery-mode", "conservative")
		d.assume(l.Now)
	}
}

func (d *durability) conservative() bool { return d.p.set.RecoveryMode.Get() == "conservative" }

func (d *durability) assume(at int64) {
	d.usedUp.Store(at)
	d.p.engine.AssumeUsedUp(at)
}

// usedUpKind is the kind of the only state in assumption.
const usedUpKind = byte(state.UsedUp)

// assumption returns a part of the store that saves one time: since when everything counts as used up,
// because a crash may have lost state. The time changes only at a start, and load then makes a snapshot.
func (d *durability) assumption() persistence.Part {
	return persistence.Part{
		Owns:  func(kind byte) bool { return kind == usedUpKind },
		Dirty: func() bool { return false },
		Cut:   func() {},
		Drain: func(*journal.Buffer, int) bool { return false },
		Copy: func(_ uint64, dst *journal.Buffer) uint64 {
			if at := d.usedUp.Load(); at != 0 {
				dst.Set(0, usedUpKind, []byte("used-up"), binary.LittleEndian.AppendUint64(nil, uint64(at)))
			}
			return 0
		},
		Expect: func(int64) error { return nil },
		Apply: func(records []journal.Record, share, _ int) error {
			for _, r := range records {
				if share == 0 && r.Op == journal.Set && len(r.State) == 8 && d.conservative() && d.usedUp.Load() == 0 {
					d.kept.Store(int64(binary.LittleEndian.Uint64(r.State)))
				}
			}
			return nil
		},
		Resume: func(uint64, *journal.Gate, func()) {
			if at := d.kept.Load(); at != 0 {
				d.assume(at)
			}
		},
	}
}

// load loads the saved state into the engine. Meanwhile the server answers -LOADING.
func (d *durability) load() error {
	start, store := time.Now(), d.store.Load()
	l, err := store.Load()
	if err != nil {
		return d.refused(err)
	}
	d.p.log.Info("the state is loaded", "keys", d.p.engine.Stats().Keys, "bytes", l.Bytes, "records", l.Sets+l.Deletes+l.Expired,
		"expired", l.Expired, "clean", l.Clean, "took", time.Since(start).Round(time.Millisecond))
	if d.usedUp.Load() != 0 && !l.Clean {
		// The old state on disk must not come back at the next start. Before Start no other snapshot is in the way.
		if err := store.Snapshot(); err != nil && !errors.Is(err, persistence.ErrFailed) { // if the disk is full, rescue writes it later
			return fmt.Errorf("recording that everything is used up: %w", err)
		}
	}
	store.Start()
	d.p.rulesLoaded()
	d.p.countersLoaded()
	d.p.usersLoaded()
	d.p.keepSecret()
	d.loading.Store(false)
	return nil
}

// refused adds advice to the error for a directory that cannot be used. Damaged data has an exit status of
// its own.
func (d *durability) refused(err error) error {
	var corrupt *persistence.CorruptError
	switch {
	case errors.As(err, &corrupt) || errors.Is(err, persistence.ErrNoManifest) || errors.Is(err, persistence.ErrFormat):
		return cli.WithStatus(err, cli.ExitCorrupt)
	case errors.Is(err, persistence.ErrLocked):
		return fmt.Errorf("another server uses the data directory %s: give this one another with --dir, or keep nothing with --appendonly no", d.dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("the data directory %s cannot be written: %w: choose another with --dir, or keep nothing with --appendonly no", d.dir, err)
	}
	return err
}

// forServer returns the functions that the server needs.
func (d *durability) forServer() *server.Durability {
	return &server.Durability{
		Wait: func(_ uint64, fn func(error)) bool {
			store := d.store.Load()
			return store != nil && store.Wait(fn)
		},
		Holds: func() bool {
			store := d.store.Load()
			return store != nil && store.Policy() == persistence.Always
		},
		Kick: func() {
			if store := d.store.Load(); store != nil {
				store.Kick()
			}
		},
		Sync:     func() error { return d.call((*persistence.Store).Sync) },
		Switch:   d.switchOver,
		Snapshot: func() error { return d.call((*persistence.Store).Snapshot) },
		Backup: func(name string) (path string, err error) {
			err = d.call(func(store *persistence.Store) (err error) {
				path, err = store.Backup(name)
				return err
			})
			return path, err
		},
		Stats: d.stats,
	}
}

func (d *durability) stats() stats.Durability {
	if d.loading.Load() {
		return stats.Durability{
			Kept: true, Log: d.p.set.AppendOnly.Get(), Loading: true,
			LoadBegan: d.began.Load(), LoadTotal: d.total.Load(), LoadedBytes: d.loaded.Load(),
		}
	}
	store := d.store.Load()
	if store == nil {
		return stats.Durability{}
	}
	st := store.Stats().Durability
	st.Log = d.p.set.AppendOnly.Get()
	return st
}

// savePoints makes the snapshots that save asks for.
func (d *durability) savePoints(ctx context.Context) {
	started := d.p.clock.Now()
	every(ctx, time.Second, func() {
		st := d.stats()
		if !st.Kept || st.Loading || st.Snapshotting {
			return
		}
		since := time.Duration(d.p.clock.Now() - max(started, st.SnapshotBegan))
		for _, point := range d.p.set.SavePoints() {
			if since >= point.After && st.Changes >= point.Changes {
				d.p.server.Snapshot()
				break
			}
		}
	})
}

// errLog wraps the error that ends a process whose replies cannot be made durable.
func errLog(err error) error {
	return fmt.Errorf("appendfsync is always, and the log cannot be written: %w", err)
}
