package persistence

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"limitdb/internal/disk/disktest"
)

// A process that ends after an operation has failed, and starts again while the machine goes on, finds what the kernel shows, whether it is on the
// disk or not. What it tells its clients of that is not lost when the power fails later.
//
//test:norace
func TestRestartsAfterAFailure(t *testing.T) {
	t.Parallel()
	restarts := 0
	everyFault(t, func(t *testing.T, w *world, fs *disktest.Faulty) bool {
		err := w.start(fs)
		if err == nil {
			err = w.work(func() bool { return fs.Hit != "" })
			if err == nil && fs.Hit == "" {
				return true
			}
		} else if fs.Hit == "" || !errors.Is(err, fs.Err) {
			t.Fatalf("start: %v", err)
		}
		for range 2 { // also without a change in between
			w.fs.Syncing = nil
			w.killed()
			if err := w.start(w.fs); err != nil {
				t.Fatalf("after it (%s): %v", fs.Hit, err)
			}
			restarts++
		}
		left := w.rng.IntN(4)
		if err := w.work(func() bool { left--; return left < 0 }); err != nil {
			t.Fatalf("after a restart: %v", err)
		}
		w.crash()
		if err := w.start(w.fs); err != nil {
			t.Fatalf("after it (%s), a restart and a crash: %v", fs.Hit, err)
		}
		return false
	})
	if restarts < 1000 {
		t.Errorf("only %d restarts", restarts)
	}
}

// If the process is killed after it has made its directory, the next one makes the directory's name durable.
func TestDirectoryWithoutADurableName(t *testing.T) {
	for seed := range uint64(20) {
		m := disktest.New()
		if err := m.Mkdir(dataDir); err != nil {
			t.Fatal(err)
		}
		o := Options{Dir: dataDir, FS: m, Parts: []Part{newTable(1).part()}, Policy: Always, Now: func() int64 { return startAt }}
		s, _ := openLoaded(t, o)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if m = m.Crash(seeded(seed)); m.Dir(dataDir) == nil {
			t.Fatal("the directory is gone")
		}
	}
}

// What other code keeps in the directory, finished or not, stays there. What a store has not finished goes.
func TestFilesOfOthersStay(t *testing.T) {
	m := newMachine()
	for _, name := range []string{"last-backup.tmp", "users.acl.tmp", "MANIFEST.tmp", "CLEAN.tmp", "log-00000009.tmp", "base-00000007.tmp"} {
		m.fs.Dir(dataDir)[name] = disktest.File(nil)
	}
	s, _ := m.open(t, newTable(1))
	if err := cmp.Or(s.Snapshot(), s.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := m.fs.List(dataDir)
	if want := "[CLEAN MANIFEST base-00000002 last-backup.tmp log-00000001 users.acl.tmp]"; err != nil || fmt.Sprint(names) != want {
		t.Errorf("%v, %v; want %v", names, err, want)
	}
}

// A copy that is repaired without a MANIFEST has the logs in the order of their numbers, of however many digits.
func TestRepairInTheOrderOfNumbers(t *testing.T) {
	m, tab := newMachine(), newTable(1)
	s, _ := m.open(t, tab)
	s.number = 99_999_998
	for i := range 3 {
		tab.set(1, keyOf(1), stateAt(m.now+hour, byte(i)))
		if _, err := s.Backup(fmt.Sprint("b", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.fs.Remove(s.path(manifestName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(CheckOptions{Dir: dataDir, FS: m.fs, Repair: "/repaired", Entropy: entropy{seeded(1)}}); err != nil {
		t.Fatal(err)
	}
	found := newTable(1)
	openLoaded(t, Options{Dir: "/repaired", FS: m.fs, Parts: []Part{found.part()}, Policy: Always, Now: func() int64 { return m.now }})
	if state := found.get(keyOf(1)); len(state) != 9 || state[8] != 2 {
		t.Errorf("%x", state)
	}
}

// The snapshot that replaces old times is made even if nothing changes.
func TestOldTimesAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := run(t, dir, Options{Policy: Always, Now: func() int64 { return time.Now().UnixNano() + hour }})
		r.set(1)
		r.close()
		r = run(t, dir, Options{Policy: Always, WallClock: true})
		time.Sleep(time.Second / 2)
		synctest.Wait()
		if n := r.Stats().Snapshots; n != 1 {
			t.Errorf("%d snapshots", n)
		}
		r.close()
	})
}

// A snapshot that is due is made later if a backup is in its way.
func TestDueSnapshotIsNotForgotten(t *testing.T) {
	m, tab := newMachine(), newTable(1)
	s, _ := m.open(t, tab)
	tab.set(1, keyOf(1), stateAt(m.now+hour))
	s.commit()
	m.now, m.trust = m.now-hour, true
	s, _ = m.open(t, newTable(1))
	s.files.Lock() // as during a backup
	s.compact()
	s.files.Unlock()
	if s.compact(); s.Stats().Snapshots != 1 {
		t.Errorf("%d snapshots", s.Stats().Snapshots)
	}
}
