package redo

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
)

// A file of the redo log does not outlive the one after it: it would do again what that one has undone.
func TestOlderFilesGoFirst(t *testing.T) {
	for name, killed := range map[string]bool{"both files are there": false, "a process was killed after it had removed the older one": true} {
		for left := 0; ; left++ {
			whole := false
			for seed := range uint64(50) {
				fsys := twoFiles(t, killed)
				fsys.Left = left
				whole = Repair(fsys, "/g/redo") == nil
				after := fsys.Crash(rand.New(rand.NewPCG(seed, 0)))
				err := Repair(after, "/g/redo")
				b, rerr := disk.ReadFile(after, "/g/1/file", 100)
				if err != nil || rerr != nil || string(b) != "headnew" {
					t.Fatalf("%s, operation %d, seed %d: %q, %v, %v", name, left, seed, b, err, rerr)
				}
			}
			if whole {
				break
			}
		}
	}
}

// twoFiles returns a disk with a redo log of two files. The second cuts off what the first has written, and writes something else. With removed, the first
// is removed, but not durably.
func twoFiles(t *testing.T, removed bool) *disktest.Mem {
	fsys := disktest.New("/g/1")
	var retire func()
	l := &Log{fs: fsys, dir: "/g/redo", full: 1, apart: func(f func()) { retire = f }}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	file, err := disk.CreateAppender(fsys, "/g/1/file", []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	target, err := l.Target(file, "/g/1", []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) error {
		_, err := file.WriteAt([]byte(s), 4)
		return errors.Join(err, target.Wrote(4, []byte(s)))
	}
	err = write("something longer")
	l.full = FileBytes
	if err = errors.Join(err, target.Cuts(4), fsys.Truncate("/g/1/file", 4), write("new")); err != nil {
		t.Fatal(err)
	}
	if removed {
		fsys.Left = 2 // the sync of the file, and the removal
		retire()
		fsys.Crashed, fsys.Left = false, -1
	}
	if names, err := fsys.List("/g/redo"); err != nil || len(names) == 2 == removed {
		t.Fatal(names, err)
	}
	return fsys
}

// What a file has lost because it could not be synced, when it was closed, is done again at the next start.
func TestFileThatCannotBeSynced(t *testing.T) {
	fsys := &disktest.Faulty{Mem: disktest.New("/g/1"), Err: syscall.EIO}
	l, err := Open(fsys, "/g/redo", FileBytes)
	if err != nil {
		t.Fatal(err)
	}
	file, err := disk.CreateAppender(fsys, "/g/1/file", []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	target, err := l.Target(file, "/g/1", []byte("head"))
	if err == nil {
		err = file.Append([]byte("data"), nil)
	}
	if err = errors.Join(err, target.Wrote(4, []byte("data"))); err != nil {
		t.Fatal(err)
	}
	fsys.N = 1 // the next operation fails
	if err := target.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	target.Done()
	if err := errors.Join(file.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	left := fsys.Crash(rand.New(rand.NewPCG(0, 0)))
	err = Repair(left, "/g/redo")
	b, rerr := disk.ReadFile(left, "/g/1/file", 100)
	if err != nil || rerr != nil || string(b) != "headdata" {
		t.Errorf("%q, %v, %v", b, err, rerr)
	}
}

// The sync of a file may fail before the redo log syncs it for itself. The system has told that once, and from then on takes for
// written what it has only in memory.
func TestSyncAfterOneThatFailed(t *testing.T) {
	fsys := &disktest.Faulty{Mem: disktest.New("/g/1"), Err: syscall.EIO}
	var retire func()
	l := &Log{fs: fsys, dir: "/g/redo", full: 1, apart: func(f func()) { retire = f }}
	file, target := writesTo(t, l, "data")
	if retire == nil {
		t.Fatal("the file of the redo log is not full")
	}
	fsys.N = 1 // the next operation fails
	if err := target.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	retire()
	if err := target.Wrote(8, []byte("more")); !errors.Is(err, syscall.EIO) {
		t.Errorf("a write after the error: %v", err)
	}
	target.Done()
	if err := errors.Join(file.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	left := fsys.Crash(rand.New(rand.NewPCG(0, 0)))
	err := Repair(left, "/g/redo")
	b, rerr := disk.ReadFile(left, "/g/1/file", 100)
	if err != nil || rerr != nil || string(b) != "headdata" {
		t.Errorf("%q, %v, %v", b, err, rerr)
	}
}

// A process may be killed when it has removed the last file, and not durably. After the next start the file does not come back: who has no redo log may have
// changed by then what it is about.
func TestLastFileIsGone(t *testing.T) {
	for seed := range uint64(20) {
		fsys := disktest.New("/g/1")
		l, err := Open(fsys, "/g/redo", FileBytes)
		if err != nil {
			t.Fatal(err)
		}
		file, err := disk.CreateAppender(fsys, "/g/1/file", []byte("head"))
		if err != nil {
			t.Fatal(err)
		}
		target, err := l.Target(file, "/g/1", []byte("head"))
		if err == nil {
			err = file.Append([]byte("data"), nil)
		}
		if err = errors.Join(err, target.Wrote(4, []byte("data")), target.Sync()); err != nil {
			t.Fatal(err)
		}
		target.Done()
		fsys.Left = 1 // behind the removal
		if err := l.Close(); !errors.Is(err, disktest.ErrCrashed) {
			t.Fatal(err)
		}
		fsys.Crashed, fsys.Left = false, -1
		if names, err := fsys.List("/g/redo"); err != nil || len(names) > 0 {
			t.Fatalf("%q are left, %v", names, err)
		}
		if err := errors.Join(Repair(fsys, "/g/redo"), fsys.Truncate("/g/1/file", 4)); err != nil {
			t.Fatal(err)
		}
		left := fsys.Crash(rand.New(rand.NewPCG(seed, 0)))
		err = Repair(left, "/g/redo")
		if b, rerr := disk.ReadFile(left, "/g/1/file", 100); err != nil || rerr != nil || string(b) != "head" {
			t.Fatalf("seed %d: %q, %v, %v", seed, b, err, rerr)
		}
	}
}

// A process may be killed while it syncs a cut. The next start finds that in the redo log, and cuts the file. If the machine then loses its power, and the redo log
// what was not synced, the writes before the cut are not done again over the file without the bytes in front of them.
func TestCutThatWasNotSynced(t *testing.T) {
	seen := map[string]int{}
	for killed := range 3 { // before, in and behind the sync of the cut
		for left := 0; ; left++ {
			whole := false
			for seed := range uint64(50) {
				fsys := killedInACut(t, killed)
				fsys.Left = left
				whole = Repair(fsys, "/g/redo") == nil
				after := fsys.Crash(rand.New(rand.NewPCG(seed, 0)))
				err := Repair(after, "/g/redo")
				b, rerr := disk.ReadFile(after, "/g/1/file", 100)
				if seen[string(b)]++; err != nil || rerr != nil || string(b) != "headonetwo" && string(b) != "head" {
					t.Fatalf("killed %d, operation %d, seed %d: %q, %v, %v", killed, left, seed, b, err, rerr)
				}
			}
			if whole {
				break
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("seen are %v", seen)
	}
}

// killedInACut returns a disk with a redo log that has the second of two writes, and a cut in front of both, in which the process was killed.
func killedInACut(t *testing.T, left int) *disktest.Mem {
	fsys := disktest.New("/g/1")
	l := &Log{fs: fsys, dir: "/g/redo", full: 1, apart: func(retire func()) { retire() }}
	file, target := writesTo(t, l, "one")
	l.full = FileBytes
	if err := errors.Join(file.Append([]byte("two"), nil), target.Wrote(7, []byte("two"))); err != nil {
		t.Fatal(err)
	}
	fsys.Left = left
	_ = target.Cuts(4)
	fsys.Crashed, fsys.Left = false, -1
	return fsys
}

// writesTo opens a redo log, and a file that begins with a head of 4 bytes, and writes to both.
func writesTo(t *testing.T, l *Log, data string) (*disk.Appender, *Target) {
	t.Helper()
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	file, err := disk.CreateAppender(l.fs, "/g/1/file", []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	target, err := l.Target(file, "/g/1", []byte("head"))
	if err == nil {
		err = file.Append([]byte(data), nil)
	}
	if err = errors.Join(err, target.Wrote(4, []byte(data))); err != nil {
		t.Fatal(err)
	}
	return file, target
}
