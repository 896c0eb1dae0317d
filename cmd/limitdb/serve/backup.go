package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	stored "limitdb/cmd/limitdb/backups"
	"limitdb/engine"
	"limitdb/groups"
	"limitdb/internal/disk"
	"limitdb/observe"
	"limitdb/persistence"
	"limitdb/replication"
	"limitdb/server"
	"limitdb/server/backups"
	"limitdb/state"
)

// keptBackups makes backups, for clients that read them and by the clock. One is open at a time: a directory of hard links inside the data
// directory, which is removed when the backup ends.
type keptBackups struct {
	p *process

	mu    sync.Mutex // guards the fields below
	open  string     // the name of the open backup; "" for none
	files []stored.File
	idle  *time.Timer
	at    int64  // when the open one was read last, in elapsed ns
	count int    // of those that were opened
	name  string // of the last one

	made, failed atomic.Uint64
	last         atomic.Int64 // when the last one was made, Unix ns by the machine's clock; 0 for never
	retry        atomic.Int64 // the next scheduled one is not made before this time
}

const (
	// backupIdle is how long a backup stays open that nobody reads.
	backupIdle = 5 * time.Minute
	// backupLeft is after how long without a read another backup takes its place.
	backupLeft = 10 * time.Second
	// backupRetry is how long after a failure the next scheduled backup is made.
	backupRetry = time.Minute
	// backupWait is how long a backup waits for a snapshot that is being written.
	backupWait = time.Minute
	// lastBackupFile is in the data directory. It says when the last backup was made.
	lastBackupFile = "last-backup"
	lastBackupKind = "back"
	// The names of scheduled backups begin with backupPrefix, then comes the time.
	backupPrefix = "limitdb-"
	backupTime   = "20060102T150405Z"
)

// lastBackup is what lastBackupFile has.
type lastBackup struct{ At int64 }

var (
	errOtherBackup = errors.New("another backup is being read: try again when it has ended")
	errNoBackup    = errors.New("this backup is not open: it has ended, or nobody has read it for some time")
)

func newKeptBackups(p *process) *keptBackups { return &keptBackups{p: p} }

// forServer returns the functions that the server calls.
func (k *keptBackups) forServer() *backups.Source {
	return &backups.Source{
		Begin: func() (string, []backups.File, error) {
			name, files, err := k.begin()
			out := make([]backups.File, len(files))
			for i, f := range files {
				out[i] = backups.File{Name: f.Name, Bytes: f.Bytes}
			}
			return name, out, err
		},
		Read: k.read, End: k.end,
	}
}

func (k *keptBackups) scratch() string { return filepath.Join(k.p.durable.dir, persistence.Scratch) }

// begin opens a backup.
func (k *keptBackups) begin() (name string, files []stored.File, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open != "" && time.Duration(k.p.clock.Elapsed()-k.at) < backupLeft {
		return "", nil, errOtherBackup
	}
	if k.open != "" {
		_ = k.close() // it is removed below
		k.failed.Add(1)
	}
	if err := os.RemoveAll(k.scratch()); err != nil {
		return "", nil, err
	}
	for wait := time.Duration(0); ; wait += backupPause {
		err = k.link()
		if wait >= backupWait || !errors.Is(err, server.ErrSnapshotting) && !errors.Is(err, replication.ErrNotReady) {
			break
		}
		_ = os.RemoveAll(k.scratch()) // the next attempt reports it
		time.Sleep(backupPause)
	}
	if err == nil {
		files, err = stored.List(k.scratch())
	}
	if err != nil {
		k.failed.Add(1)
		return "", nil, errors.Join(err, os.RemoveAll(k.scratch()))
	}
	k.count++
	name = strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(k.count)
	k.open, k.name, k.files, k.at = name, name, files, k.p.clock.Elapsed()
	k.idle = time.AfterFunc(backupIdle, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.open == name {
			k.failed.Add(1)
			k.p.log.Warn("a backup was given up: nobody has read it", "for", backupIdle, "err", k.close())
		}
	})
	return name, files, nil
}

// backupPause is between two attempts to open a backup.
const backupPause = 100 * time.Millisecond

// link makes the directory with the links.
func (k *keptBackups) link() error {
	if k.p.member == nil {
		return k.p.durable.call(func(store *persistence.Store) error {
			_, err := store.Backup(persistence.Scratch)
			return err
		})
	}
	node := k.p.member.replica.node.Load()
	if node == nil {
		return replication.ErrNotReady
	}
	if s := k.p.member.several; s != nil {
		return s.backup(k.scratch())
	}
	return replication.Backup(node, filepath.Join(k.scratch(), RaftDir))
}

// backup puts a backup of each group of which the node has a replica into a directory.
func (s *several) backup(dir string) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	for g, r := range s.replicas {
		if node := r.node.Load(); node != nil {
			if err := replication.Backup(node, filepath.Join(dir, raftDirs, strconv.Itoa(g))); err != nil {
				return fmt.Errorf("group %d: %w", g, err)
			}
		}
	}
	return nil
}

// read returns a piece of a file of the open backup.
func (k *keptBackups) read(name, file string, offset int64) ([]byte, error) {
	k.mu.Lock()
	open := k.open == name && name != "" && k.idle.Reset(backupIdle)
	k.at = k.p.clock.Elapsed()
	at := slices.IndexFunc(k.files, func(f stored.File) bool { return f.Name == file })
	var bytes int64
	if open && at >= 0 {
		bytes = k.files[at].Bytes
	}
	k.mu.Unlock()
	switch {
	case !open:
		return nil, errNoBackup
	case at < 0:
		return nil, fmt.Errorf("the backup has no file %q", file)
	}
	f, err := os.Open(filepath.Join(k.scratch(), filepath.FromSlash(file)))
	if err != nil {
		return nil, err
	}
	b := make([]byte, max(0, min(backups.PieceBytes, bytes-offset)))
	if len(b) > 0 {
		_, err = f.ReadAt(b, offset) // a full one; the file is that long
	}
	return b, errors.Join(err, f.Close())
}

// end closes a backup, and counts it. A client that has stored the whole backup may say so after the backup was given up, since it may
// take long to verify one.
func (k *keptBackups) end(name string, whole bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name == "" || k.open != name && (!whole || k.name != name) {
		return errNoBackup
	}
	if whole {
		k.succeeded()
	} else {
		k.failed.Add(1)
	}
	k.name = ""
	if k.open != name {
		return nil
	}
	return k.close()
}

// close removes the open backup. The lock is held.
func (k *keptBackups) close() error {
	k.idle.Stop()
	k.open, k.files = "", nil
	return os.RemoveAll(k.scratch())
}

// succeeded notes that a backup was made.
func (k *keptBackups) succeeded() {
	now := k.p.clock.Wall()
	k.made.Add(1)
	k.last.Store(now)
	if err := disk.WriteRecord(disk.OS{}, filepath.Join(k.p.durable.dir, lastBackupFile), lastBackupKind, lastBackup{At: now}); err != nil {
		k.p.log.Warn("the time of the last backup is not stored", "err", err)
	}
}

// run makes the scheduled backups until ctx ends. It is called when the state is loaded.
func (k *keptBackups) run(ctx context.Context) {
	if err := k.removeOld(); err != nil {
		k.p.log.Warn("an old backup cannot be removed", "err", err)
	}
	var was lastBackup
	if disk.ReadRecord(disk.OS{}, filepath.Join(k.p.durable.dir, lastBackupFile), lastBackupKind, &was) == nil {
		k.last.CompareAndSwap(0, was.At)
	}
	every(ctx, time.Second, func() {
		now := k.p.clock.Wall()
		if !backupDue(now, k.last.Load(), k.retry.Load(), k.p.set.BackupEvery.Get()) {
			return
		}
		path, err := k.schedule(time.Unix(0, now))
		if err != nil {
			k.retry.Store(now + int64(backupRetry))
			k.p.log.Error("a scheduled backup failed", "err", err, "retry", backupRetry)
			return
		}
		k.p.log.Info("a scheduled backup is whole", "path", path)
	})
	k.mu.Lock()
	open := k.open
	k.mu.Unlock()
	if open != "" {
		_ = k.end(open, false) // if it is there still, the next start removes it
	}
}

// removeOld removes the open backup of a process that was killed, unless a client has opened one in its place.
func (k *keptBackups) removeOld() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open != "" {
		return nil
	}
	return os.RemoveAll(k.scratch())
}

// backupDue reports whether a scheduled backup is due: some time after the last one, or after a failure at retry. A clock that was set
// back does not hold it up.
func backupDue(now, last, retry int64, every time.Duration) bool {
	if every == 0 || now < retry && retry-now <= int64(backupRetry) {
		return false
	}
	return now < last || now-last >= int64(every)
}

// schedule makes a backup in backup-dir, verifies it, and removes the oldest.
func (k *keptBackups) schedule(at time.Time) (path string, err error) {
	dir := cmp.Or(k.p.set.BackupDir.Get(), filepath.Join(k.p.durable.dir, "backups"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		k.failed.Add(1)
		return "", err
	}
	path = filepath.Join(dir, backupPrefix+at.UTC().Format(backupTime))
	name, files, err := k.begin()
	if err != nil {
		return "", err
	}
	stop := k.keepOpen(name)
	_, err = StoreBackup(path, files)
	stop()
	if err := errors.Join(err, k.end(name, err == nil)); err != nil {
		return "", err
	}
	return path, pruneBackups(dir, int(k.p.set.BackupKeep.Get()))
}

// keepOpen keeps a backup open until stop is called.
func (k *keptBackups) keepOpen(name string) (stop func()) {
	ctx, stop := context.WithCancel(context.Background())
	go every(ctx, backupLeft/4, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.open == name {
			k.idle.Reset(backupIdle)
			k.at = k.p.clock.Elapsed()
		}
	})
	return stop
}

// StoreBackup makes a directory with the files of a backup, which is there only when it is whole, durable and verified. It returns what was
// found in it.
func StoreBackup(path string, files []stored.File) (c Checked, err error) {
	path = filepath.Clean(path) // a slash at its end is not part of the name
	if _, err := os.Lstat(path); err == nil {
		return c, fmt.Errorf("%s exists already", path)
	}
	tmp := path + disk.TmpSuffix
	if err := os.RemoveAll(tmp); err != nil {
		return c, err
	}
	err = stored.WriteDir(tmp, files)
	if err == nil {
		err = stored.Verify(tmp)
	}
	if err == nil {
		c, err = CheckBackup(tmp)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return c, errors.Join(err, os.RemoveAll(tmp))
	}
	return c, disk.OS{}.SyncDir(filepath.Dir(path))
}

// A Checked backup is one that a server can be restored from.
type Checked struct {
	Clock int64 // Unix ns; the last change in it is not later
	// Groups are those that a backup of a node has, 1 of a cluster of one group, and Of is how many with keys the cluster has, 0 for one of a
	// standalone server.
	Groups []int
	Of     int
}

// CheckBackup reads all that a backup in a directory has, as a restore will.
func CheckBackup(dir string) (c Checked, err error) {
	for g := range groups.Most + 1 {
		raft := filepath.Join(dir, raftDirs, strconv.Itoa(g))
		if !replication.HasNode(raft) {
			continue
		}
		if g == 0 {
			who, err := replication.Known(raft)
			if err != nil {
				return c, err
			}
			c.Of = who.Groups
		}
		if err := c.addReplica(g, raft); err != nil {
			return c, err
		}
	}
	if c.Of == 0 && c.Groups != nil {
		c.Of = 1
	}
	if c.Groups != nil {
		return c, nil
	}
	r, err := persistence.Check(persistence.CheckOptions{Dir: dir, Known: Loads, Sound: engine.Sound})
	if err == nil && len(r.Problems) > 0 {
		err = r.Problems[0]
	}
	if err != nil {
		return c, err
	}
	for _, f := range r.Files {
		c.Clock = max(c.Clock, f.LastClock)
	}
	return c, nil
}

// addReplica adds the backup of a replica.
func (c *Checked) addReplica(group int, raft string) error {
	if err := replication.FillBackup(raft); err != nil {
		return err
	}
	r, err := replication.Check(replication.CheckOptions{Dir: raft, Known: Loads, Sound: engine.Sound})
	if err == nil && len(r.Problems) > 0 {
		err = errors.New(r.Problems[0])
	}
	if err != nil {
		return err
	}
	if group > 0 {
		c.Groups = append(c.Groups, group)
	}
	c.Clock = max(c.Clock, r.Clock)
	return nil
}

// Loads reports whether this version can load states of a kind.
func Loads(kind byte) bool {
	return state.Kind(kind).Written()
}

// backupGivenUp is how old the beginning of a backup must be that is not whole, beside a whole one: its process was killed.
const backupGivenUp = 24 * time.Hour

// pruneBackups removes the oldest scheduled backups but for some, and what is left of those that were never whole.
func pruneBackups(dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var names []string
	var newest time.Time
	unfinished := map[string]time.Time{}
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), backupPrefix)
		text, part := strings.CutSuffix(text, disk.TmpSuffix)
		at, err := time.Parse(backupTime, text)
		switch {
		case !ok || err != nil || !e.IsDir():
		case part:
			unfinished[e.Name()] = at
		default:
			names, newest = append(names, e.Name()), at
		}
	}
	for name, at := range unfinished {
		if newest.Sub(at) > backupGivenUp {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for _, name := range names[:max(0, len(names)-keep)] {
		// First its name: half of a backup must not look like one.
		old := filepath.Join(dir, name)
		if err := cmp.Or(os.Rename(old, old+disk.TmpSuffix), os.RemoveAll(old+disk.TmpSuffix)); err != nil {
			return err
		}
	}
	return nil
}

// figures returns the figures for the metrics.
func (k *keptBackups) figures() observe.Backups {
	return observe.Backups{Made: k.made.Load(), Failed: k.failed.Load(), Last: k.last.Load(), Every: int64(k.p.set.BackupEvery.Get())}
}
