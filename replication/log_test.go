package replication

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"limitdb/internal/disk"
)

// diskModel is a log on the disk, beside a plain list of what it must have.
type diskModel struct {
	dir    string
	log    *diskLog
	first  uint64 // of entries
	synced map[string]string
	fail   bool // the next sync
	// entries are those that are durable; torn are those of a write that failed.
	entries, torn []string
}

var errNoPower = errors.New("the power is off")

func (m *diskModel) open(t *rapid.T) {
	log := &diskLog{dir: m.dir, segment: 1 << 10, syncDir: disk.SyncDir, sync: func(*os.File) error {
		if m.fail {
			return errNoPower
		}
		m.synced = files(m.dir)
		return nil
	}}
	if err := log.open(false); err != nil {
		t.Fatal(err)
	}
	m.log = log
	if len(m.torn) > 0 { // the log may have some of these, from the first on
		if last, _ := log.LastIndex(); last >= m.first+uint64(len(m.entries)) {
			m.entries = append(m.entries, m.torn[:min(int(last-m.first)+1-len(m.entries), len(m.torn))]...)
		}
		m.torn = nil
	}
}

// volatileDir returns a directory in memory, if the system has one. The power cuts of the model are its own, so it need not wait for a disk.
func volatileDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "limitdb")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// files returns the contents of all files in a directory.
func files(dir string) map[string]string {
	all := map[string]string{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		b, _ := os.ReadFile(path)
		all[path] = string(b)
	}
	return all
}

func (m *diskModel) store(t *rapid.T) {
	index := m.first + uint64(len(m.entries))
	if len(m.entries) == 0 {
		index += rapid.Uint64Range(0, 3).Draw(t, "gap")
		m.first = index
	}
	var logs []*raft.Log
	var data []string
	for i := range rapid.IntRange(1, 3).Draw(t, "entries") {
		b := bytes.Repeat([]byte{byte(index)}, rapid.SampledFrom([]int{0, 1, 100, 700, aheadBelow}).Draw(t, "size"))
		logs = append(logs, &raft.Log{Index: index + uint64(i), Term: index, Type: raft.LogCommand, Data: b})
		data = append(data, string(b))
	}
	m.fail = rapid.IntRange(0, 5).Draw(t, "power") == 0
	err := m.log.StoreLogs(logs)
	if !m.fail {
		if err != nil {
			t.Fatal(err)
		}
		m.entries = append(m.entries, data...)
		return
	}
	if !errors.Is(err, errNoPower) {
		t.Fatalf("a sync that fails: %v", err)
	}
	m.torn, m.fail = data, false
	if rapid.Bool().Draw(t, "killed") { // and the machine goes on
		if err := m.log.Close(); err != nil {
			t.Fatal(err)
		}
		m.open(t)
		return
	}
	m.crash(t)
}

// crash cuts the power: any sectors that were written since the last sync of a file are lost.
func (m *diskModel) crash(t *rapid.T) {
	if err := m.log.Close(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for path, now := range files(m.dir) {
		was, ok := m.synced[path]
		if !ok {
			was = now[:segmentHead] // createSegment has synced that
		}
		if now == was {
			continue
		}
		b := []byte(now)[:len(was)+random.IntN(len(now)-len(was)+1)]
		for at := 0; at < len(b); at += 512 {
			if sector := b[at:min(at+512, len(b))]; random.IntN(2) == 0 {
				clear(sector)
				copy(sector, was[min(at, len(was)):])
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.open(t)
}

func (m *diskModel) cut(t *rapid.T) {
	if len(m.entries) == 0 {
		return
	}
	at := rapid.IntRange(0, len(m.entries)).Draw(t, "at")
	first, last := m.first, m.first+uint64(len(m.entries))-1
	var err error
	if rapid.Bool().Draw(t, "from the end") {
		err = m.log.DeleteRange(first+uint64(at), last)
		m.entries = m.entries[:at]
	} else if at > 0 {
		err = m.log.DeleteRange(first, first+uint64(at)-1)
		m.entries, m.first = m.entries[at:], first+uint64(at)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.synced = files(m.dir)
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

// The log has every entry that was stored and not cut, whatever a power cut leaves of the last write.
func TestDiskLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &diskModel{dir: volatileDir(t), first: 1}
		m.open(rt)
		defer func() { _ = m.log.Close() }()
		rt.Repeat(map[string]func(*rapid.T){"": m.check, "store": m.store, "store more": m.store, "cut": m.cut, "crash": m.crash})
	})
}

// logWithWrites makes a log of ten writes, and returns the path of its only file.
func logWithWrites(t *testing.T) (path string) {
	dir := t.TempDir()
	log, err := openLog(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		if err := log.StoreLog(&raft.Log{Index: i + 5, Term: 3, Data: []byte("some entry")}); err != nil {
			t.Fatal(err)
		}
	}
	path = log.segments[0].f.Name()
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
		log, err := openLog(filepath.Dir(path), true)
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
	log, err := openLog(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(dir, false); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if _, err := openLog(dir, true); !errors.Is(err, disk.ErrLocked) {
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
		if _, err := openLog(filepath.Dir(other), true); !errors.Is(err, errLog) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Raft reads the log, and cuts its beginning, while entries are stored.
func TestLogIsReadWhileItChanges(t *testing.T) {
	log, err := openLog(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	log.segment, log.sync = 1<<10, func(*os.File) error { return nil }
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
			t.Error(err)
		}
	}
	all.Wait()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// To remove files takes long. A cut at the beginning of the log holds up neither writes nor reads.
func TestWritesDoNotWaitForACut(t *testing.T) {
	log, err := openLog(t.TempDir(), false)
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
	log.syncDir = func(string) error {
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
	}
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
		return openStores(dir, who, readOnly)
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
