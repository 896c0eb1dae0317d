package persistence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"limitdb/internal/disk/disktest"
)

// sound checks a directory after a crash or an end: a server can start from it, Check finds no problem, and
// each key's versions rise.
func sound(w *world) error {
	var dump bytes.Buffer
	rep, err := Check(CheckOptions{Dir: dataDir, FS: w.fs, Dump: &dump})
	if err != nil {
		return err
	}
	if len(rep.Problems) > 0 {
		return fmt.Errorf("%v", rep.Problems)
	}
	last := map[string]uint64{}
	for dec := json.NewDecoder(&dump); dec.More(); {
		var line dumped
		if err := dec.Decode(&line); err != nil {
			return err
		}
		if line.File[:3] != "log" || line.Op == "flush" {
			continue
		}
		if line.Version <= last[line.Key] {
			return fmt.Errorf("%+v comes after version %d", line, last[line.Key])
		}
		last[line.Key] = line.Version
	}
	return nil
}

func TestCheckTellsWhatIsThere(t *testing.T) {
	var dump bytes.Buffer
	calls := 0
	rep, err := Check(CheckOptions{Dir: "testdata/format1", Dump: &dump, Progress: func(done, total int64) {
		calls++
		if done > total {
			t.Errorf("%d of %d", done, total)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Problems) > 0 || rep.Torn != nil || !rep.Clean || rep.Instance == "" || calls == 0 {
		t.Errorf("%+v", rep)
	}
	var sets, deletes, flushes int
	for _, f := range rep.Files {
		sets, deletes, flushes = sets+f.Sets, deletes+f.Deletes, flushes+f.Flushes
	}
	if len(rep.Files) != 3 || sets != 11 || deletes != 1 || flushes != 2 {
		t.Errorf("%d sets, %d deletes, %d flushes in %+v", sets, deletes, flushes, rep.Files)
	}
	if n := bytes.Count(dump.Bytes(), []byte("\n")); n != sets+deletes+flushes {
		t.Errorf("%d lines were dumped of %d records", n, sets+deletes+flushes)
	}
	if !bytes.Contains(dump.Bytes(), []byte(`"op":"set","version":4294967304,"kind":1,"key":"key:0010","expires":1700032400000000000`)) {
		t.Errorf("%s", dump.Bytes())
	}
}

// The repaired copy has what can be read of a damaged directory, and nothing else.
// A state that cannot be read is a problem.
func TestCheckLooksAtStates(t *testing.T) {
	looked := 0
	rep, err := Check(CheckOptions{Dir: "testdata/format1", Sound: func(byte, []byte) error {
		if looked++; looked == 3 {
			return errors.New("it is damaged")
		}
		return nil
	}})
	if err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0].Error(), "it is damaged") {
		t.Errorf("%v, %+v", err, rep)
	}
}

func TestRepairIntoACopy(t *testing.T) {
	im := makeImage(t, 16<<10, true, 1000)
	last := im.states[len(im.states)-1]
	keys := 0 // of the directory without damage
	for _, test := range []struct {
		name   string
		damage func(log []byte) []byte
		want   []byte // nil for any
		sound  bool
	}{
		{"nothing", func(b []byte) []byte { return b }, last, true},
		{"the tail is torn", func(b []byte) []byte { return b[:im.ends[len(im.ends)-2]+10] }, im.states[len(im.states)-2], true},
		{"a header in the middle", func(b []byte) []byte { b[im.ends[3]+5] ^= 1; return b }, nil, false},
		{"a payload in the middle", func(b []byte) []byte { b[im.ends[3]+70] ^= 1; return b }, nil, false},
		{"a batch is missing", func(b []byte) []byte { return slices.Delete(b, im.ends[3], im.ends[4]) }, nil, false},
		{"all but the first batch", func(b []byte) []byte { clear(b[im.ends[0]:]); return b }, im.states[1], true},
		{"the file's header", func(b []byte) []byte { b[20] ^= 1; return b }, last, false},
	} {
		w := newWorld(t, 1, Always)
		if !im.sameBoot {
			w.bootID++ // nothing has expired
		}
		for name, data := range im.files {
			data = slices.Clone(data)
			if name == im.log {
				data = test.damage(data)
			}
			w.fs.Dir(dataDir)[name] = disktest.File(data)
		}
		rep, err := Check(CheckOptions{Dir: dataDir, FS: w.fs, Repair: "/copy"})
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}

		if got := len(rep.Problems) == 0; got != test.sound {
			t.Errorf("%s: sound is %v: %v", test.name, got, rep.Problems)
		}
		w.table = newTable(2)
		o := w.options(w.fs)
		o.Dir = "/copy"
		s, err := Open(o)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if _, err := s.Load(); err != nil {
			t.Fatalf("%s: the copy cannot be started from: %v", test.name, err)
		}
		if got := w.joined(); test.want != nil && !bytes.Equal(got, test.want) {
			t.Errorf("%s: %x, want %x", test.name, got, test.want)
		}
		keys = max(keys, w.table.len())
		if test.want == nil && w.table.len() < keys-1 { // each batch changes one key
			t.Errorf("%s: only %d of %d keys were saved", test.name, w.table.len(), keys)
		}
		if rep, err := Check(CheckOptions{Dir: "/copy", FS: w.fs}); err != nil || len(rep.Problems) > 0 {
			t.Errorf("%s: the copy: %v, %v", test.name, rep, err)
		}
		if _, err := Check(CheckOptions{Dir: dataDir, FS: w.fs, Repair: "/copy"}); err == nil {
			t.Errorf("%s: a second copy took the place of the first", test.name)
		}
	}
}

// FuzzCheck reads hostile bytes as the log of a directory.
func FuzzCheck(f *testing.F) {
	goldenFiles(f, "log-*")
	f.Fuzz(func(t *testing.T, b []byte) {
		m := disktest.New(dataDir)
		m.Dir(dataDir)["log-00000001"] = disktest.File(b)
		var dump bytes.Buffer
		rep, err := Check(CheckOptions{Dir: dataDir, FS: m, Repair: "/copy", Dump: &dump, Entropy: &counting{}})
		if err != nil {
			t.Fatal(err)
		}
		if len(rep.Problems) == 0 {
			t.Fatal("a directory without a MANIFEST passes for sound")
		}
		again, err := Check(CheckOptions{Dir: "/copy", FS: m})
		if err != nil || len(again.Problems) > 0 {
			t.Fatalf("the copy: %+v, %v", again, err)
		}
		if n := rep.Files[0].Sets; rep.Files[0].Dropped == 0 && again.Files != nil && again.Files[0].Sets != n {
			t.Fatalf("%d records were read and %d copied", n, again.Files[0].Sets)
		}
	})
}

// A flipped byte anywhere in a directory is refused, healed or harmless, and never gives another state. Check tells of each that
// is refused, and of no other.
//
//test:norace
func TestFlipsOfEveryByte(t *testing.T) {
	for _, clean := range []bool{false, true} {
		im, want := smallDirectory(t, clean)
		for name, good := range im.files {
			im.log = name
			refused, torn := 0, 0
			for at := range good {
				for _, bits := range []byte{1, 0x80} {
					bad := slices.Clone(good)
					bad[at] ^= bits
					rep, err := Check(CheckOptions{Dir: dataDir, FS: im.disk(bad), Boot: func() (uint64, int64) { return 2, 0 }}) // another boot than that of the image
					if err != nil {
						t.Fatal(err)
					}
					got, _, err := im.open(t, bad)
					if (err != nil) != (len(rep.Problems) > 0) || err == nil && string(got) != string(want) {
						t.Fatalf("clean: %v, %s: byte %d with bits %x flipped: the check says %v, torn: %v, and the start %v; the state is right: %v",
							clean, name, at, bits, rep.Problems, rep.Torn, err, string(got) == string(want))
					}
					if err != nil {
						refused++
					} else if rep.Torn != nil {
						torn++
					}
				}
			}
			t.Logf("clean: %v, %s: %d bytes, %d refusals, %d torn tails", clean, name, len(good), refused, torn)
		}
	}
}

// smallDirectory returns a directory with a base, two logs, and the state of its keys. A last log that ends in a mark has no state in its
// last batch, which may be torn.
func smallDirectory(t *testing.T, clean bool) (im *image, want []byte) {
	w := newWorld(t, 3, Always)
	w.zeros = 100
	w.table = newTable(2)
	if err := w.start(w.fs); err != nil {
		t.Fatal(err)
	}
	change := func() {
		for range 4 {
			w.change()
		}
		w.commit()
	}
	change()
	if err := w.store.Snapshot(); err != nil {
		t.Fatal(err)
	}
	change()
	if _, err := w.store.rotate(); err != nil {
		t.Fatal(err)
	}
	change()
	if clean {
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		w.store.second()
	}
	im = &image{files: map[string][]byte{}}
	for name, n := range w.fs.Dir(dataDir) {
		im.files[name] = n.Durable
	}
	return im, w.joined()
}

// disk returns a disk with the image and other content of one file.
func (im *image) disk(other []byte) *disktest.Mem {
	m := disktest.New(dataDir)
	for name, data := range im.files {
		m.Dir(dataDir)[name] = disktest.File(slices.Clone(data))
	}
	m.Dir(dataDir)[im.log] = disktest.File(slices.Clone(other))
	return m
}
