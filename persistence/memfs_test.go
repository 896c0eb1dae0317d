package persistence

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
)

// errCrashed is what every operation returns after the crash.
var errCrashed = errors.New("crashed")

// memFS is a file system in memory. A crash keeps any subset of what was not synced: each write may be whole,
// torn at any byte or without any of its 512-byte sectors, and each change of a directory since its last sync
// may be kept or lost. In place of a missing write there are the bytes from before it, zeros beyond the
// file's old end, or nothing if the file has not grown.
type memFS struct {
	dirs map[string]*memDir
	// left counts the operations until the crash; negative means none.
	left    int
	crashed bool
	// ops counts the operations begun.
	ops int
	// syncing is called in the middle of a file's Sync; what it writes is not synced. nil means no call.
	syncing func()
}

type memDir struct {
	now, durable map[string]*inode
	pending      []func(map[string]*inode)
}

type inode struct {
	data, durable []byte
	pending       []write
}

// write is an unsynced write; if b is nil, it is a truncation to off bytes.
type write struct {
	off int
	b   []byte
}

func newMemFS(dirs ...string) *memFS {
	m := &memFS{dirs: map[string]*memDir{}, left: -1}
	for _, d := range append(dirs, "/") {
		m.dirs[d] = &memDir{now: map[string]*inode{}, durable: map[string]*inode{}}
	}
	return m
}

// step counts an operation, which may be the last.
func (m *memFS) step() error {
	m.ops++
	if m.left == 0 {
		m.crashed = true
	}
	m.left--
	if m.crashed {
		return errCrashed
	}
	return nil
}

func (m *memFS) find(name string) (*memDir, *inode, string, error) {
	d := m.dirs[filepath.Dir(name)]
	base := filepath.Base(name)
	if d == nil {
		return nil, nil, base, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
	}
	n := d.now[base]
	if n == nil {
		return d, nil, base, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
	}
	return d, n, base, nil
}

// change changes a directory, not yet durably.
func (d *memDir) change(fn func(map[string]*inode)) {
	fn(d.now)
	d.pending = append(d.pending, fn)
}

func (m *memFS) Open(name string) (File, error) {
	if m.crashed {
		return nil, errCrashed
	}
	_, n, _, err := m.find(name)
	if err != nil {
		return nil, err
	}
	return &memFile{m, n}, nil
}

func (m *memFS) Create(name string) (File, error) {
	if err := m.step(); err != nil {
		return nil, err
	}
	d, n, base, err := m.find(name)
	if d == nil {
		return nil, err
	}
	if n != nil {
		n.cut(0)
		return &memFile{m, n}, nil
	}
	n = &inode{}
	d.change(func(e map[string]*inode) { e[base] = n })
	return &memFile{m, n}, nil
}

func (n *inode) cut(size int) {
	n.data = n.data[:size:size]
	n.pending = append(n.pending, write{off: size})
}

func (n *inode) sync() { n.syncFirst(len(n.pending)) }

// syncFirst makes the first unsynced writes durable.
func (n *inode) syncFirst(writes int) {
	for _, w := range n.pending[:writes] {
		n.durable = w.apply(n.durable)
	}
	n.pending = slices.Clone(n.pending[writes:])
}

// apply returns data after the write. It changes data in place if it is long enough.
func (w write) apply(data []byte) []byte {
	if w.b == nil {
		n := min(len(data), w.off)
		return data[:n:n]
	}
	if grow := w.off + len(w.b) - len(data); grow > 0 {
		data = append(data, make([]byte, grow)...)
	}
	copy(data[w.off:], w.b)
	return data
}

func (m *memFS) Truncate(name string, size int64) error {
	if err := m.step(); err != nil {
		return err
	}
	_, n, _, err := m.find(name)
	if err != nil {
		return err
	}
	n.cut(int(size))
	if err := m.step(); err != nil {
		return err
	}
	n.sync()
	return nil
}

func (m *memFS) Link(name, second string) error {
	if err := m.step(); err != nil {
		return err
	}
	_, n, _, err := m.find(name)
	if err != nil {
		return err
	}
	d, _, base, _ := m.find(second)
	if d == nil {
		return fs.ErrNotExist
	}
	d.change(func(e map[string]*inode) { e[base] = n })
	return nil
}

func (m *memFS) Rename(from, to string) error {
	if err := m.step(); err != nil {
		return err
	}
	d, n, base, err := m.find(from)
	if err != nil {
		return err
	}
	target := filepath.Base(to)
	d.change(func(e map[string]*inode) { delete(e, base); e[target] = n })
	return nil
}

func (m *memFS) Remove(name string) error {
	if m.crashed {
		return errCrashed
	}
	d, n, base, err := m.find(name)
	if err != nil {
		return err
	}
	if err := m.step(); err != nil {
		return err
	}
	d.change(func(e map[string]*inode) {
		if e[base] == n {
			delete(e, base)
		}
	})
	return nil
}

func (m *memFS) List(dir string) ([]string, error) {
	if m.crashed {
		return nil, errCrashed
	}
	d := m.dirs[dir]
	if d == nil {
		return nil, fs.ErrNotExist
	}
	return slices.Sorted(maps.Keys(d.now)), nil
}

func (m *memFS) Mkdir(dir string) error {
	if err := m.step(); err != nil {
		return err
	}
	if m.dirs[dir] != nil {
		return fs.ErrExist
	}
	m.dirs[dir] = newMemFS(dir).dirs[dir]
	return nil
}

func (m *memFS) SyncDir(dir string) error {
	if err := m.step(); err != nil {
		return err
	}
	d := m.dirs[dir]
	if d == nil {
		return fs.ErrNotExist
	}
	d.durable, d.pending = maps.Clone(d.now), nil
	return nil
}

type memFile struct {
	m *memFS
	n *inode
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	if f.m.crashed {
		return 0, errCrashed
	}
	// A write during which the crash happens may still reach the disk in part.
	w := write{int(off), slices.Clone(b)}
	f.n.pending = append(f.n.pending, w)
	f.n.data = w.apply(f.n.data)
	if err := f.m.step(); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if f.m.crashed {
		return 0, errCrashed
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Named(name string) (bool, error) {
	_, n, _, _ := f.m.find(name)
	return n == f.n, nil
}

func (f *memFile) Size() (int64, error) { return int64(len(f.n.data)), nil }
func (f *memFile) Close() error         { return nil }

func (f *memFile) Forget(int64, int64) {}

func (f *memFile) Sync() error {
	n := len(f.n.pending)
	if f.m.syncing != nil {
		f.m.syncing()
	}
	if err := f.m.step(); err != nil {
		return err
	}
	f.n.syncFirst(n)
	return nil
}

// failSync does what Linux does when writing to the disk fails during a sync: the pages count as written, and
// no later sync tries again.
func (f *memFile) failSync() { f.n.pending = nil }

// crash returns the file system after the machine has started again.
func (m *memFS) crash(rng *rand.Rand) *memFS {
	after := newMemFS()
	kept := map[*inode]*inode{}
	for _, name := range slices.Sorted(maps.Keys(m.dirs)) {
		d := m.dirs[name]
		entries := maps.Clone(d.durable)
		all := rng.IntN(4) == 0
		for _, op := range d.pending {
			if all || rng.IntN(2) == 0 {
				op(entries)
			}
		}
		for _, e := range slices.Sorted(maps.Keys(entries)) {
			n := entries[e]
			if n == nil {
				delete(entries, e)
				continue
			}
			if kept[n] == nil {
				data := n.survive(rng)
				kept[n] = &inode{data: data, durable: slices.Clone(data)}
			}
			entries[e] = kept[n]
		}
		after.dirs[name] = &memDir{now: entries, durable: maps.Clone(entries)}
	}
	return after
}

// survive returns the bytes of the file that outlive a crash.
func (n *inode) survive(rng *rand.Rand) []byte {
	data := slices.Clone(n.durable)
	all := rng.IntN(4) == 0
	for _, w := range n.pending {
		if w.b == nil {
			if all || rng.IntN(2) == 0 {
				data = w.apply(data)
			}
			continue
		}
		end := len(data)
		switch how := rng.IntN(5); {
		case all || how == 0:
			data = w.apply(data)
		case how == 1: // nothing
		case how == 2: // torn
			data = write{w.off, w.b[:rng.IntN(len(w.b)+1)]}.apply(data)
		default: // any sectors
			for at := 0; at < len(w.b); {
				next := min(len(w.b), at+sector-(w.off+at)%sector)
				if rng.IntN(2) == 0 {
					data = write{w.off + at, w.b[at:next]}.apply(data)
				}
				at = next
			}
		}
		// The length may have grown without the data.
		if grow := w.off + len(w.b) - max(end, len(data)); grow > 0 && rng.IntN(2) == 0 {
			data = append(data, make([]byte, grow)...)
		}
	}
	return data
}

// sector is how many bytes reach the disk as a whole or not at all.
const sector = 512

// failFS fails the n-th operation that writes. If short is set and the operation is a WriteAt, half of it is
// done first.
type failFS struct {
	*memFS
	n     int
	err   error
	short bool
	// forever: all operations from the n-th on fail.
	forever bool
	hit     string // what the n-th operation was
}

func (f *failFS) failing(what string) bool {
	f.n--
	if f.n != 0 && !(f.forever && f.n < 0) {
		return false
	}
	if f.hit == "" {
		f.hit = what
	}
	return true
}

func (f *failFS) Create(name string) (File, error) {
	if f.failing("create " + name) {
		return nil, f.err
	}
	file, err := f.memFS.Create(name)
	if err != nil {
		return nil, err
	}
	return &failFile{file.(*memFile), f, name}, nil
}

func (f *failFS) Truncate(name string, size int64) error {
	if f.failing("truncate " + name) {
		return f.err
	}
	return f.memFS.Truncate(name, size)
}

func (f *failFS) Link(name, second string) error {
	if f.failing("link " + name) {
		return f.err
	}
	return f.memFS.Link(name, second)
}

func (f *failFS) Rename(from, to string) error {
	if f.failing("rename " + from) {
		return f.err
	}
	return f.memFS.Rename(from, to)
}

func (f *failFS) Remove(name string) error {
	if _, _, _, err := f.find(name); err == nil && f.failing("remove "+name) {
		return f.err
	}
	return f.memFS.Remove(name)
}

func (f *failFS) SyncDir(dir string) error {
	if f.failing("syncdir") {
		return f.err
	}
	return f.memFS.SyncDir(dir)
}

type failFile struct {
	*memFile
	fs   *failFS
	name string
}

func (f *failFile) WriteAt(b []byte, off int64) (int, error) {
	if f.fs.failing("write " + strings.TrimPrefix(f.name, "/")) {
		if f.fs.short {
			n, _ := f.memFile.WriteAt(b[:len(b)/2], off)
			return n, f.fs.err
		}
		return 0, f.fs.err
	}
	return f.memFile.WriteAt(b, off)
}

func (f *failFile) Sync() error {
	if f.fs.failing("sync " + f.name) {
		f.failSync()
		return f.fs.err
	}
	return f.memFile.Sync()
}
