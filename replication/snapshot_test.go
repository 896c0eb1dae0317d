package replication

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"limitdb/internal/disk"
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
	write := func(index, term uint64, text string) raft.SnapshotSink {
		k, err := s.Create(1, index, term, raft.Configuration{}, index, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(k, text); err != nil {
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
	unfinished := write(9, 1, "unfinished")
	if got := list(); len(got) != 0 {
		t.Errorf("an unfinished snapshot is listed: %v", got)
	}
	for i := range uint64(3) {
		if err := write(7+i, 1, "text").Close(); err != nil {
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
	if b, err := io.ReadAll(r); string(b) != "text" || err != nil || m.Size != 4 {
		t.Errorf("%q, %v, %+v", b, err, m)
	}
	if err := unfinished.Cancel(); err != nil {
		t.Error(err)
	}
	_ = write(10, 1, "left behind by a crash")
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
