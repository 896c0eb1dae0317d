package replication

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
	"limitdb/internal/journal"
)

func encodedSnapshot(t testing.TB, f *fence, states map[string]string) []byte {
	from := &list{states: states}
	var b bytes.Buffer
	if err := writeSnapshot(&b, f.inForce(), f.appendTo(nil), func(cursor uint64, dst *journal.Buffer) uint64 { return from.Copy(0, cursor, dst) }, func() (uint64, error) { return 7, nil }); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSnapshotsRoundTrip(t *testing.T) {
	for name, states := range map[string]map[string]string{
		"empty": {},
		"small": {"a": "1", "b": "2"},
		"large": {"a": string(make([]byte, 3*blockBytes)), "b": string(make([]byte, 3<<20)), "c": ""},
	} {
		f := fence{epoch: id{1, 2}, term: 3, sequence: 4, clock: 5, address: "a:1", format: Format}
		b := encodedSnapshot(t, &f, states)
		to := &list{states: map[string]string{}}
		got, fuzzy, err := readSnapshot(bytes.NewReader(b), to)
		if err != nil || fuzzy != 7 || got.epoch != f.epoch || got.clock != f.clock || got.address != f.address || !maps.Equal(states, to.states) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if len(b) > 1000 {
			continue
		}
		for at := range len(b) {
			if _, _, err := readSnapshot(bytes.NewReader(b[:at]), &list{states: map[string]string{}}); err == nil {
				t.Errorf("%s: read from its first %d bytes", name, at)
			}
			bad := bytes.Clone(b)
			bad[at] ^= 1
			if _, _, err := readSnapshot(bytes.NewReader(bad), &list{states: map[string]string{}}); err == nil {
				t.Errorf("%s: read with byte %d damaged", name, at)
			}
		}
		if _, _, err := readSnapshot(bytes.NewReader(append(b, 0)), &list{states: map[string]string{}}); err == nil {
			t.Errorf("%s: read with something behind", name)
		}
	}
}

// publish publishes a snapshot with a last entry, as one that a leader sends.
func publish(s *snapshotStore, index, term uint64, b []byte) error {
	sink, err := s.Create(raft.SnapshotVersionMax, index, term, raft.Configuration{}, 1, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(sink, bytes.NewReader(b)); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// A snapshot that a start has seen is there after a loss of power, also if the process before was killed at any moment of publishing it.
func TestSnapshotIsDurableOnceSeen(t *testing.T) {
	state := encodedSnapshot(t, &fence{epoch: id{1, 2}, format: Format}, nil)
	for left, killed, seen := 0, true, 0; killed; left++ {
		fsys := disktest.New("/snapshots")
		s, err := openSnapshots(fsys, "/snapshots")
		if err != nil {
			t.Fatal(err)
		}
		fsys.Left = left
		err = publish(s, 1, 1, state)
		if killed = errors.Is(err, disktest.ErrCrashed); err != nil && !killed {
			t.Fatal(err)
		}
		fsys.Crashed, fsys.Left = false, -1
		list := func(fsys disk.FS) int {
			s, err := openSnapshots(fsys, "/snapshots")
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.List()
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		there := list(fsys)
		if seen += there; !killed && seen < 2 {
			t.Errorf("no process was killed between the naming of the snapshot and its end")
		}
		for seed := range uint64(20) {
			if n := list(fsys.Crash(rand.New(rand.NewPCG(seed, 0)))); n != there {
				t.Fatalf("killed at operation %d, %d snapshots were seen; %d are there after a loss of power", left, there, n)
			}
		}
	}
}

// A snapshot that is damaged is never published, in whatever pieces it arrives, and never read to its end to be sent.
func TestDamagedSnapshotsAreRefused(t *testing.T) {
	s, err := openSnapshots(disktest.New("/snapshots"), "/snapshots")
	if err != nil {
		t.Fatal(err)
	}
	f := fence{epoch: id{1, 2}, term: 3, sequence: 4, clock: 5, address: "a:1", format: Format}
	whole := encodedSnapshot(t, &f, map[string]string{"a": "1", "b": "2"})
	damaged := map[string][]byte{
		"empty": {}, "with a byte behind": append(bytes.Clone(whole), 0), "twice": append(bytes.Clone(whole), whole...),
		"without its fence": whole[blockHead+len(f.appendTo(nil)):],
		"of a newer format": encodedSnapshot(t, &fence{format: Format + 1}, nil),
	}
	for at := range whole {
		damaged[fmt.Sprintf("of %d bytes", at)] = whole[:at]
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		damaged[fmt.Sprintf("with byte %d damaged", at)] = b
	}
	for name, b := range damaged {
		if err := publish(s, 1, 1, b); !errors.Is(err, errSnapshot) && !errors.Is(err, ErrNewer) {
			t.Errorf("one %s: %v", name, err)
		}
		for _, pieces := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			var found error
			r := &checkedReader{from: pieces(bytes.NewReader(b)), left: int64(len(whole)), damaged: func(err error) { found = err }}
			sent, err := io.ReadAll(r)
			if err == nil || found == nil || len(b) == len(whole) && len(sent) == len(whole) {
				t.Errorf("one %s: %d bytes are sent, %v, %v", name, len(sent), err, found)
			}
		}
	}
	if names, err := s.fs.Dirs(s.dir); err != nil || len(names) > 0 {
		t.Errorf("there are %q, %v", names, err)
	}
	r := &checkedReader{from: iotest.OneByteReader(bytes.NewReader(whole)), left: int64(len(whole)), damaged: func(err error) { t.Error(err) }}
	if b, err := io.ReadAll(r); !bytes.Equal(b, whole) || err != nil {
		t.Errorf("the whole one: %d bytes, %v", len(b), err)
	}
	if err := publish(s, 1, 1, whole); err != nil {
		t.Error(err)
	}
}

// A leader whose snapshot is damaged on its disk says so, makes a new one, and sends that.
func TestLeaderWithADamagedSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addresses := [2]string{freeAddress(t), freeAddress(t)}
	tables := [2]*list{{states: map[string]string{}}, {states: map[string]string{}}}
	var logged bytes.Buffer
	o := realOptions(t, "a", tables[0])
	o.TrailingBytes, o.Log = 1, slog.New(slog.NewTextHandler(&logged, nil))
	a, err := openAt(o, Disk{Dir: filepath.Join(dir, "a"), Bootstrap: true}, addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	until(t, "a leader", func() bool { return a.Turn() != 0 })
	for i := range trailingLeast + 10 {
		if !tables[0].decide(fmt.Sprint(i), "k") {
			t.Fatal("it does not decide")
		}
		done := make(chan error, 1)
		a.Wait(a.Turn(), func(err error) { done <- err })
		a.Kick()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Snapshot(); err != nil {
		t.Fatal(err)
	}
	newest, err := a.parts.snapshots.newest()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a", snapshotsDir, newest.ID, stateFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := openAt(realOptions(t, "b", tables[1]), Disk{Dir: filepath.Join(dir, "b")}, addresses[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	add(t, a, "b", addresses[1])
	until(t, "both have one state", func() bool { return maps.Equal(tables[0].snapshot(), tables[1].snapshot()) })
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if got := logged.String(); !strings.Contains(got, "a snapshot on the disk is damaged") {
		t.Errorf("the leader says %s", got)
	}
}

func FuzzSnapshot(f *testing.F) {
	whole := fence{epoch: id{1, 2}, address: "a:1"}
	f.Add(encodedSnapshot(f, &whole, map[string]string{"a": "1"}))
	f.Add([]byte("LDBR"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = readSnapshot(bytes.NewReader(b), &list{states: map[string]string{}})
	})
}

func TestSnapshotStore(t *testing.T) {
	dir := t.TempDir()
	s, err := openSnapshots(disk.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	whole := encodedSnapshot(t, &fence{}, map[string]string{"a": "1"})
	write := func(index, term uint64, b []byte) raft.SnapshotSink {
		k, err := s.Create(1, index, term, raft.Configuration{}, index, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Write(b); err != nil {
			t.Fatal(err)
		}
		return k
	}
	list := func() (ids []uint64) {
		all, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			ids = append(ids, m.Index)
		}
		return ids
	}
	unfinished := write(9, 1, whole)
	if got := list(); len(got) != 0 {
		t.Errorf("an unfinished snapshot is listed: %v", got)
	}
	for i := range uint64(3) {
		if err := write(7+i, 1, whole).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(); len(got) != 2 || got[0] != 9 || got[1] != 8 {
		t.Errorf("there are %v", got)
	}
	all, _ := s.List()
	m, r, err := s.Open(all[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if b, err := io.ReadAll(r); !bytes.Equal(b, whole) || err != nil || m.Size != int64(len(whole)) {
		t.Errorf("%q, %v, %+v", b, err, m)
	}
	if err := unfinished.Cancel(); err != nil {
		t.Error(err)
	}
	_ = write(10, 1, whole[:20]) // left behind by a crash
	if s, err = openSnapshots(disk.OS{}, dir); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%d directories are left", len(entries))
	}
	meta := filepath.Join(dir, all[0].ID, metaFile)
	b, _ := os.ReadFile(meta)
	if err := os.WriteFile(meta, bytes.Replace(b, []byte(`"Index":9`), []byte(`"Index":8`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(); !errors.Is(err, errSnapshot) {
		t.Errorf("a damaged meta: %v", err)
	}
	// The log may continue from that one, so the node would not start. But it makes another one, which replaces it.
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	if err := write(10, 1, whole).Close(); err != nil {
		t.Fatal(err)
	}
	if got := list(); !slices.Equal(got, []uint64{10, 8}) {
		t.Errorf("behind a damaged meta there are %v", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 || !strings.Contains(log.String(), all[0].ID) {
		t.Errorf("%d directories are left; the log has %q", len(entries), log.String())
	}
}

// A snapshot whose meta file is damaged or missing says by its name whether there is a newer one. If there is, it is removed.
func TestNamesOfDamagedSnapshots(t *testing.T) {
	for _, c := range []struct {
		names   []string
		damaged int
		lists   int // -1: an error
	}{
		{[]string{"1-1-1"}, 0, -1},
		{[]string{"1-1-1", "2-1-2"}, 0, 1},
		{[]string{"1-1-1", "2-1-2"}, 1, -1},
		{[]string{"2-1-9", "2-2-1"}, 0, 1},
		{[]string{"2-1-9", "2-2-1"}, 1, -1},
		{[]string{"2-2-9", "2-2-10"}, 0, 1},
		{[]string{"2-2-9", "2-2-10"}, 1, -1},
	} {
		for _, missing := range []bool{false, true} {
			dir := t.TempDir()
			s, err := openSnapshots(disk.OS{}, dir)
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range c.names {
				var index, term uint64
				if _, err := fmt.Sscanf(name, "%d-%d-", &index, &term); err != nil {
					t.Fatal(err)
				}
				name = fmt.Sprintf("%016x-%016x-%s", index, term, name[4:])
				path := filepath.Join(dir, name, metaFile)
				if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				switch {
				case i != c.damaged:
					err = disk.WriteRecord(disk.OS{}, path, metaKind, raft.SnapshotMeta{ID: name, Index: index, Term: term})
				case !missing:
					err = os.WriteFile(path, []byte("damaged"), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			all, err := s.List()
			if err == nil != (c.lists >= 0) || err == nil && len(all) != c.lists || err != nil && !errors.Is(err, errSnapshot) {
				t.Errorf("%v, of which %d is damaged, or missing %v: %d, %v", c.names, c.damaged, missing, len(all), err)
			}
			reaped := s.reap()
			if names, err := s.fs.Dirs(dir); err != nil || c.lists >= 0 && (reaped != nil || len(names) != c.lists) || c.lists < 0 && len(names) != len(c.names) {
				t.Errorf("%v, of which %d is damaged, or missing %v: %q are left, %v, %v", c.names, c.damaged, missing, names, reaped, err)
			}
		}
	}
}

func TestBatchesEndAtRecords(t *testing.T) {
	var buf journal.Buffer
	sizes := []int{100_000, 100_000, 100_000, 600_000, 1}
	ends := []int{0}
	for _, n := range sizes {
		buf.Set(1, 201, []byte("k"), make([]byte, n))
		ends = append(ends, len(buf.Bytes))
	}
	var got []int
	for rest := buf.Bytes; len(rest) > 0; {
		_, rest = nextBatch(rest)
		got = append(got, len(buf.Bytes)-len(rest))
	}
	want := []int{ends[2], ends[3], ends[4], ends[5]}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
		t.Errorf("batches end at %v, want %v", got, want)
	}
	if batch, rest := nextBatch(nil); len(batch)+len(rest) != 0 {
		t.Error(batch, rest)
	}
}
