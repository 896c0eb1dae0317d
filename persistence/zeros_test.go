package persistence

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"limitdb/internal/disk"
)

// If there is no room for zeros, there may still be room for the batch itself, which is appended.
func TestNoRoomForZeros(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := run(t, dir, Options{Policy: Always, Fatal: func(err error) { t.Error(err) }})
		r.fs.least.Store(disk.AheadBytes)
		for i := range 3 {
			released := false
			r.set(i)
			r.Wait(func(error) { released = true })
			r.Kick()
			synctest.Wait()
			if err := r.Failing(); err != nil || !released {
				t.Fatalf("change %d: %v, released: %v", i, err, released)
			}
		}
		image := t.TempDir() // as after a kill
		if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		r.close()
		again := run(t, image, Options{Policy: Always})
		if again.tab.len() != 3 {
			t.Errorf("%d keys of 3", again.tab.len())
		}
		again.close()
	})
}

// Under Always a log grows in steps, so that most syncs change no size. Large batches and other policies need
// no zeros.
func TestZerosAreWrittenAhead(t *testing.T) {
	tab := newTable(1)
	s, _ := openLoaded(t, Options{Dir: t.TempDir(), Parts: []Part{tab.part()}, Policy: Always, Now: func() int64 { return startAt }})
	write := func(more int) (grown int64) {
		t.Helper()
		l := s.cur
		before, end := l.Length, l.End
		tab.set(1, keyOf(1), stateAt(startAt+hour, make([]byte, more)...))
		s.commit()
		if err := s.Failing(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(l.name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != l.Length || l.End <= end || l.End > l.Length {
			t.Fatalf("the file has %d bytes, the log %d and ends at %d", info.Size(), l.Length, l.End)
		}
		return l.Length - before
	}
	if grown := write(10); grown != disk.AheadBytes {
		t.Fatalf("the first batch has the log grow by %d bytes", grown)
	}
	steps := 0
	for range 2 * disk.AheadBytes / 1000 {
		switch write(1000) {
		case 0:
		case disk.AheadBytes:
			steps++
		default:
			t.Fatalf("the log has %d bytes", s.cur.Length)
		}
	}
	if steps != 2 {
		t.Errorf("%d steps for twice as many bytes as there are zeros in one", steps)
	}
	for s.cur.End+2*disk.AheadBelow < s.cur.Length {
		if grown := write(disk.AheadBelow); grown != 0 {
			t.Fatalf("%d bytes were added where there is room", grown)
		}
	}
	for range 3 {
		write(disk.AheadBelow)
	}
	if s.cur.Length != s.cur.End {
		t.Errorf("zeros were written ahead of large batches: the log ends at %d of %d", s.cur.End, s.cur.Length)
	}
	s.SetPolicy(EverySec)
	write(10)
	if s.cur.Length != s.cur.End {
		t.Error("zeros were written ahead under everysec")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Any log may end in zeros: that is neither a torn tail nor damage. Anything but zeros is one or the other,
// as before.
func TestLogsThatEndInZeros(t *testing.T) {
	const open, sealed = 1, 0
	for _, test := range []struct {
		name  string
		clean bool
		// damage changes a log whose last batch lies from last to end, with zeros after it.
		log    int
		damage func(b []byte, last, end int64)
		want   string // "end", "torn" or "corrupt"
	}{
		{"both logs", false, open, func([]byte, int64, int64) {}, "end"},
		{"both logs, after a clean end", true, open, func([]byte, int64, int64) {}, "end"},
		{"a bit in the last log's", false, open, func(b []byte, _, _ int64) { b[len(b)-1] = 1 }, "torn"},
		{"a bit in the last log's, after a clean end", true, open, func(b []byte, _, _ int64) { b[len(b)-1] = 1 }, "corrupt"},
		{"a bit in the older log's", false, sealed, func(b []byte, _, end int64) { b[end] = 1 }, "corrupt"},
		{"the older log's last batch", false, sealed, func(b []byte, last, _ int64) { clear(b[last:]) }, "corrupt"},
		{"the last log's last batch, after a clean end", true, open, func(b []byte, last, _ int64) { clear(b[last:]) }, "corrupt"},
		{"all of the older log", false, sealed, func(b []byte, _, _ int64) { clear(b[headerSize:]) }, "corrupt"},
		{"all of the last log", true, open, func(b []byte, _, _ int64) { clear(b[headerSize:]) }, "corrupt"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 0, Always)
			w.zeros = 1000
			if err := w.start(w.fs); err != nil {
				t.Fatal(err)
			}
			write := func(n int) {
				w.table.set(1, keyOf(n), stateAt(w.now()+hour))
				w.store.commit()
			}
			write(1)
			lasts := []int64{w.store.cur.End}
			write(2)
			ends := []int64{w.store.cur.End}
			if _, err := w.store.rotate(); err != nil {
				t.Fatal(err)
			}
			lasts = append(lasts, w.store.cur.End)
			write(3)
			ends = append(ends, w.store.cur.End)
			logs := w.store.man.logs
			if test.clean {
				if err := w.store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			n := w.fs.Dir(dataDir)[logs[test.log].name()]
			if int64(len(n.Data)) <= ends[test.log] {
				t.Fatalf("the log has %d bytes and ends at %d", len(n.Data), ends[test.log])
			}
			test.damage(n.Data, lasts[test.log], ends[test.log])
			w.expect(test.want, 3)
		})
	}
}

// A log with nothing but zeros counts as empty.
func TestLogOfZerosIsEmpty(t *testing.T) {
	w := newWorld(t, 0, Always)
	if err := w.start(w.fs); err != nil {
		t.Fatal(err)
	}
	w.table.set(1, keyOf(1), stateAt(w.now()+hour))
	w.store.commit()
	full := w.fs.Dir(dataDir)[w.store.man.logs[0].name()]
	if _, err := w.store.rotate(); err != nil {
		t.Fatal(err)
	}
	name := w.store.man.logs[1].name()
	// The zeros are there and the mark is lost; the log before has a torn tail.
	n := w.fs.Dir(dataDir)[name]
	clear(n.Data[headerSize:])
	if len(n.Data) == headerSize {
		t.Fatal("there are no zeros")
	}
	full.Data[len(full.Data)-1] = 1
	w.expect("torn", 1)
	if w.fs.Dir(dataDir)[name] != nil {
		t.Error("the log of zeros is still there")
	}
}

// expect checks and loads the directory, which has this many keys.
func (w *world) expect(want string, keys int) {
	t := w.t
	t.Helper()
	rep, err := Check(CheckOptions{Dir: dataDir, FS: w.fs})
	if err != nil {
		t.Fatal(err)
	}
	w.ahead, w.table = 0, newTable(1)
	s, err := Open(w.options(w.fs))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := s.Load()
	if want == "corrupt" {
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) {
			t.Errorf("%+v, %v, want it to be refused", loaded, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if w.table.len() != keys {
		t.Errorf("%d keys, want %d", w.table.len(), keys)
	}
	names, err := w.fs.List(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	aside := strings.Contains(strings.Join(names, " "), "cut-")
	if torn := want == "torn"; torn != (rep.Torn != nil) || torn != (loaded.CutFile != "") || torn != aside || len(rep.Problems) > 0 {
		t.Errorf("%+v, %+v, %v, want the tail to be torn: %v", rep, loaded, names, torn)
	}
	if loaded.CutFile != "" {
		kept, err := disk.ReadFile(w.fs, loaded.CutAside, disk.Small)
		if err != nil || int64(len(kept)) != loaded.CutBytes || kept[len(kept)-1] != 1 {
			t.Errorf("%x was kept aside, %v; %+v", kept, err, loaded)
		}
	}
	last := s.man.logs[len(s.man.logs)-2] // the one before the new log
	if f, err := w.fs.Open(filepath.Join(dataDir, last.name())); err != nil {
		t.Error(err)
	} else if size, _ := f.Size(); size != headerSize+loaded.Bytes && len(s.man.logs) == 2 {
		t.Errorf("the last log has %d bytes; %d were loaded", size, loaded.Bytes)
	}
}
