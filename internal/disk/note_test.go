package disk_test

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
)

func later(a, b *sample) bool { return a.Count > b.Count }

// A process that is killed in a write, wherever it is, and a disk without room leave the value from before or the new one. The next write
// goes on from there, also without the file.
func TestNotesOutliveKills(t *testing.T) {
	const path = "/dir/file"
	for _, short := range []bool{false, true} {
		for fails := 1; ; fails++ {
			m := &disktest.Faulty{Mem: disktest.New("/dir"), N: fails, Err: syscall.ENOSPC, Short: short}
			n := disk.NewNote(m, path, "some")
			var last uint64 // what the file has
			for i := uint64(1); i <= 9; i++ {
				if i == 6 {
					if err := m.Mem.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
					last = 0
				}
				hit := m.Hit
				err := n.Write(sample{strings.Repeat("a", int(30-3*i)), i}) // each is shorter than the one before
				if failed := hit == "" && m.Hit != ""; failed != errors.Is(err, syscall.ENOSPC) || !failed && err != nil {
					t.Fatalf("operation %d, short: %v: write %d: %v", fails, short, i, err)
				}
				got, rerr := disk.ReadNote(m.Mem, path, "some", later)
				switch {
				case errors.Is(rerr, fs.ErrNotExist):
					got = &sample{}
				case rerr != nil:
					t.Fatalf("operation %d, short: %v: after write %d: %v", fails, short, i, rerr)
				}
				if got.Count != i && (err == nil || got.Count != last) {
					t.Errorf("operation %d, short: %v: write %d ends with %v, and the file has %d", fails, short, i, err, got.Count)
				}
				last = got.Count
			}
			if m.Hit == "" {
				if fails < 12 {
					t.Errorf("only %d operations", fails-1)
				}
				break
			}
		}
	}
}

// One damaged record leaves the other, and two leave nothing. A file with one record, as after a start, is read. A record of a
// newer version is refused.
func TestNotesThatAreDamaged(t *testing.T) {
	const path, place = "/dir/file", 256
	at := func(records ...string) []byte {
		b := make([]byte, 0, 2*place)
		for i, r := range records {
			b = append(b[:i*place], r...)
			if i+1 < len(records) {
				b = b[:(i+1)*place]
			}
		}
		return b
	}
	sealed := func(count uint64) string {
		b, err := disk.Seal("some", sample{"a name", count})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	flipped := func(s string) string { return s[:10] + string(s[10]^1) + s[11:] }
	newer := strings.Replace(sealed(1), "\x01\x00\x00\x00", "\x02\x00\x00\x00", 1)
	for _, c := range []struct {
		name string
		file []byte
		want uint64
		err  error
	}{
		{"one", at(sealed(1)), 1, nil},
		{"two", at(sealed(1), sealed(2)), 2, nil},
		{"the first is the newer", at(sealed(3), sealed(2)), 3, nil},
		{"remains of a longer record", at(sealed(1)+"}}", sealed(2)+"more"), 2, nil},
		{"the newer is damaged", at(sealed(1), flipped(sealed(2))), 1, nil},
		{"the newer is cut", at(sealed(1), sealed(2)[:30]), 1, nil},
		{"the older is damaged", at(flipped(sealed(1)), sealed(2)), 2, nil},
		{"the first was never written", at("", sealed(2)), 2, nil},
		{"both are damaged", at(flipped(sealed(1)), flipped(sealed(2))), 0, disk.ErrDamaged},
		{"one is damaged", at(flipped(sealed(1))), 0, disk.ErrDamaged},
		{"nothing", nil, 0, disk.ErrDamaged},
		{"of another version", at(resealed(newer)), 0, disk.ErrNewer},
		{"the second is of another version", at(sealed(1), resealed(newer)), 0, disk.ErrNewer},
	} {
		m := disktest.New("/dir")
		if err := disk.Write(m, path, c.file, false); err != nil {
			t.Fatal(err)
		}
		got, err := disk.ReadNote(m, path, "some", later)
		if !errors.Is(err, c.err) || c.err == nil && (err != nil || got.Count != c.want) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error does not name the file: %v", c.name, err)
		}
	}
	if err := disk.NewNote(disktest.New("/dir"), path, "some").Write(sample{Name: strings.Repeat("a", place)}); err == nil {
		t.Error("a value that has no room is written")
	}
}

// resealed gives a record the checksum of what it has.
func resealed(record string) string {
	sum := disk.Sum(0, []byte(record[:16]), []byte(record[20:]))
	return record[:16] + string([]byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)}) + record[20:]
}
