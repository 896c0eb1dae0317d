package redo

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"limitdb/internal/disk"
	"limitdb/internal/disk/disktest"
)

// kept is a file whose writes are durable in a redo log, beside what it must have.
type kept struct {
	dir, name, head string
	f               disk.File
	target          *Target
	// want is what the file has for certain, and maybe what it may have behind that.
	want, maybe []byte
}

// model is a redo log with some files, on a disk that may crash.
type model struct {
	fs    *disktest.Mem
	log   *Log
	files []*kept
	made  int
	later []func() // retires full files
}

func (m *model) open(t *rapid.T) {
	if rapid.Bool().Draw(t, "look first") {
		m.same(t)
	}
	m.later = nil
	m.log = &Log{fs: m.fs, dir: "/g/redo", full: 1 << 10, apart: func(f func()) { m.later = append(m.later, f) }}
	err := m.log.open()
	for _, k := range m.files {
		if err == nil {
			err = m.take(t, k)
		}
	}
	if errors.Is(err, disktest.ErrCrashed) {
		m.crash(t)
	} else if err != nil {
		t.Fatal(err)
	}
}

// same has View show what Repair then makes.
func (m *model) same(t *rapid.T) {
	v, err := View(m.fs, "/g/redo")
	var seen [][]byte
	for _, k := range m.files {
		var b []byte
		if err == nil {
			b, err = disk.ReadFile(v, k.name, 1<<20)
		}
		seen = append(seen, b)
	}
	if err == nil {
		err = Repair(m.fs, "/g/redo")
	}
	for i, k := range m.files {
		var b []byte
		if err == nil {
			b, err = disk.ReadFile(m.fs, k.name, 1<<20)
		}
		if err == nil && !bytes.Equal(b, seen[i]) {
			t.Fatalf("%s: %q is shown, and %q is made", k.name, seen[i], b)
		}
	}
	if err != nil && !errors.Is(err, disktest.ErrCrashed) {
		t.Fatal(err)
	}
}

// take opens a file after a start, and compares it.
func (m *model) take(t *rapid.T, k *kept) (err error) {
	if k.f, err = m.fs.Edit(k.name); err != nil {
		return err
	}
	b, err := disk.ReadFile(m.fs, k.name, 1<<20)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(b, k.want) {
		t.Fatalf("%s has %q, want %q", k.name, b, k.want)
	}
	if rest := b[len(k.want):]; len(rest) > len(k.maybe) && len(bytes.Trim(rest[len(k.maybe):], "\x00")) > 0 {
		t.Fatalf("%s has %q behind what it must have, want %q at most", k.name, rest, k.maybe)
	}
	// A node's log cuts off a torn write when it is opened. So does this.
	if err := m.fs.Truncate(k.name, int64(len(k.want))); err != nil {
		return err
	}
	k.maybe = nil
	k.target, err = m.log.Target(k.f, k.dir, []byte(k.head))
	return err
}

func (m *model) crash(t *rapid.T) {
	if rapid.Bool().Draw(t, "power") {
		m.fs = m.fs.Crash(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
	}
	m.fs.Crashed, m.fs.Left = false, -1
	if rapid.IntRange(0, 2).Draw(t, "crash again") == 0 {
		m.fs.Left = rapid.IntRange(0, 30).Draw(t, "after")
	}
	m.open(t)
	m.fs.Left = -1
}

// during does something that a crash may cut short, and calls done if it was done before that.
func (m *model) during(t *rapid.T, do func() error, done func()) {
	if rapid.IntRange(0, 4).Draw(t, "crash") == 0 {
		m.fs.Left = rapid.IntRange(0, 12).Draw(t, "in")
	}
	err := do()
	m.fs.Left = -1
	switch {
	case err == nil:
		done()
	case !errors.Is(err, disktest.ErrCrashed):
		t.Fatal(err)
	}
	if m.fs.Crashed {
		m.crash(t)
	}
}

func (m *model) any(t *rapid.T) *kept {
	if len(m.files) == 0 {
		t.Skip("there is no file")
	}
	return rapid.SampledFrom(m.files).Draw(t, "file")
}

func (m *model) create(t *rapid.T) {
	if len(m.files) > 4 {
		return
	}
	m.made++
	k := &kept{dir: rapid.SampledFrom([]string{"/g/1/log", "/g/2/log"}).Draw(t, "dir"), head: fmt.Sprintf("head %03d;", m.made)}
	k.name, k.want = filepath.Join(k.dir, fmt.Sprint(m.made)), []byte(k.head)
	a, err := disk.CreateAppender(m.fs, k.name, k.want)
	if err != nil {
		t.Fatal(err)
	}
	k.f = a.File
	k.target, err = m.log.Target(k.f, k.dir, []byte(k.head))
	if err != nil {
		t.Fatal(err)
	}
	m.files = append(m.files, k)
}

// retire does what a Log does beside its callers.
func (m *model) retire(t *rapid.T) {
	m.during(t, func() error {
		for _, f := range m.later {
			f()
		}
		m.later = nil
		return nil
	}, func() {})
}

func (m *model) write(t *rapid.T) {
	if m.log.file.End > 2<<10 {
		m.retire(t) // a write would wait for it
	}
	k := m.any(t)
	b := bytes.Repeat([]byte{byte('a' + rapid.IntRange(0, 25).Draw(t, "letter"))}, rapid.IntRange(0, 200).Draw(t, "bytes"))
	k.maybe = b
	m.during(t, func() error {
		if _, err := k.f.WriteAt(b, int64(len(k.want))); err != nil {
			return err
		}
		return k.target.Wrote(int64(len(k.want)), b)
	}, func() { k.want, k.maybe = append(k.want, b...), nil })
}

func (m *model) cut(t *rapid.T) {
	k := m.any(t)
	at := rapid.IntRange(len(k.head), len(k.want)).Draw(t, "at")
	all := k.want
	k.want, k.maybe = all[:at:at], all[at:]
	m.during(t, func() error {
		if err := k.target.Cuts(int64(at)); err != nil {
			return err
		}
		return m.fs.Truncate(k.name, int64(at))
	}, func() { k.maybe = nil })
}

func (m *model) rename(t *rapid.T) {
	k := m.any(t)
	m.made++
	to := filepath.Join(k.dir, fmt.Sprint(m.made))
	if err := errors.Join(m.fs.Rename(k.name, to), m.fs.SyncDir(k.dir)); err != nil {
		t.Fatal(err)
	}
	k.name = to
}

func (m *model) remove(t *rapid.T) {
	k := m.any(t)
	k.target.Done()
	if err := errors.Join(k.f.Close(), m.fs.Remove(k.name), m.fs.SyncDir(k.dir)); err != nil {
		t.Fatal(err)
	}
	m.files = slices.DeleteFunc(m.files, func(o *kept) bool { return o == k })
}

// stop ends the process in order.
func (m *model) stop(t *rapid.T) {
	m.retire(t)
	m.during(t, func() error {
		for _, k := range m.files {
			if err := k.target.Sync(); err != nil {
				return err
			}
			k.target.Done()
		}
		return m.log.Close()
	}, func() {
		if names, _ := m.fs.List("/g/redo"); len(names) > 0 {
			t.Fatalf("%q are left", names)
		}
		m.open(t)
	})
}

// Each file has what was made durable, and nothing of what was cut off, wherever a crash comes and whatever it leaves of what was not synced.
func TestRedo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for range 10 { // models are small, and what a crash leaves is rare
			m := &model{fs: disktest.New("/g/1/log", "/g/2/log")}
			m.open(rt)
			rt.Repeat(map[string]func(*rapid.T){
				"create": m.create, "write": m.write, "write more": m.write, "and more": m.write, "cut": m.cut, "rename": m.rename, "remove": m.remove, "retire": m.retire, "crash": m.crash, "stop": m.stop,
			})
		}
	})
}

// slow is a file system whose files tell when they are synced, and wait.
type slow struct {
	disk.OS
	syncing, resume chan struct{}
}

func (s slow) Create(name string) (disk.File, error) {
	f, err := s.OS.Create(name)
	return slowFile{f, s}, err
}

type slowFile struct {
	disk.File
	slow
}

func (f slowFile) Sync() error {
	f.syncing <- struct{}{}
	<-f.resume
	return f.File.Sync()
}

// A file that was removed before a crash is gone for good when the log is emptied.
func TestRemovedFile(t *testing.T) {
	fsys := disktest.New("/raft/a")
	l, err := Open(fsys, "/raft/redo", FileBytes)
	if err != nil {
		t.Fatal(err)
	}
	file, err := disk.CreateAppender(fsys, "/raft/a/file", []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	target, err := l.Target(file, "/raft/a", []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(target.Wrote(4, []byte("data")), fsys.Remove("/raft/a/file")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(fsys, "/raft/redo", FileBytes); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		left := fsys.Crash(rand.New(rand.NewPCG(seed, 0)))
		if names, err := left.List("/raft/a"); err != nil || len(names) > 0 {
			t.Fatalf("seed %d: %q, %v", seed, names, err)
		}
	}
}

// What many write while one sync is under way becomes durable with the next.
func TestOneSyncForMany(t *testing.T) {
	dir := t.TempDir()
	f, err := (disk.OS{}).Create(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	s := slow{syncing: make(chan struct{}), resume: make(chan struct{})}
	l := &Log{fs: s, dir: filepath.Join(dir, Dir), full: FileBytes}
	opened := make(chan error)
	go func() { opened <- l.open() }()
	<-s.syncing // the header
	s.resume <- struct{}{}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	const many = 20
	var all sync.WaitGroup
	write := func() {
		target, err := l.Target(f, dir, []byte("head"))
		if err == nil {
			err = target.Wrote(0, []byte("some"))
		}
		if err != nil {
			t.Error(err)
		}
	}
	all.Go(write)
	<-s.syncing
	for range many {
		all.Go(write)
	}
	for joined := 0; joined < many; runtime.Gosched() {
		l.mu.Lock()
		if joined = 0; l.batch != nil {
			joined = len(l.batch.frames)
		}
		l.mu.Unlock()
	}
	s.resume <- struct{}{}
	<-s.syncing
	s.resume <- struct{}{}
	all.Wait()
	if l.batches != 2 {
		t.Errorf("%d syncs", l.batches)
	}
	if err := errors.Join(l.Close(), f.Close()); err != nil {
		t.Error(err)
	}
}

// What many are about to write when the first of them begins becomes durable with one sync.
func TestBatchGathers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that all are there when the first runs
	fsys := disktest.New("/raft/a")
	l, err := Open(fsys, "/raft/redo", FileBytes)
	if err != nil {
		t.Fatal(err)
	}
	file, err := disk.CreateAppender(fsys, "/raft/a/file", []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			target, err := l.Target(file, "/raft/a", []byte("head"))
			if err == nil {
				err = target.Wrote(4, []byte("some"))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if l.batches > 3 { // one, unless the system takes the processor away
		t.Errorf("%d syncs", l.batches)
	}
}

// A damaged byte is an error, but for the last batch, whose sync may not have ended.
func TestDamagedRedoLog(t *testing.T) {
	fs := disktest.New("/g/1")
	var b []byte
	b = appendHeader(b, 1, 77)
	last := 0
	for i := range uint64(6) {
		last = len(b)
		for n := range i%2 + 1 {
			f := frame{batch: i + 1, ends: n == i%2, dir: "1", head: "head", off: 4, data: []byte("some data")}
			b = f.append(b, 77)
		}
	}
	for at := range append(b, make([]byte, 50)...) {
		bad := append(slices.Clone(b), make([]byte, 50)...)
		bad[at] ^= 0x40
		if err := disk.Write(fs, "/g/1/x", bad, true); err != nil {
			t.Fatal(err)
		}
		all, err := readFile(fs, "/g/1/x")
		switch {
		case at < last:
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Fatalf("byte %d: %v", at, err)
			}
		case err != nil || len(all) < 7:
			t.Fatalf("byte %d: %d frames, %v", at, len(all), err)
		}
	}
}

// After an error of the disk, nothing is durable any more, and the files stay for the next start.
func TestRedoReportsErrors(t *testing.T) {
	for n := 1; ; n++ {
		m := &disktest.Faulty{Mem: disktest.New("/g/1"), N: n, Err: syscall.EIO}
		f, err := m.Mem.Create("/g/1/a")
		if err != nil {
			t.Fatal(err)
		}
		l := &Log{fs: m, dir: "/g/redo", full: 200, apart: func(f func()) { f() }}
		if err := l.open(); err != nil {
			if !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			continue
		}
		target, err := l.Target(f, "/g/1", nil)
		failed := 0
		for range 9 {
			if err == nil {
				err = target.Wrote(0, make([]byte, 50))
			}
			if err != nil {
				failed++
				err = nil
				if werr := target.Wrote(0, nil); !errors.Is(werr, syscall.EIO) {
					t.Fatalf("operation %d, %s: the next write after an error: %v", n, m.Hit, werr)
				}
			}
		}
		err = l.Close()
		if m.Hit == "" {
			if err != nil || failed > 0 || n < 12 {
				t.Errorf("%d operations, %d failed, %v", n-1, failed, err)
			}
			return
		}
		if names, _ := m.List("/g/redo"); len(names) == 0 && failed > 0 {
			t.Errorf("operation %d, %s: the redo log is gone", n, m.Hit)
		}
	}
}
