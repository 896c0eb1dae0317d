package persistence

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"limitdb/internal/clock"
	"limitdb/internal/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diskFS is the system's file system with faults.
type diskFS struct {
	disk.OS
	full atomic.Bool // writes fail
	// least is the size in bytes from which a write fails, after half of it; 0 means none.
	least atomic.Int64
	syncs atomic.Int64
	// busy holds up every sync until it is closed; nil means none.
	busy chan struct{}
	// hang is like busy for logs and all other files but temporary ones, and can be set while the store runs.
	hang atomic.Pointer[chan struct{}]
	// syncing is called for every sync with the bytes that it covers; nil means no call.
	syncing func(bytes int)
}

func (d *diskFS) Create(name string) (disk.File, error) {
	f, err := d.OS.Create(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d, name: name}, nil
}

type diskFile struct {
	disk.File
	d       *diskFS
	name    string
	written atomic.Int64 // and not synced
}

func (f *diskFile) WriteAt(b []byte, off int64) (int, error) {
	if f.d.full.Load() {
		return 0, syscall.ENOSPC
	}
	if least := f.d.least.Load(); least > 0 && int64(len(b)) >= least {
		n, err := f.File.WriteAt(b[:len(b)/2], off)
		return n, errors.Join(err, syscall.ENOSPC)
	}
	f.written.Add(int64(len(b)))
	return f.File.WriteAt(b, off)
}

func (f *diskFile) Sync() error {
	f.d.syncs.Add(1)
	bytes := f.written.Swap(0)
	if f.d.syncing != nil {
		f.d.syncing(int(bytes))
	}
	if f.d.busy != nil {
		<-f.d.busy
	}
	log := strings.HasPrefix(filepath.Base(f.name), "log-")
	if hang := f.d.hang.Load(); hang != nil && (log || !strings.HasSuffix(f.name, tmpSuffix)) {
		<-*hang
	}
	return f.File.Sync()
}

// running is a store that runs in a synctest bubble, with fake time.
type running struct {
	*Store
	t    *testing.T
	dir  string
	fs   *diskFS
	tab  *table
	news Loaded
}

func run(t *testing.T, dir string, o Options) *running {
	r := &running{t: t, dir: dir, fs: &diskFS{}, tab: newTable(4)}
	o.Dir, o.FS, o.Parts = dir, r.fs, []Part{r.tab.part()}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixNano() }
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Store = s
	if r.news, err = s.Load(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return r
}

func (r *running) set(n int) {
	r.tab.set(1, keyOf(n), stateAt(time.Now().UnixNano()+hour))
	r.Dirtied()
}

func (r *running) close() {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// logSize returns the size of the log on disk, in bytes.
func (r *running) logSize() int64 {
	r.files.Lock()
	defer r.files.Unlock()
	info, err := os.Stat(filepath.Join(r.dir, r.man.logs[len(r.man.logs)-1].name()))
	if err != nil {
		r.t.Fatal(err)
	}
	return info.Size()
}

// Under every policy, a change is written after 10 ms, and under EverySec it is durable after a second.
func TestChangesAreWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, t.TempDir(), Options{Policy: EverySec})
		r.set(1)
		synctest.Wait()
		if n := r.logSize(); n != headerSize {
			t.Errorf("%d bytes were written at once", n)
		}
		time.Sleep(writeDelay)
		synctest.Wait()
		if n := r.logSize(); n == headerSize {
			t.Error("nothing is written after 10 ms")
		}
		if r.durable.Load() != 0 {
			t.Error("durable before it was synced")
		}
		time.Sleep(syncEvery)
		synctest.Wait()
		if r.durable.Load() != r.opened.Load() {
			t.Errorf("%d of %d drains are durable after a second", r.durable.Load(), r.opened.Load())
		}
		if r.Wait(func(error) {}) {
			t.Error("replies wait under EverySec")
		}
		r.close()
	})
}

// Under Always, all replies that gathered are released after one sync, and an idle store does nothing.
func TestRepliesWaitForTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, t.TempDir(), Options{Policy: Always})
		before := r.fs.syncs.Load()
		var done atomic.Int64
		r.fs.busy = make(chan struct{})
		for i := range 100 {
			r.set(i)
			if !r.Wait(func(error) { done.Add(1) }) {
				t.Fatal("a change is durable at once")
			}
			r.Kick()
		}
		time.Sleep(time.Millisecond)
		if done.Load() != 0 {
			t.Fatal("a reply was released before the sync")
		}
		close(r.fs.busy)
		synctest.Wait()
		if done.Load() != 100 {
			t.Fatalf("%d of 100 were released", done.Load())
		}
		if n := r.fs.syncs.Load() - before; n > 2 {
			t.Errorf("%d syncs for 100 changes that came together", n)
		}
		if r.Wait(func(error) {}) {
			t.Error("a reply waits though all is durable")
		}
		if st := r.Stats(); st.Waiting != 0 || st.Policy != Always {
			t.Errorf("%+v", st)
		}
		r.close()
	})
}

// The store refuses writers while the disk is full, and recovers by itself.
func TestFailureHealsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var refusing []bool
		r := run(t, dir, Options{Policy: EverySec, Refusing: func(err error) { refusing = append(refusing, err != nil) }})
		r.set(1)
		time.Sleep(writeDelay)
		synctest.Wait()
		r.fs.full.Store(true)
		r.set(2)
		time.Sleep(writeDelay)
		synctest.Wait()
		if err := r.Failing(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("failing: %v", err)
		}
		if err := r.Snapshot(); !errors.Is(err, ErrFailed) {
			t.Errorf("a snapshot meanwhile: %v", err)
		}
		time.Sleep(5 * retryEvery)
		r.set(3)
		time.Sleep(writeDelay)
		if r.Failing() == nil {
			t.Fatal("healed on a full disk")
		}
		r.fs.full.Store(false)
		time.Sleep(retryEvery)
		synctest.Wait()
		if err := r.Failing(); err != nil {
			t.Fatalf("there is room, and still %v", err)
		}
		if fmt.Sprint(refusing) != "[true false]" {
			t.Errorf("the server was told %v", refusing)
		}
		r.set(4)
		r.close()
		again := run(t, dir, Options{})
		if again.tab.len() != 4 || !again.news.Clean {
			t.Errorf("%d keys of 4, %+v", again.tab.len(), again.news)
		}
		again.close()
	})
}

// The store refuses writers while the disk does not respond, since changes would only gather in memory.
func TestStalledDiskRefuses(t *testing.T) {
	var refusing []string
	now, tab := clock.NewFake(startAt), newTable(1)
	s, err := Open(Options{
		Dir: t.TempDir(), FS: &diskFS{busy: make(chan struct{}, 100)}, Parts: []Part{tab.part()}, Policy: Always,
		Now: now.Now, Refusing: func(err error) { refusing = append(refusing, fmt.Sprint(err)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	slow := s.fs.(*diskFS)
	for range 10 {
		slow.busy <- struct{}{} // the disk responds
	}
	if _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	for len(slow.busy) > 0 {
		<-slow.busy
	}
	tab.set(1, keyOf(1), stateAt(startAt+hour))
	done := make(chan struct{})
	go func() { s.commit(); close(done) }()
	for s.busy.Stuck(math.MaxInt64) == 0 {
		time.Sleep(time.Millisecond)
	}
	now.Advance(stalledAfter)
	s.look(s.lag())
	if len(refusing) > 0 {
		t.Errorf("refused after two seconds: %v", refusing)
	}
	now.Advance(1)
	s.look(s.lag())
	s.look(s.lag())
	if len(refusing) != 1 || refusing[0] != "the disk has not synced what was written for 2s" {
		t.Errorf("after more than that: %v", refusing)
	}
	s.SetMaxUnsynced(int64(3 * time.Second))
	s.look(s.lag())
	if len(refusing) != 2 || refusing[1] != "<nil>" {
		t.Errorf("with more time: %v", refusing)
	}
	s.SetMaxUnsynced(0) // as at first
	s.look(s.lag())
	refusing = refusing[:1]
	close(slow.busy)
	<-done
	s.look(s.lag())
	if len(refusing) != 2 || refusing[1] != "<nil>" {
		t.Errorf("when it answers again: %v", refusing)
	}
	tab.set(1, keyOf(2), stateAt(startAt+hour))
	if err := s.Sync(); err != nil || s.durable.Load() != s.opened.Load() {
		t.Errorf("%v, %d of %d are durable", err, s.durable.Load(), s.opened.Load())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// While a sync hangs, changes are still written, so a kill loses no more than usual.
// When the oldest byte that is not durable is too old, writers are refused until the disk responds.
func TestSyncThatHangs(t *testing.T) {
	for name, test := range map[string]struct {
		policy Policy
		most   time.Duration
		begin  func(r *running)
	}{
		"each second": {EverySec, 1700 * time.Millisecond, func(*running) { time.Sleep(syncEvery) }},
		"WAITAOF": {EverySec, 700 * time.Millisecond, func(r *running) {
			go func() {
				if err := r.Sync(); err != nil {
					t.Error(err)
				}
			}()
		}},
		"a snapshot": {EverySec, 700 * time.Millisecond, func(r *running) {
			go func() {
				if err := r.Snapshot(); err != nil {
					t.Error(err)
				}
			}()
		}},
		"a backup, and nobody syncs": {Never, 700 * time.Millisecond, func(r *running) {
			go func() {
				if _, err := r.Backup("b"); err != nil {
					t.Error(err)
				}
			}()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				var told refusals
				var r *running
				var refusedAt atomic.Int64
				r = run(t, dir, Options{Policy: test.policy, MaxUnsynced: int64(test.most), Refusing: func(err error) {
					told.add(err)
					if err != nil {
						refusedAt.Store(time.Now().UnixNano())
					}
				}})
				n, began := 0, time.Now()
				set := func() {
					r.set(n)
					n++
					time.Sleep(writeDelay)
					synctest.Wait()
				}
				set()
				answers := make(chan struct{})
				r.fs.hang.Store(&answers)
				test.begin(r)
				synctest.Wait()
				for range 60 {
					set()
				}
				// As after kill -9: everything is there.
				image := filepath.Join(t.TempDir(), "image")
				if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				again := run(t, image, Options{Boot: func() (uint64, int64) { return 1, 1 }})
				if again.tab.len() != n {
					t.Errorf("%d keys are written of %d", again.tab.len(), n)
				}
				again.close()
				if refusing := told.all(); len(refusing) > 0 {
					t.Fatalf("refused too early: %v", refusing)
				}
				time.Sleep(300 * time.Millisecond)
				synctest.Wait()
				refusing := told.all()
				if test.policy == Never {
					if len(refusing) > 0 {
						t.Errorf("refused, though nothing need be synced: %v", refusing)
					}
				} else if len(refusing) != 1 || refusing[0] != "the disk has not synced what was written for "+test.most.String() || r.Stats().UnsyncedAge < int64(test.most) {
					t.Errorf("refused: %v; %+v", refusing, r.Stats())
				} else if age := refusedAt.Load() - began.UnixNano(); age > int64(test.most) {
					t.Errorf("writers were let in until the oldest change was %v old, and may lose %v", time.Duration(age), test.most)
				}
				close(answers)
				time.Sleep(2 * watchEvery)
				synctest.Wait()
				refusing = told.all()
				if test.policy != Never && (len(refusing) != 2 || refusing[1] != "<nil>") {
					t.Errorf("the disk answers, and %v", refusing)
				}
				r.close()
			})
		})
	}
}

// refusals records whether the store told the server to refuse writers.
type refusals struct {
	mu   sync.Mutex
	told []string
}

func (r *refusals) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, fmt.Sprint(err))
}

func (r *refusals) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// Under Always a failure is passed to main, and no reply is released.
func TestFailureUnderAlwaysIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fatal atomic.Int64
		r := run(t, t.TempDir(), Options{Policy: Always, Fatal: func(err error) {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
			fatal.Add(1)
		}})
		r.fs.full.Store(true)
		r.set(1)
		r.Wait(func(error) { t.Error("released") })
		r.Kick()
		time.Sleep(10 * time.Second)
		r.set(2)
		r.Wait(func(error) { t.Error("released") })
		r.Kick()
		r.fs.full.Store(false)
		time.Sleep(10 * time.Second)
		if fatal.Load() != 1 {
			t.Errorf("main was told %d times", fatal.Load())
		}
		if err := r.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("closed: %v", err)
		}
		if _, err := os.Stat(filepath.Join(r.dir, cleanName)); err == nil {
			t.Error("the end passes for a clean one")
		}
	})
}

// The log is compacted each time it has outgrown the base.
func TestLogIsCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, t.TempDir(), Options{Policy: EverySec, RewritePercent: 100, RewriteMin: 20 << 10})
		for range 100 {
			for i := range 100 {
				r.set(i)
			}
			time.Sleep(2 * writeDelay)
			synctest.Wait()
			if st := r.Stats(); st.LogBytes > 40<<10 {
				t.Fatalf("the logs have %d bytes, the base %d", st.LogBytes, st.BaseBytes)
			}
		}
		st := r.Stats()
		if st.LogBytes != r.cur.End {
			t.Errorf("the log has %d bytes, not %d", r.cur.End, st.LogBytes)
		}
		if st.Snapshots < 5 || st.SnapshotErrors > 0 || st.LogFiles != 1 || st.LastSnapshot == 0 {
			t.Errorf("%+v", st)
		}
		names, err := disk.OS{}.List(r.dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) != 3 {
			t.Errorf("there are %v", names)
		}
		r.close()
	})
}

// Nothing is lost with many writers and snapshots at the same time.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	r := run(t, dir, Options{Policy: Always, RewritePercent: 1, RewriteMin: 1})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			done := make(chan struct{}, 1)
			for i := range 50 {
				r.set(g*1000 + i)
				if r.Wait(func(error) { done <- struct{}{} }) {
					r.Kick()
					<-done
				}
			}
		})
	}
	for i := range 5 {
		if err := r.Snapshot(); err != nil && !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
		if _, err := r.Backup(fmt.Sprint("b", i)); err != nil && !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	}
	all.Wait()
	// As after kill -9: everything acknowledged is there.
	image := filepath.Join(t.TempDir(), "image")
	r.files.Lock() // no snapshot meanwhile
	err := os.CopyFS(image, os.DirFS(dir))
	r.files.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	again := run(t, image, Options{Workers: 2})
	if again.tab.len() != 400 {
		t.Errorf("%d keys, want 400", again.tab.len())
	}
	again.close()
}

// During a snapshot, the log is still synced each second while others write; else a kill could lose more than
// it may.
func TestSnapshotDoesNotHoldUpTheLog(t *testing.T) {
	tab, slow := newTable(4), &diskFS{}
	s, _ := openLoaded(t, Options{Dir: t.TempDir(), FS: slow, Parts: []Part{tab.part()}, Now: func() int64 { return startAt }})
	for n := range 1000 {
		tab.set(1, keyOf(n), stateAt(startAt+hour))
		s.commit()
	}
	held, most := 0, 0
	slow.syncing = func(bytes int) {
		most = max(most, bytes)
		if !s.io.TryLock() {
			held = max(held, bytes)
			return
		}
		s.io.Unlock()
	}
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if held > 2*batchHeaderSize || most < 1000*batchHeaderSize {
		t.Errorf("the log is held up by a sync of %d bytes; the largest one is of %d", held, most)
	}
	slow.syncing = nil
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
