package replication

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
	"limitdb/replication/redo"
)

// removing calls functions before and after each file is removed.
type removing struct {
	disk.FS
	before, after func()
}

func (r removing) Remove(name string) error {
	r.before()
	defer r.after()
	return r.FS.Remove(name)
}

// A segment may come back after a loss of power while its removal is not durable. Then it must have all that was durable in the redo log, or the redo log
// must still have it.
func TestSegmentThatComesBack(t *testing.T) {
	open := func(fsys *disktest.Mem) *redo.Log {
		again, err := redo.Open(fsys, "/raft/redo", redo.FileBytes)
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	for name, killed := range map[string]bool{"the redo log is emptied meanwhile": false, "the process is killed, and starts again": true} {
		for seed := range uint64(50) {
			mem := disktest.New("/raft/1/log")
			again := open(mem)
			var left *disktest.Mem // by a loss of power
			lost := func() { left = mem.Crash(rand.New(rand.NewPCG(seed, 0))) }
			fsys := removing{FS: mem, before: func() {}, after: func() {
				if killed {
					open(mem)
				}
				lost()
			}}
			if !killed {
				fsys.before = func() {
					if err := again.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			log, err := openLog(fsys, "/raft/1/log", false, again)
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint64(3) {
				if err := log.StoreLog(&raft.Log{Index: i + 1, Data: bytes.Repeat([]byte{1}, 700)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := log.DeleteRange(1, 3); err != nil {
				t.Fatal(err)
			}
			log, err = openLog(left, "/raft/1/log", false, open(left))
			if err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			if last, _ := log.LastIndex(); last != 0 && last != 3 {
				t.Errorf("%s, seed %d: the last entry is %d", name, seed, last)
			}
		}
	}
}

// How far the log reaches may be noted while entries are removed from its end. The next start must not miss what is gone then.
func TestEndNotedDuringACut(t *testing.T) {
	mem := disktest.New("/raft/1/log")
	log := &diskLog{dir: "/raft/1/log", segment: 1 << 10}
	last := &lastIndex{fs: mem, dir: "/raft/1", storedLast: storedLast{Node: "a"}}
	noted := 0
	note := func() {
		noted++
		if err := last.reach(log); err != nil {
			t.Error(err)
		}
	}
	log.fs = removing{FS: mem, before: note, after: note}
	if err := log.open(false); err != nil {
		t.Fatal(err)
	}
	log.shorten = func(index uint64, forget func()) error {
		err := last.cut(index, forget)
		note()
		return err
	}
	for i := range uint64(9) {
		if err := log.StoreLog(&raft.Log{Index: i + 1, Data: bytes.Repeat([]byte{1}, 400)}); err != nil {
			t.Fatal(err)
		}
	}
	note()
	if err := log.DeleteRange(2, 9); err != nil {
		t.Fatal(err)
	}
	if end, _ := log.LastIndex(); end != 1 || last.Last != end || noted < 4 {
		t.Errorf("the log ends with %d, and %d is noted, the last of %d times", end, last.Last, noted)
	}
}

// After a sync that failed, the system takes for written what it has only in memory, and another sync succeeds. A node that starts then makes durable what
// it finds: it tells its leader that it has it.
func TestSyncThatFails(t *testing.T) {
	for fails := 1; ; fails++ {
		m := &disktest.Faulty{Mem: disktest.New("/raft/1/log"), Err: syscall.EIO}
		log, err := openLog(m, "/raft/1/log", false, nil)
		if err == nil {
			err = log.StoreLogs([]*raft.Log{{Index: 1}, {Index: 2}})
		}
		if err != nil {
			t.Fatal(err)
		}
		m.N = 2 // the sync after the write
		if err := log.StoreLogs([]*raft.Log{{Index: 3}, {Index: 4}}); !errors.Is(err, syscall.EIO) || !strings.HasPrefix(m.Hit, "sync") {
			t.Fatalf("%v, %s", err, m.Hit)
		}
		m.N, m.Hit = fails, "" // in the next start
		_, err = openLog(m, "/raft/1/log", false, nil)
		whole := err == nil
		m.N = 0
		log, err = openLog(m, "/raft/1/log", false, nil)
		if err != nil {
			t.Fatal(err)
		}
		last, _ := log.LastIndex()
		for seed := range uint64(20) {
			left := m.Crash(rand.New(rand.NewPCG(seed, 0)))
			after, err := openLog(left, "/raft/1/log", false, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := after.LastIndex(); got != last {
				t.Fatalf("the next start fails with %q, seed %d: the log ends with %d, and ended with %d", m.Hit, seed, got, last)
			}
		}
		if whole {
			return
		}
	}
}
