package persistence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
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
