package persistence

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"limitdb/internal/disk/disktest"
)

// fault is a way in which an operation fails.
type fault struct {
	name  string
	err   error
	short bool
}

func faults() []fault {
	return []fault{{"EIO", syscall.EIO, false}, {"ENOSPC", syscall.ENOSPC, false}, {"short write", syscall.ENOSPC, true}}
}

// everyFault runs fn once for each operation n and each fault, with the n-th operation failing.
func everyFault(t *testing.T, fn func(t *testing.T, w *world, fs *disktest.Faulty) (done bool)) {
	for _, policy := range []Policy{Always, EverySec} {
		for _, f := range faults() {
			t.Run(fmt.Sprintf("%v/%s", policy, f.name), func(t *testing.T) {
				for n := 1; ; n++ {
					w := newWorld(t, uint64(n), policy)
					w.pairing = true
					fs := &disktest.Faulty{Mem: w.fs, N: n, Err: f.err, Short: f.short}
					done := fn(t, w, fs)
					if t.Failed() {
						t.Fatalf("operation %d: %s", n, fs.Hit)
					}
					if done {
						if n < 30 {
							t.Fatalf("only %d operations", n)
						}
						return
					}
				}
			})
		}
	}
}

// work does a bit of everything. It stops at the first sign of a failure, or when stop says so.
func (w *world) work(stop func() bool) error {
	for i := range 30 {
		for range 3 {
			w.reply()
		}
		w.commit()
		switch i % 10 {
		case 4:
			w.store.second()
			w.noteDurable()
		case 7:
			if err := w.store.Snapshot(); err != nil {
				return err
			}
			w.noteDurable()
		case 9:
			w.backups++
			if _, err := w.store.Backup(fmt.Sprint("backup", w.backups)); err != nil {
				return err
			}
			w.noteDurable()
		}
		if err := w.store.Failing(); err != nil {
			return err
		}
		if stop() {
			return nil
		}
	}
	return nil
}

// The store reports every failure, and loses nothing that it acknowledged before the failure or after the recovery.
//
//test:norace
func TestEveryOperationFails(t *testing.T) {
	t.Parallel()
	everyFault(t, func(t *testing.T, w *world, fs *disktest.Faulty) bool {
		err := w.start(fs)
		if err == nil {
			w.full = w.store.Failing() != nil // under every policy the store recovers from that
			// The crash may come right away, or some time after the failure.
			left := w.rng.IntN(4)
			err = w.work(func() bool {
				if fs.Hit != "" {
					left--
				}
				return left < 0
			})
			if err == nil && fs.Hit == "" {
				return true
			}
			w.after(t, fs, err)
		} else if fs.Hit == "" || !errors.Is(err, fs.Err) {
			t.Fatalf("start: %v", err)
		}
		// The crash loses everything unsynced, including what a failed sync should have covered.
		w.crash()
		if err := w.start(w.fs); err != nil {
			t.Fatalf("after it (%s): %v", fs.Hit, err)
		}
		return false
	})
}

// after checks a store after one of its operations has failed.
func (w *world) after(t *testing.T, fs *disktest.Faulty, err error) {
	if w.policy == Always && !w.full {
		if w.store.Failing() != nil && w.fatal == nil {
			t.Fatal("the log cannot be written, and main was not told")
		}
		if w.store.Failing() != nil {
			replied := w.replied
			w.reply()
			w.commit()
			w.store.second()
			if w.replied != replied {
				t.Fatal("a reply was released after the log had failed")
			}
			return
		}
	}
	if w.store.Failing() != nil {
		if err := w.store.rescue(); err != nil {
			t.Fatalf("it does not heal: %v", err)
		}
		if err := w.store.Failing(); err != nil {
			t.Fatalf("healed, and still %v", err)
		}
		w.hist.ack(w.copied) // the base has it
	}
	// A sync that succeeds now says nothing about what an earlier one failed to sync.
	w.store.second()
	w.noteDurable()
	if w.rng.IntN(2) == 0 {
		return
	}
	// Some failures do not matter, such as a file that could not be removed: the store continues.
	left := w.rng.IntN(30)
	if again := w.work(func() bool { left--; return left < 0 }); again != nil {
		t.Fatalf("after %v: %v", err, again)
	}
	w.store.sync()
	w.noteDurable()
}

// The store refuses writers while the disk is full, and recovers by itself when there is room.
func TestFullDiskHeals(t *testing.T) {
	w := newWorld(t, 1, EverySec)
	fs := &disktest.Faulty{Mem: w.fs, N: -1, Err: syscall.ENOSPC, Short: true}
	if err := w.start(fs); err != nil {
		t.Fatal(err)
	}
	if err := w.work(func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	fs.N, fs.Forever = 1, true
	w.change()
	w.table.set(1, keyOf(1), stateAt(w.now()+hour))
	w.hist.add(1, stateAt(w.now()+hour))
	w.commit()
	for range 3 {
		if err := w.store.Failing(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("a full disk: %v", err)
		}
		if err := w.store.rescue(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("rescued on a full disk: %v", err)
		}
		w.commit() // drains the records and drops them: the parts have the changes
	}
	names, err := w.fs.List(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	// First there is room for only a part of the recovery, finally for all of it.
	for n := 2; ; n++ {
		fs.N = n
		if err := w.store.rescue(); err == nil {
			break
		}
		if w.store.Failing() == nil {
			t.Fatalf("writers are let in when %d operations of healing have been done", n-1)
		}
		if n > 100 {
			t.Fatal("it does not heal")
		}
	}
	if err := w.store.Failing(); err != nil {
		t.Fatal(err)
	}
	w.hist.ack(w.hist.mark())
	fs.Forever = false
	if err := w.store.Snapshot(); err != nil { // this also removes the remains of the attempts
		t.Fatal(err)
	}
	if after, _ := w.fs.List(dataDir); len(after) > len(names) {
		t.Errorf("before %v, after %v", names, after)
	}
	w.crash()
	if err := w.start(w.fs); err != nil {
		t.Fatal(err)
	}
}
