package persistence

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
	"limitdb/internal/journal"
)

var update = flag.Bool("update", false, "write the golden files of the format anew")

// newerFormat returns a file's bytes with an unknown format version and a valid header.
func newerFormat(b []byte) []byte {
	b = slices.Clone(b)
	if bytes.HasPrefix(b, []byte(disk.RecordMagic)) {
		binary.LittleEndian.PutUint32(b[4:], 2)
		binary.LittleEndian.PutUint32(b[16:], disk.Sum(0, b[:16], b[20:]))
		return b
	}
	binary.LittleEndian.PutUint32(b[8:], formatVersion+1)
	binary.LittleEndian.PutUint32(b[60:], disk.Sum(0, b[:60]))
	return b
}

// counting is a source of entropy that is the same each time.
type counting struct{ n byte }

func (c *counting) Read(b []byte) (int, error) {
	for i := range b {
		c.n += 37
		b[i] = c.n
	}
	return len(b), nil
}

// goldenDir makes a directory that was closed, with a base, two logs, all kinds of records, and zeros after
// them (fewer than usual).
func goldenDir(t *testing.T, dir string) *table {
	t.Helper()
	tab := newTable(2)
	now := startAt
	s, err := Open(Options{
		Dir: dir, FS: disk.OS{}, Parts: []Part{tab.part()}, Policy: Always, Entropy: &counting{},
		Now:  func() int64 { return now }, // how often it is read is not part of the format
		Boot: func() (uint64, int64) { return 0x1122334455667788, now - startAt },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.zeros = make([]byte, 500)
	if _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		tab.set(byte(1+i%3), keyOf(i), stateAt(startAt+hour*int64(i+1), byte(i)))
	}
	s.commit()
	now += 1e9
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	now += 1e9
	tab.flush(func() {})
	s.commit()
	s.cur.split = 200 // a group of batches
	for i := range 5 {
		tab.set(byte(1+i%3), keyOf(10+i), stateAt(startAt+hour*int64(i+1), bytes.Repeat([]byte{byte(i)}, 100*i)...))
	}
	tab.delete(keyOf(12))
	s.commit()
	if _, err := s.rotate(); err != nil {
		t.Fatal(err)
	}
	tab.set(1, keyOf(10), stateAt(startAt+hour*9))
	s.commit()
	s.markEnd()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return tab
}

// goldenCopy copies a golden directory, since loading changes it.
func goldenCopy(t *testing.T, golden string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(golden)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// This version still writes the same bytes.
func TestGoldenFormat(t *testing.T) {
	golden := filepath.Join("testdata", "format1")
	if *update {
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(golden, 0o755); err != nil {
			t.Fatal(err)
		}
		goldenDir(t, golden)
	}
	dir := t.TempDir()
	goldenDir(t, dir)
	names, err := disk.OS{}.List(golden)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 5 {
		t.Fatalf("the golden directory has %v", names)
	}
	for _, name := range names {
		old, err := os.ReadFile(filepath.Join(golden, name))
		if err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(old, written) {
			t.Errorf("%s is written in another way than it was", name)
		}
	}
}

// The golden directory is read as it was written, and the store continues from it.
func TestGoldenFormatIsRead(t *testing.T) {
	want := goldenDir(t, t.TempDir())
	dir := goldenCopy(t, filepath.Join("testdata", "format1"))
	for range 2 {
		tab := newTable(3)
		s, loaded := openLoaded(t, Options{Dir: dir, Parts: []Part{tab.part()}, Now: func() int64 { return startAt }})
		if !loaded.Clean || loaded.Fresh {
			t.Errorf("%+v", loaded)
		}
		if tab.len() != want.len() {
			t.Errorf("%d keys, want %d", tab.len(), want.len())
		}
		for i := range 30 {
			if got := tab.get(keyOf(i)); !bytes.Equal(got, want.get(keyOf(i))) {
				t.Errorf("%s is %x, want %x", keyOf(i), got, want.get(keyOf(i)))
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		rep, err := Check(CheckOptions{Dir: dir})
		if err != nil || len(rep.Problems) > 0 || rep.Torn != nil || !rep.Clean {
			t.Errorf("%+v, %v", rep, err)
		}
	}
}

// goldenFiles adds the golden files as seeds for a fuzz target.
func goldenFiles(f *testing.F, pattern string) {
	names, err := filepath.Glob(filepath.Join("testdata", "format1", pattern))
	if err != nil || len(names) == 0 {
		f.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
		f.Add(b[:headerSize])
	}
}

// FuzzManifest reads hostile bytes as a MANIFEST whose checksum is right.
func FuzzManifest(f *testing.F) {
	good, err := os.ReadFile(filepath.Join("testdata", "format1", manifestName))
	if err != nil {
		f.Fatal(err)
	}
	const head = 20 // of a record
	f.Add(good[head:])
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := disk.Seal(manifestKind, json.RawMessage(text))
		if err != nil {
			return
		}
		m, err := parseManifest(b)
		if err != nil {
			return
		}
		again, err := m.seal()
		if err != nil {
			t.Fatal(err)
		}
		if same, err := parseManifest(again); err != nil || !reflect.DeepEqual(m, same) {
			t.Fatalf("%s was read as %+v, and that as %+v, %v", text, m, same, err)
		}
	})
}

// FuzzLog reads hostile bytes as a log. It corrects some checksums so that the code behind them is reached.
func FuzzLog(f *testing.F) {
	names, err := filepath.Glob("testdata/format1/log-*")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(0), false)
		f.Add(b, uint16(headerSize), true)
		f.Add(b[:len(b)-30], uint16(headerSize), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, at uint16, mend bool) {
		if mend {
			mendHeader(b, int(at))
		}
		m := disktest.New(dataDir)
		m.Dir(dataDir)["log"] = disktest.File(b)
		file, err := m.Open(filepath.Join(dataDir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := newReader(file, "log", kindLog)
		if err != nil {
			return
		}
		var c chunk
		end := r.off
		for {
			if err := r.read(&c); err != nil {
				break
			}
			for _, p := range c.pieces {
				if p.off != end {
					t.Fatalf("a batch at %d, the one before ended at %d", p.off, end)
				}
				end += batchHeaderSize + int64(len(p.payload))
				for rest := p.payload; len(rest) > 0; {
					if _, rest, err = journal.Parse(rest); err != nil {
						break
					}
				}
			}
			if cap(c.buf) > len(b) {
				t.Fatalf("%d bytes were allocated for a file of %d", cap(c.buf), len(b))
			}
		}
		if end > int64(len(b)) {
			t.Fatalf("the batches end at %d of %d", end, len(b))
		}
		if _, err := r.behind(end, end); err != nil {
			t.Fatal(err)
		}
	})
}

// mendHeader corrects the header of the file, and that of the batch at an offset.
func mendHeader(b []byte, at int) {
	if len(b) < headerSize {
		return
	}
	copy(b, magic+"L")
	binary.LittleEndian.PutUint32(b[8:], formatVersion)
	binary.LittleEndian.PutUint32(b[60:], disk.Sum(0, b[:60]))
	if at < headerSize || len(b)-at < batchHeaderSize {
		return
	}
	seed := seedOf(binary.LittleEndian.Uint64(b[32:]))
	h := b[at:]
	binary.LittleEndian.PutUint32(h, batchMagic)
	if n := int(binary.LittleEndian.Uint32(h[4:])); n <= len(h)-batchHeaderSize {
		binary.LittleEndian.PutUint32(h[56:], disk.Sum(seed, h[batchHeaderSize:batchHeaderSize+n]))
	}
	binary.LittleEndian.PutUint32(h[60:], disk.Sum(seed, h[:60]))
}

// A record that changes a part of a state that is not there is damage, and is reported, unless the log began while
// the server ran.
func TestChangeWithoutItsState(t *testing.T) {
	for _, based := range []bool{true, false} {
		tab := newTable(2)
		o := Options{Dir: t.TempDir(), Parts: []Part{tab.part()}, Policy: Always, Now: func() int64 { return startAt }}
		o.Parts[0].Missed = func() (string, bool) { return tab.missed(startAt) }
		s, _ := openLoaded(t, o)
		for range 2 { // the log after the second follows a base
			if !based {
				break
			}
			tab.set(1, keyOf(2), stateAt(startAt+hour))
			s.commit()
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		tab.shard([]byte(keyOf(1))).states[keyOf(1)] = value{inParts(keyOf(1)), stateAt(startAt+hour, make([]byte, 300)...)} // without a record
		tab.change(keyOf(1), startAt+hour, 5, 0, []byte("new"))
		s.commit()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		*tab = *newTable(3)
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Load()
		var corrupt *CorruptError
		if errors.As(err, &corrupt) != based || (err == nil) == based {
			t.Errorf("with a base %v: %v", based, err)
		}
	}
}

// A log with Changes is still read, byte by byte as it was written once.
func TestGoldenChanges(t *testing.T) {
	golden := filepath.Join("testdata", "changes")
	write := func(dir string) *table {
		tab := newTable(1)
		s, _ := openLoaded(t, Options{
			Dir: dir, FS: disk.OS{}, Parts: []Part{tab.part()}, Policy: EverySec, Entropy: &counting{},
			Now: func() int64 { return startAt }, Boot: func() (uint64, int64) { return 0x1122334455667788, 0 },
		})
		tab.set(inParts(keyOf(1)), keyOf(1), stateAt(startAt+hour, bytes.Repeat([]byte{0, 1, 2, 3}, 80)...))
		tab.change(keyOf(1), startAt+2*hour, 4, 0, []byte("inserted"))
		s.commit()
		tab.change(keyOf(1), startAt+3*hour, 300, 10, nil)
		tab.change(keyOf(1), startAt+3*hour, 0, 4, []byte{9, 9, 9, 9})
		s.commit()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return tab
	}
	if *update {
		if err := errors.Join(os.RemoveAll(golden), os.MkdirAll(golden, 0o755)); err != nil {
			t.Fatal(err)
		}
		write(golden)
	}
	dir := t.TempDir()
	want := write(dir)
	const log = "log-00000001"
	old, err := os.ReadFile(filepath.Join(golden, log))
	if err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(filepath.Join(dir, log)); err != nil || !bytes.Equal(old, written) {
		t.Errorf("%s is written in another way than it was, %v", log, err)
	}
	tab := newTable(2)
	s, err := Open(Options{Dir: goldenCopy(t, golden), Parts: []Part{tab.part()}, Now: func() int64 { return startAt }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Load(); err != nil || !bytes.Equal(tab.get(keyOf(1)), want.get(keyOf(1))) {
		t.Errorf("%v: %x, want %x", err, tab.get(keyOf(1)), want.get(keyOf(1)))
	}
}
