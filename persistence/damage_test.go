package persistence

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"limitdb/internal/disk/disktest"
	"limitdb/internal/journal"
)

// image is a directory with a log whose batches were synced one by one, and the states of the keys after
// each.
type image struct {
	files map[string][]byte
	// sameBoot: the machine has not restarted since.
	sameBoot bool
	log      string
	ends     []int    // where each batch ends
	states   [][]byte // of all keys, joined, after each batch; the first is from before
}

// makeImage writes until the log has size bytes, with this many zeros ahead. The log ends in a mark if marked
// is set.
func makeImage(t *testing.T, size int, marked bool, zeros int) *image {
	t.Helper()
	w := newWorld(t, 7, Always)
	w.zeros = zeros
	if err := w.start(w.fs); err != nil {
		t.Fatal(err)
	}
	im := &image{states: [][]byte{w.joined()}}
	l := w.store.cur
	for l.End < int64(size) {
		w.change()
		before := l.End
		w.commit()
		if l.End > before {
			im.ends = append(im.ends, int(l.End))
			im.states = append(im.states, w.joined())
		}
	}
	if marked {
		w.store.second()
	}
	if got := l.Length > l.End; got != (zeros > 0) {
		t.Fatalf("the log ends at %d of %d", l.End, l.Length)
	}
	im.log = w.store.man.logs[0].name()
	im.files = map[string][]byte{}
	for name, n := range w.fs.Dir(dataDir) {
		im.files[name] = slices.Clone(n.Durable)
	}
	return im
}

// joined returns the states of all keys, joined.
func (w *world) joined() []byte {
	var b []byte
	for i := range w.hist.keys {
		b = append(b, w.table.get(keyOf(i))...)
		b = append(b, '|')
	}
	return b
}

// open starts from the image with another log, and returns the states of all keys.
func (im *image) open(t *testing.T, log []byte) ([]byte, Loaded, error) {
	w := newWorld(t, 1, Always)
	w.wall = startAt // nothing has expired
	if !im.sameBoot {
		w.bootID++
	}
	files := maps.Clone(im.files)
	files[im.log] = log
	for name, data := range files {
		w.fs.Dir(dataDir)[name] = disktest.File(data)
	}
	w.table = newTable(2)
	s, err := Open(w.options(w.fs))
	if err != nil {
		return nil, Loaded{}, err
	}
	loaded, err := s.Load()
	if err == nil {
		im.after(t, w)
	}
	return w.joined(), loaded, err
}

// after checks a directory that was loaded: it has no problems any more, and no zeros.
func (im *image) after(t *testing.T, w *world) {
	t.Helper()
	rep, err := Check(CheckOptions{Dir: dataDir, FS: w.fs})
	if err != nil || len(rep.Problems) > 0 || rep.Torn != nil {
		t.Fatalf("after the start: %+v, %v", rep, err)
	}
	for _, f := range rep.Files {
		if f.Zeros != 0 || f.Lost != 0 {
			t.Fatalf("after the start: %+v", f)
		}
	}
}

// A log that is cut anywhere is loaded up to its last whole batch.
//
//test:norace
func TestLogCutAtEveryByte(t *testing.T) {
	t.Parallel()
	size := 8 << 10
	if long() {
		size = 16 << 10
	}
	for _, zeros := range []int{0, 1500} {
		t.Run(fmt.Sprint(zeros, " zeros"), func(t *testing.T) { cutAtEveryByte(t, makeImage(t, size, false, zeros)) })
	}
}

func cutAtEveryByte(t *testing.T, im *image) {
	log := im.files[im.log]
	for cut := range log {
		got, loaded, err := im.open(t, slices.Clone(log[:cut]))
		if cut < headerSize {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) {
				t.Fatalf("cut at %d, in the header: %v", cut, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		n, _ := slices.BinarySearch(im.ends, cut+1)
		if string(got) != string(im.states[n]) {
			t.Fatalf("cut at %d: %x, want what there was after %d batches", cut, got, n)
		}
		end := headerSize
		if n > 0 {
			end = im.ends[n-1]
		}
		// Whether zeros were lost cannot be known.
		torn := len(bytes.TrimRight(log[end:cut], "\x00"))
		if loaded.CutBytes != int64(torn) || torn > 0 != (loaded.CutAside != "") || torn > 0 && loaded.CutAt != int64(end) {
			t.Fatalf("cut at %d: reported %+v", cut, loaded)
		}
	}
}

// A log with a wrong bit is refused. A wrong bit passes for a torn write only in the mark at the log's end
// and in the zeros after it, which hold no state.
//
//test:norace
func TestLogWithEveryBitFlipped(t *testing.T) {
	for _, zeros := range []int{0, 1500} {
		t.Run(fmt.Sprint(zeros, " zeros"), func(t *testing.T) { everyBitFlipped(t, makeImage(t, 64<<10, true, zeros)) })
	}
}

func everyBitFlipped(t *testing.T, im *image) {
	log := im.files[im.log]
	last := im.ends[len(im.ends)-1]
	stride := 101
	if long() {
		stride = 1
	}
	for bit := 0; bit < 8*len(log); bit += stride {
		at := bit / 8
		log[at] ^= 1 << (bit % 8)
		got, loaded, err := im.open(t, slices.Clone(log))
		log[at] ^= 1 << (bit % 8)
		if err == nil && at >= last {
			if string(got) != string(im.states[len(im.states)-1]) || loaded.CutBytes == 0 {
				t.Fatalf("bit %d: %x, %+v", bit, got, loaded)
			}
			continue
		}
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) && !errors.Is(err, ErrFormat) {
			t.Fatalf("bit %d at %d: %v", bit, at, err)
		}
		if corrupt == nil {
			t.Fatalf("bit %d at %d passes for a newer format", bit, at)
		}
		if corrupt.Offset > int64(at) {
			t.Fatalf("bit %d at %d: reported at %d", bit, at, corrupt.Offset)
		}
	}
}

// A log in which a batch or a disktest.Sector has become zeros is refused, too: the batches after it show that it was
// not the end.
func TestLogWithPartsZeroed(t *testing.T) {
	im := makeImage(t, 16<<10, true, 1500)
	log := im.files[im.log]
	last := im.ends[len(im.ends)-1]
	zeroed := func(from, to int) {
		bad := slices.Clone(log)
		clear(bad[from:to])
		got, _, err := im.open(t, bad)
		if err == nil && to >= last+batchHeaderSize {
			n, _ := slices.BinarySearch(im.ends, from+1)
			if string(got) != string(im.states[n]) {
				t.Errorf("zeros from %d to the end: %x, want what there was after %d batches", from, got, n)
			}
			return
		}
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Offset > int64(from) {
			t.Errorf("zeros from %d to %d: %v", from, to, err)
		}
	}
	from := headerSize
	for _, end := range im.ends {
		zeroed(from, end)
		zeroed(from, from+batchHeaderSize)
		zeroed(from, last+batchHeaderSize)
		from = end
	}
	for at := disktest.Sector; at < len(log); at += disktest.Sector {
		zeroed(at, min(len(log), at+disktest.Sector))
	}
}

// The same for all files of a directory with a base, after a clean end.
//
//test:norace
func TestDirectoryWithBitsFlipped(t *testing.T) {
	directoryWithBitsFlipped(t, EverySec, 0)
	directoryWithBitsFlipped(t, Always, 700)
}

func directoryWithBitsFlipped(t *testing.T, policy Policy, zeros int) {
	w := newWorld(t, 3, policy)
	w.zeros = zeros
	w.table = newTable(2)
	if err := w.start(w.fs); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		w.change()
	}
	if err := w.store.Snapshot(); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		w.change()
		w.commit()
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	want := w.joined()
	im := &image{files: map[string][]byte{}}
	for name, n := range w.fs.Dir(dataDir) {
		im.files[name] = n.Durable
	}
	if len(im.files) != 4 {
		t.Fatalf("%d files, want MANIFEST, CLEAN, a base and a log", len(im.files))
	}
	rep, err := Check(CheckOptions{Dir: dataDir, FS: w.fs})
	if err != nil || len(rep.Problems) > 0 || !rep.Clean {
		t.Fatalf("%+v, %v", rep, err)
	}
	log := rep.Files[len(rep.Files)-1]
	if got := log.Zeros > 0; got != (zeros > 0) {
		t.Fatalf("the log has %d zeros behind its batches", log.Zeros)
	}
	stride := 41
	if long() {
		stride = 1
	}
	for name, data := range im.files {
		im.log = name
		for bit := 0; bit < 8*len(data); bit += stride {
			bad := slices.Clone(data)
			bad[bit/8] ^= 1 << (bit % 8)
			got, loaded, err := im.open(t, bad)
			var corrupt *CorruptError
			switch {
			case name == cleanName && err == nil && !loaded.Clean && string(got) == string(want):
			case errors.As(err, &corrupt):
			default:
				t.Fatalf("%s with bit %d wrong: %v", name, bit, err)
			}
		}
		for _, cut := range []int{0, 1, 63, 64, len(data) / 2, len(data) - 64, len(data) - 1} {
			got, loaded, err := im.open(t, slices.Clone(data[:cut]))
			var corrupt *CorruptError
			switch {
			case name == cleanName && err == nil && !loaded.Clean && string(got) == string(want):
			case name == log.Name && cut >= int(log.Bytes-log.Zeros) && err == nil && loaded.Clean && string(got) == string(want):
			case errors.As(err, &corrupt):
			default:
				t.Fatalf("%s cut at %d: %v", name, cut, err)
			}
		}
	}
}

// A bad batch is followed by others, and none of them says that it had been synced. If the machine has
// restarted, a power cut tore it; if not, it is damage.
//
//test:norace
func TestDamageInTheSameBoot(t *testing.T) {
	for _, sameBoot := range []bool{false, true} {
		im := unsyncedImage(t, sameBoot)
		log := im.files[im.log]
		last := im.ends[len(im.ends)-2]
		for bit := 8*headerSize + 3; bit < 8*len(log); bit += 7 {
			at := bit / 8
			bad := slices.Clone(log)
			bad[at] ^= 1 << (bit % 8)
			got, loaded, err := im.open(t, bad)
			if sameBoot && at < last { // a kill may have cut the last one short
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) || corrupt.Offset > int64(at) {
					t.Fatalf("bit %d at %d: %v", bit, at, err)
				}
				continue
			}
			n, _ := slices.BinarySearch(im.ends, at+1)
			if err != nil || string(got) != string(im.states[n]) || loaded.CutBytes == 0 {
				t.Fatalf("bit %d at %d, same boot %v: %v, %+v", bit, at, sameBoot, err, loaded)
			}
		}
	}
}

// unsyncedImage returns an image whose batches were never synced.
func unsyncedImage(t *testing.T, sameBoot bool) *image {
	t.Helper()
	w := newWorld(t, 9, Never)
	w.split = 0
	if err := w.start(w.fs); err != nil {
		t.Fatal(err)
	}
	im := &image{states: [][]byte{w.joined()}, sameBoot: sameBoot, files: map[string][]byte{}}
	for range 20 {
		before := w.store.cur.End
		w.change()
		w.commit()
		if l := w.store.cur; l.End > before {
			im.ends = append(im.ends, int(l.End))
			im.states = append(im.states, w.joined())
		}
	}
	im.log = w.store.man.logs[0].name()
	for name, n := range w.fs.Dir(dataDir) {
		im.files[name] = slices.Clone(n.Data)
	}
	return im
}

// A MANIFEST that is older than the logs, from a backup for example, is refused, and nothing is removed. A
// repaired copy has everything.
func TestOlderManifest(t *testing.T) {
	for _, boots := range []uint64{0, 1} {
		w := newWorld(t, 11, EverySec)
		if err := w.start(w.fs); err != nil {
			t.Fatal(err)
		}
		manifest := func() *disktest.Inode { return w.fs.Dir(dataDir)[manifestName] }
		set := func(n int) {
			w.table.set(1, keyOf(n), stateAt(w.now()+hour))
			w.store.commit()
		}
		set(1)
		if _, err := w.store.Backup("monday"); err != nil {
			t.Fatal(err)
		}
		set(2)
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		newest := slices.Clone(manifest().Data)
		manifest().Data = slices.Clone(w.fs.Dir(dataDir + "/monday")[manifestName].Data)
		w.bootID += boots
		before, _ := w.fs.List(dataDir)
		w.table = newTable(2)
		var corrupt *CorruptError
		s, err := Open(w.options(w.fs))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(); !errors.As(err, &corrupt) {
			t.Fatalf("an older MANIFEST: %v", err)
		}
		if after, _ := w.fs.List(dataDir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Fatalf("there are %v, and were %v", after, before)
		}
		rep, err := Check(CheckOptions{Dir: dataDir, FS: w.fs, Repair: "/copy"})
		if err != nil || len(rep.Problems) == 0 || rep.Problems[0].Error() != corrupt.Error() {
			t.Fatalf("check: %+v, %v; the start: %v", rep, err, corrupt)
		}
		for dir, data := range map[string][]byte{dataDir: newest, "/copy": nil} {
			if data != nil {
				manifest().Data = data
			}
			w.table = newTable(2)
			o := w.options(w.fs)
			o.Dir = dir
			s, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Load(); err != nil || w.table.len() != 2 {
				t.Fatalf("%s: %v, %d keys of 2", dir, err, w.table.len())
			}
		}
	}
}

// Both a start and Check report unknown flags and operations as a newer version's.
func TestNewerParts(t *testing.T) {
	payload := journal.Buffer{}
	payload.Set(1, 1, []byte("k"), stateAt(startAt+hour))
	for name, test := range map[string]struct {
		flags   uint32
		payload []byte
	}{
		"a flag":       {16, payload.Bytes},
		"an operation": {0, []byte("\x04\x02\x01")},
		"a kind":       {0, []byte("\xa1\x06\x01\x00\x01k")},
	} {
		w := newWorld(t, 12, EverySec)
		if err := w.start(w.fs); err != nil {
			t.Fatal(err)
		}
		l := w.store.cur
		l.flags |= test.flags
		if err := l.appendBatch(&journal.Buffer{Bytes: append(make([]byte, batchHeaderSize), test.payload...), Records: 1}, &w.store.stamp, nil, 0); err != nil {
			t.Fatal(err)
		}
		w.table = newTable(2)
		s, err := Open(w.options(w.fs))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		rep, err := Check(CheckOptions{Dir: dataDir, FS: w.fs, Known: w.table.part().Owns})
		if err != nil || len(rep.Problems) == 0 {
			t.Errorf("%s: check: %+v, %v", name, rep, err)
		}
	}
}

// Only the tail of the last log is ever cut off.
func TestDamageThatIsNoTail(t *testing.T) {
	begin := func() *world {
		w := newWorld(t, 5, EverySec)
		w.rng = seeded(5)
		if err := w.start(w.fs); err != nil {
			t.Fatal(err)
		}
		return w
	}
	write := func(w *world) {
		n := w.rng.IntN(12)
		w.table.set(1, keyOf(n), stateAt(w.now()+hour))
		w.hist.add(n, stateAt(w.now()+hour))
		w.commit()
	}
	reopen := func(w *world) error {
		w.table = newTable(1)
		s, err := Open(w.options(w.fs))
		if err != nil {
			return err
		}
		_, err = s.Load()
		return err
	}
	file := func(w *world, name string) *disktest.Inode { return w.fs.Dir(dataDir)[name] }
	for _, test := range []struct {
		name string
		do   func(w *world)
		want any // an error, or nil for a *CorruptError
	}{
		{"the older of two logs is cut", func(w *world) {
			write(w)
			write(w)
			name := w.store.man.logs[0].name()
			if _, err := w.store.rotate(); err != nil {
				t.Fatal(err)
			}
			write(w)
			n := file(w, name)
			n.Data = n.Data[:len(n.Data)-1]
		}, nil},
		{"the older of two logs lacks its last batch", func(w *world) {
			write(w)
			name, end := w.store.man.logs[0].name(), w.store.cur.End
			write(w)
			if _, err := w.store.rotate(); err != nil {
				t.Fatal(err)
			}
			write(w)
			n := file(w, name)
			n.Data = n.Data[:end]
		}, nil},
		{"a batch is there twice", func(w *world) {
			from := w.store.cur.End
			write(w)
			n := file(w, w.store.man.logs[0].name())
			n.Data = append(n.Data, n.Data[from:]...)
		}, nil},
		{"a log is missing", func(w *world) {
			write(w)
			delete(w.fs.Dir(dataDir), w.store.man.logs[0].name())
		}, nil},
		{"the MANIFEST is missing", func(w *world) {
			write(w)
			delete(w.fs.Dir(dataDir), manifestName)
		}, ErrNoManifest},
		{"a log of another directory is in its place", func(w *world) {
			other := begin()
			write(other)
			w.fs.Dir(dataDir)[w.store.man.logs[0].name()] = file(other, other.store.man.logs[0].name())
			other.store.man.instance[0]++
			h := header{kind: kindLog, instance: other.store.man.instance, id: w.store.cur.id}
			n := file(w, w.store.man.logs[0].name())
			n.Data = appendFileHeader(nil, &h)
		}, nil},
		{"a base of another directory lies beside", func(w *world) {
			w.fs.Dir(dataDir)["base-00000077"] = disktest.File(appendFileHeader(nil, &header{kind: kindBase, id: 1}))
		}, nil},
		{"the log is of a newer format", func(w *world) {
			n := file(w, w.store.man.logs[0].name())
			h := appendFileHeader(nil, &header{kind: kindLog, instance: w.store.man.instance, id: w.store.cur.id})
			n.Data = newerFormat(h)
		}, ErrFormat},
		{"the MANIFEST is of a newer format", func(w *world) {
			n := file(w, manifestName)
			n.Data = newerFormat(n.Data)
		}, ErrFormat},
	} {
		w := begin()
		test.do(w)
		err := reopen(w)
		if want, ok := test.want.(error); ok {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", test.name, err, want)
			}
			continue
		}
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) {
			t.Errorf("%s: %v, want a CorruptError", test.name, err)
		}
	}
}
