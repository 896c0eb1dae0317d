package replication

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
	"limitdb/replication/redo"
)

// diskModel is a log on a disk that may crash, beside a plain list of what it must have.
type diskModel struct {
	fs   *disktest.Mem
	redo bool // with a redo log
	log  *diskLog
	// entries are those that the log has or, after a crash, may have. It has those from durable[0] to durable[1]
	// (index) for certain.
	first   uint64
	entries []string
	durable [2]uint64
}

func (m *diskModel) open(t *rapid.T) {
	log := &diskLog{fs: m.fs, dir: "/raft/1/log", segment: 1 << 10}
	err := error(nil)
	if m.redo {
		log.redo, err = redo.Open(m.fs, "/raft/redo", redo.FileBytes)
	}
	if err == nil {
		err = log.open(false)
	}
	if errors.Is(err, disktest.ErrCrashed) {
		m.crash(t)
		return
	} else if err != nil {
		t.Fatal(err)
	}
	m.log = log
	first, _ := log.FirstIndex()
	last, _ := log.LastIndex()
	if m.durable[1] >= m.durable[0] && (first > m.durable[0] || last < m.durable[1]) {
		t.Fatalf("the log has %d-%d, want at least %d-%d", first, last, m.durable[0], m.durable[1])
	}
	if first == 0 {
		m.first, m.entries = max(m.durable[0], 1), nil
	} else {
		if first < m.first || last >= m.first+uint64(len(m.entries)) {
			t.Fatalf("the log has %d-%d, and had %d entries from %d on", first, last, len(m.entries), m.first)
		}
		m.first, m.entries = first, m.entries[first-m.first:last+1-m.first]
	}
	m.durable = [2]uint64{m.first, m.next() - 1}
}

func (m *diskModel) next() uint64 { return m.first + uint64(len(m.entries)) }

// crash ends the process, or cuts the power, and starts the log again. That may crash as well.
func (m *diskModel) crash(t *rapid.T) {
	if rapid.Bool().Draw(t, "power") {
		m.fs = m.fs.Crash(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
	}
	m.fs.Crashed, m.fs.Left = false, rapid.SampledFrom([]int{-1, -1, 0, 1, 2, 3}).Draw(t, "until the next")
	m.open(t)
	m.fs.Left = -1
}

// during does something that a crash may come into, and returns false if one came.
func (m *diskModel) during(t *rapid.T, do func() error) bool {
	m.fs.Left = rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 8, 10}).Draw(t, "until a crash")
	err := do()
	m.fs.Left = -1
	if m.fs.Crashed {
		m.crash(t)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

func (m *diskModel) store(t *rapid.T) {
	index := m.next()
	if len(m.entries) == 0 {
		index += rapid.Uint64Range(0, 3).Draw(t, "gap")
		m.first, m.durable = index, [2]uint64{index, index - 1}
	}
	var logs []*raft.Log
	for i := range rapid.IntRange(1, 3).Draw(t, "entries") {
		b := bytes.Repeat([]byte{byte(rapid.IntRange(1, 255).Draw(t, "byte"))}, rapid.SampledFrom([]int{0, 1, 100, 700, disk.AheadBelow}).Draw(t, "size"))
		logs = append(logs, &raft.Log{Index: index + uint64(i), Term: index, Type: raft.LogCommand, Data: b})
		m.entries = append(m.entries, string(b))
	}
	if m.during(t, func() error { return m.log.StoreLogs(logs) }) {
		m.durable[1] = m.next() - 1
	}
}

func (m *diskModel) cut(t *rapid.T) {
	if len(m.entries) == 0 {
		return
	}
	at := rapid.Uint64Range(m.first, m.next()).Draw(t, "at")
	switch {
	case rapid.Bool().Draw(t, "from the end"):
		m.durable[1] = at - 1
		if m.during(t, func() error { return m.log.DeleteRange(at, m.next()-1) }) {
			m.entries = m.entries[:at-m.first]
		}
	case at > m.first:
		m.durable[0] = at
		if at == m.next() { // all, the last first
			m.durable = [2]uint64{at, at - 1}
		}
		if m.during(t, func() error { return m.log.DeleteRange(m.first, at-1) }) {
			m.entries, m.first = m.entries[at-m.first:], at
		}
	}
}

func (m *diskModel) check(t *rapid.T) {
	first, _ := m.log.FirstIndex()
	last, _ := m.log.LastIndex()
	if n := uint64(len(m.entries)); n == 0 && (first != 0 || last != 0) || n > 0 && (first != m.first || last != m.first+n-1) {
		t.Fatalf("the log has %d-%d, want %d entries from %d on", first, last, n, m.first)
	}
	for i, want := range m.entries {
		var l raft.Log
		index := m.first + uint64(i)
		if err := m.log.GetLog(index, &l); err != nil || l.Index != index || l.Type != raft.LogCommand || string(l.Data) != want {
			t.Fatalf("entry %d: %+v, %v", index, l, err)
		}
	}
	for _, index := range []uint64{0, m.first - 1, m.first + uint64(len(m.entries))} {
		if err := m.log.GetLog(index, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d: %v", index, err)
		}
	}
}

// The log has every entry that was stored and not cut, wherever a crash comes and whatever it leaves of what was not
// synced.
//
//test:norace
func TestDiskLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &diskModel{fs: disktest.New("/raft/1/log"), redo: rapid.Bool().Draw(rt, "redo log"), first: 1, durable: [2]uint64{1, 0}}
		m.open(rt)
		rt.Repeat(map[string]func(*rapid.T){"": m.check, "store": m.store, "store more": m.store, "cut": m.cut, "crash": m.crash})
	})
}

// A disk that is full when a node starts costs the node no votes.
func TestVotesOnAFullDisk(t *testing.T) {
	const own = "LIMITDB_TEST_FULL_DISK"
	if os.Getenv(own) == "" { // in a process of its own: the limit is for all files of a process
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		test := exec.Command(self, "-test.run", "^TestVotesOnAFullDisk$")
		test.Env = append(os.Environ(), own+"=yes")
		if out, err := test.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	path := filepath.Join(t.TempDir(), voteFile)
	if err := createVotes(path, ballot{Node: "node", Number: 7, Values: map[string][]byte{termKey: {0, 0, 0, 0, 0, 0, 0, 9}}}); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for room := uint64(4 << 10); room <= 128<<10; room += 4 << 10 {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		v, err := openVotes(path, "node", false)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			failed++
		} else if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		var left votes
		if rerr := left.read(path); rerr != nil || left.term() != 9 {
			t.Fatalf("room for %d bytes: %v, and then the term is %d, %v", room, err, left.term(), rerr)
		}
	}
	if failed == 0 {
		t.Error("the disk was never full")
	}
}

// logWithWrites makes a log of ten writes, and returns the path of its only file.
func logWithWrites(t *testing.T) (path string) {
	dir := t.TempDir()
	log, err := openLog(disk.OS{}, dir, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		if err := log.StoreLog(&raft.Log{Index: i + 5, Term: 3, Data: []byte("some entry")}); err != nil {
			t.Fatal(err)
		}
	}
	path = log.segments[0].name(dir, 5)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A damaged byte is an error, except in the last write, which may be torn. Nothing else is lost.
func TestDamagedLog(t *testing.T) {
	path := logWithWrites(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const size = logHead + len("some entry")
	b = b[:segmentHead+10*size+100]
	for at := range b {
		bad := slices.Clone(b)
		bad[at] ^= 0x10
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := openLog(disk.OS{}, filepath.Dir(path), true, nil)
		if at < segmentHead+9*size {
			if !errors.Is(err, errLog) && !errors.Is(err, ErrNewer) {
				t.Fatalf("byte %d: %v", at, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		want := uint64(13)
		if at >= segmentHead+10*size {
			want = 14
		}
		if last, _ := log.LastIndex(); last != want {
			t.Errorf("byte %d: the last entry is %d", at, last)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Wrong files of a log, and wrong calls of it, are errors.
func TestLogsThatAreRefused(t *testing.T) {
	path := logWithWrites(t)
	dir := filepath.Dir(path)
	log, err := openLog(disk.OS{}, dir, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(disk.OS{}, dir, false, nil); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if _, err := openLog(disk.OS{}, dir, true, nil); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("read while a node runs: %v", err)
	}
	if err := log.StoreLog(&raft.Log{Index: 16}); err == nil {
		t.Error("an entry is left out")
	}
	if err := log.StoreLogs([]*raft.Log{{Index: 15}, {Index: 17}}); err == nil {
		t.Error("an entry is left out within a write")
	}
	if err := log.DeleteRange(6, 7); err == nil {
		t.Error("entries are cut from the middle")
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	for name, to := range map[string]string{"a gap": "0000000000000007", "no number": "x", "entries that it has not": "0000000000000099", "entries before it": "0000000000000001"} {
		other := filepath.Join(t.TempDir(), to+segmentEnd)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(other, b, 0o600)
		}
		if name == "a gap" && err == nil {
			err = os.WriteFile(filepath.Join(filepath.Dir(other), "0000000000000020"+segmentEnd), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := openLog(disk.OS{}, filepath.Dir(other), true, nil); !errors.Is(err, errLog) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Raft reads the log, and cuts its beginning, while entries are stored.
func TestLogIsReadWhileItChanges(t *testing.T) {
	log, err := openLog(disk.OS{}, volatileDir(t), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	log.segment = 1 << 10
	var all sync.WaitGroup
	all.Go(func() {
		for i := range uint64(300) {
			if err := log.StoreLog(&raft.Log{Index: i + 1, Data: make([]byte, 50)}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() {
		for last := uint64(0); last < 300; {
			first, _ := log.FirstIndex()
			last, _ = log.LastIndex()
			if first+50 < last {
				if err := log.DeleteRange(first, last-50); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for last := uint64(0); last < 300; {
		last, _ = log.LastIndex()
		if err := log.GetLog(last, &raft.Log{}); last > 0 && err != nil {
			if first, _ := log.FirstIndex(); first <= last { // else it has been cut away meanwhile
				t.Error(err)
			}
		}
	}
	all.Wait()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// To remove files takes long. A cut at the beginning of the log holds up neither writes nor reads.
func TestWritesDoNotWaitForACut(t *testing.T) {
	log, err := openLog(disk.OS{}, t.TempDir(), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	log.segment = 1 << 10
	store := func(index uint64) {
		if err := log.StoreLog(&raft.Log{Index: index, Data: make([]byte, 50)}); err != nil {
			t.Error(err)
		}
	}
	for i := range uint64(100) {
		store(i + 1)
	}
	next := uint64(101)
	removed := 0
	log.fs = syncedDirs{disk.OS{}, func() error {
		removed++
		if !log.writing.TryLock() || !log.mu.TryLock() {
			return errors.New("a write would wait until the log is cut")
		}
		log.mu.Unlock()
		log.writing.Unlock()
		store(next)
		if err := log.GetLog(next, &raft.Log{}); err != nil {
			t.Error(err)
		}
		next++
		return nil
	}}
	if err := log.DeleteRange(1, 90); err != nil || removed < 4 {
		t.Errorf("%d steps, error %v", removed, err)
	}
	if first, _ := log.FirstIndex(); first != 91 {
		t.Errorf("the log begins with entry %d", first)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// syncedDirs is a file system that tells when a directory is synced.
type syncedDirs struct {
	disk.FS
	synced func() error
}

func (f syncedDirs) SyncDir(string) error { return f.synced() }

// A vote is there after a restart, or the node does not start.
func TestVotes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, voteFile)
	if err := os.WriteFile(path+tmpSuffix, make([]byte, 8192), 0o600); err != nil { // an earlier start found the disk full
		t.Fatal(err)
	}
	open := func(dir string, readOnly bool) (stores, error) {
		who, err := identify(dir, "")
		if err == nil && who.fresh {
			err = createStores(dir, who)
		}
		if err != nil {
			t.Fatal(err)
		}
		return openStores(dir, who, readOnly, nil)
	}
	s, err := open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if s.votes.term() != 0 {
		t.Errorf("a new node is at term %d", s.votes.term())
	}
	if _, err := s.votes.Get([]byte("LastVoteCand")); err == nil || err.Error() != "not found" { // as Raft asks
		t.Errorf("a vote that was never given: %v", err)
	}
	for _, readOnly := range []bool{false, true} { // a fresh node is opened again
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if s, err = open(dir, readOnly); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if s, err = open(dir, false); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.votes.SetUint64([]byte(termKey), 1<<63), s.votes.Set([]byte("LastVoteCand"), []byte{0, 255}), s.log.StoreLog(&raft.Log{Index: 1}), s.close()); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		if s, err = open(dir, readOnly); err != nil {
			t.Fatal(err)
		}
		if b, err := s.votes.Get([]byte("LastVoteCand")); s.votes.term() != 1<<63 || string(b) != "\x00\xff" || err != nil {
			t.Errorf("term %d, a vote for %q, %v", s.votes.term(), b, err)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	other, err := open(fresh, false)
	if err != nil {
		t.Fatal(err)
	}
	others, err := os.ReadFile(filepath.Join(fresh, voteFile))
	if err = errors.Join(err, other.close()); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"none": nil, "its first pages": good[:len(good)/4], "zeros": make([]byte, len(good)), "that of another node": others} {
		if err := errors.Join(os.Remove(path), os.WriteFile(path, bad, 0o600)); err != nil {
			t.Fatal(err)
		}
		if bad == nil {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		for _, readOnly := range []bool{false, true} {
			if _, err := open(dir, readOnly); !errors.Is(err, errFiles) {
				t.Errorf("%s, read only %v: %v", name, readOnly, err)
			}
		}
		if bad == nil {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := open(dir, false); errors.Is(err, errFiles) || !errors.Is(err, syscall.EISDIR) {
		t.Errorf("what is no fault of the file: %v", err)
	}
}

// What a machine has lost of a segment that was not synced is read from the redo log, and done again when the log is opened, with a redo log or without.
func TestLogFromItsRedoLog(t *testing.T) {
	for _, again := range []bool{true, false} {
		raftDir := t.TempDir()
		dir, beside := filepath.Join(raftDir, "1", logDir), filepath.Join(raftDir, redo.Dir)
		if err := os.Mkdir(filepath.Dir(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := redo.Open(disk.OS{}, beside, redo.FileBytes)
		if err != nil {
			t.Fatal(err)
		}
		log, err := openLog(disk.OS{}, dir, false, l)
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(5) {
			if err := log.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: []byte("entry")}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := redo.Open(disk.OS{}, beside, redo.FileBytes); !errors.Is(err, disk.ErrLocked) {
			t.Errorf("opened twice: %v", err)
		}
		if err := redo.Repair(disk.OS{}, beside); !errors.Is(err, disk.ErrLocked) {
			t.Errorf("repaired while it is open: %v", err)
		}
		file, err := filepath.Glob(filepath.Join(beside, "*"))
		if err != nil || len(file) != 1 {
			t.Fatal(file, err)
		}
		kept, err := os.ReadFile(file[0])
		if err == nil {
			err = errors.Join(log.Close(), l.Close())
		}
		segments, _ := filepath.Glob(filepath.Join(dir, "*"))
		if err == nil {
			err = errors.Join(os.WriteFile(file[0], kept, 0o600), os.Truncate(segments[0], segmentHead)) // as a machine may leave them
		}
		if err != nil {
			t.Fatal(err)
		}
		reads := func(readOnly bool, l *redo.Log) {
			t.Helper()
			log, err := openLog(disk.OS{}, dir, readOnly, l)
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint64(5) {
				var e raft.Log
				if err := log.GetLog(i+1, &e); err != nil || string(e.Data) != "entry" {
					t.Errorf("read only: %v: entry %d: %+v, %v", readOnly, i+1, e, err)
				}
			}
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		}
		reads(true, nil)
		if b, _ := os.ReadFile(segments[0]); len(b) != segmentHead {
			t.Error("a reader has changed the log")
		}
		if again {
			if l, err = redo.Open(disk.OS{}, beside, redo.FileBytes); err != nil {
				t.Fatal(err)
			}
			reads(false, l)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		} else {
			reads(false, nil)
		}
		reads(true, nil)
		if left, _ := os.ReadDir(beside); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}
