package persistence

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"limitdb/internal/disk/disktest"
)

// meddling is a file system on which others act just before a file gets its name.
type meddling struct {
	*disktest.Faulty
	renaming func(to string)
}

func (m *meddling) Rename(from, to string) error {
	if m.renaming != nil {
		m.renaming(filepath.Base(to))
	}
	return m.Faulty.Rename(from, to)
}

// set gives a key a state that no other has had.
func (w *world) set(n int) {
	w.wall++
	state := stateAt(w.now() + hour)
	w.hist.add(n, state)
	w.table.set(1, keyOf(n), state)
	w.changedAt = w.now()
}

// broken returns a world whose log has just failed, on a disk that works again.
func broken(t *testing.T) (*world, *meddling) {
	t.Helper()
	w := newWorld(t, 1, EverySec)
	fs := &meddling{Faulty: &disktest.Faulty{Mem: w.fs, N: -1, Err: syscall.ENOSPC}}
	if err := w.start(fs); err != nil {
		t.Fatal(err)
	}
	w.table.onCopy, w.table.onCut = nil, nil
	w.set(1)
	if err := w.store.Sync(); err != nil {
		t.Fatal(err)
	}
	fs.N = 1
	w.set(2)
	w.commit()
	if err := w.store.Failing(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return w, fs
}

// The log that takes the place of one that has failed may fail as well, just before it is in force. Then the store goes on refusing writers.
func TestNewLogThatFails(t *testing.T) {
	w, fs := broken(t)
	fs.renaming = func(to string) {
		if to == manifestName {
			fs.renaming, fs.N = nil, 1
			w.set(3)
			if err := w.store.gather(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("written on a full disk: %v", err)
			}
		}
	}
	if err := w.store.rescue(); err == nil || w.store.Failing() == nil {
		t.Fatalf("without a log: %v, failing: %v", err, w.store.Failing())
	}
	if err := w.store.rescue(); err != nil || w.store.Failing() != nil {
		t.Fatalf("there is room: %v, failing: %v", err, w.store.Failing())
	}
	w.set(4)
	if err := w.store.Sync(); err != nil {
		t.Fatal(err)
	}
	w.hist.ack(w.hist.mark())
	w.crash()
	w.lastStart()
}

// Nothing is durable in a log that no MANIFEST names yet.
func TestSyncWhileANewLogBegins(t *testing.T) {
	w, fs := broken(t)
	asked := 0
	fs.renaming = func(string) {
		asked++
		if err := w.store.Sync(); !errors.Is(err, ErrFailed) {
			t.Errorf("synced: %v", err)
		}
	}
	if err := w.store.rescue(); err != nil || asked < 3 {
		t.Fatalf("%v, asked %d times", err, asked)
	}
	if err := w.store.Sync(); err != nil {
		t.Fatal(err)
	}
}

// If the disk was full at the first start, and a crash comes while the store makes its first files, the next start finds a directory that it can
// start from.
func TestCrashAfterAFirstStartOnAFullDisk(t *testing.T) {
	for n, cuts := 1, 0; ; n++ {
		if n > 20 {
			t.Fatalf("full at %d operations of a start, and only %d crashes", n, cuts)
		}
		for left := 0; ; left++ {
			w := newWorld(t, uint64(left), Always)
			fs := &disktest.Faulty{Mem: w.fs, N: n, Err: syscall.ENOSPC, Forever: true}
			if err := w.start(fs); err != nil {
				t.Fatal(err)
			}
			if w.store.Failing() == nil {
				if cuts < 10 {
					t.Errorf("only %d crashes", cuts)
				}
				return
			}
			fs.Forever = false
			w.fs.Left = left
			err := w.store.rescue()
			if err == nil {
				break
			}
			if !w.fs.Crashed {
				t.Fatal(err)
			}
			cuts++
			w.crash()
			w.fs.Left = -1
			if err := w.start(w.fs); err != nil {
				t.Fatalf("full at operation %d, crash at operation %d of what followed: %v", n, left, err)
			}
		}
	}
}

// A log that could not be turned off goes on, and nothing of it is lost in a crash.
func TestLogThatCannotBeTurnedOff(t *testing.T) {
	for name, again := range map[string]bool{"the directory is not synced": false, "nor is the file renamed back": true} {
		for seed := range uint64(40) {
			w := newWorld(t, seed, Always)
			fs := &disktest.Faulty{Mem: w.fs, N: -1, Err: syscall.EIO}
			if err := w.start(fs); err != nil {
				t.Fatal(err)
			}
			w.table.onCopy, w.table.onCut = nil, nil
			w.set(1)
			w.reply()
			w.commit()
			fs.N, fs.Forever = 2, again
			if err := w.store.Retire(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s: turned off: %v", name, err)
			}
			fs.Forever = false
			if again {
				replied := w.replied
				w.set(2)
				w.reply()
				w.commit()
				if w.replied != replied || w.fatal != nil {
					t.Fatalf("%s: a reply was released before there was a MANIFEST, or %v", name, w.fatal)
				}
				if err := w.store.rescue(); err != nil {
					t.Fatal(err)
				}
			}
			w.set(3)
			w.reply()
			w.commit()
			if w.replied == 0 {
				t.Fatalf("%s: no reply was released", name)
			}
			w.crash()
			w.lastStart()
		}
	}
}

// A store that has ended takes nothing from its parts: what they have is for the next one.
func TestEndedStoreTakesNothing(t *testing.T) {
	for name, end := range map[string]func(s *Store) error{"turned off": (*Store).Retire, "closed": (*Store).Close} {
		m := disktest.New(dataDir)
		tab := newTable(2)
		o := Options{Dir: dataDir, FS: m, Parts: []Part{tab.part()}, Policy: Always, Now: func() int64 { return startAt }}
		old, _ := openLoaded(t, o)
		if err := end(old); err != nil {
			t.Fatal(err)
		}
		tab.retire()
		next, _ := openLoaded(t, o)
		tab.set(1, keyOf(1), stateAt(startAt+hour))
		if err := old.Sync(); err == nil {
			t.Errorf("%s: it has made something durable", name)
		}
		if err := next.Sync(); err != nil {
			t.Fatal(err)
		}
		found := newTable(1)
		o.Parts = []Part{found.part()}
		if _, l := openLoaded(t, o); l.Sets != 1 || found.get(keyOf(1)) == nil {
			t.Errorf("%s: %d changes of 1 are on the disk", name, l.Sets)
		}
	}
}

// A backup that cannot be made leaves nothing behind, whichever operation fails.
func TestBackupThatFails(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t, 1, EverySec)
		fs := &disktest.Faulty{Mem: w.fs, N: -1, Err: syscall.ENOSPC}
		if err := w.start(fs); err != nil {
			t.Fatal(err)
		}
		w.set(1)
		if err := w.store.Snapshot(); err != nil {
			t.Fatal(err)
		}
		w.set(2)
		fs.N = n
		_, err := w.store.Backup("b")
		if fs.Hit == "" {
			if n < 8 {
				t.Errorf("only %d operations", n)
			}
			return
		}
		if w.store.Failing() != nil || err == nil {
			continue
		}
		if _, err := w.store.Backup("b"); err != nil {
			t.Errorf("again after %q: %v", fs.Hit, err)
		}
	}
}
