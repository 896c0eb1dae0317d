// Package disktest has file systems for tests: one that loses at a crash what was not synced, and one whose n-th
// operation fails.
package disktest

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"limitdb/internal/disk"
)

var errNotEmpty = errors.New("directory not empty")

// ErrCrashed is what every operation returns after the crash.
var ErrCrashed = errors.New("crashed")

// Mem is a file system in memory. A crash keeps any subset of what was not synced: each write may be whole, torn at any
// byte or without any of its 512-byte sectors, whatever became of those before it, and each change of a directory since
// its last sync may be kept or lost. In place of a missing write there are the bytes from before it, zeros beyond the
// file's old end, or nothing if the file has not grown. It is for one goroutine.
type Mem struct {
	root *Inode
	// Left counts the operations until the crash; negative means none. Crashed reports that it came.
	Left    int
	Crashed bool
	// Ops counts the operations begun.
	Ops int
	// Syncing is called in the middle of a file's Sync; what it writes is not synced. nil means no call.
	Syncing func()
}

// Inode is a file or a directory, whatever its names are.
type Inode struct {
	Data, Durable []byte // of a file: what is read now, and what was synced
	pending       []write

	Names   map[string]*Inode // of a directory; nil for a file
	durable map[string]*Inode
	changes []func(map[string]*Inode)
}

// File returns a file that is durable.
func File(data []byte) *Inode { return &Inode{Data: data, Durable: slices.Clone(data)} }

func directory() *Inode {
	return &Inode{Names: map[string]*Inode{}, durable: map[string]*Inode{}}
}

// write is an unsynced write; if b is nil, it is a truncation to off bytes.
type write struct {
	off int
	b   []byte
}

// New returns a file system with some directories, which are durable.
func New(dirs ...string) *Mem {
	m := &Mem{root: directory(), Left: -1}
	for _, dir := range dirs {
		n := m.root
		for _, name := range split(dir) {
			if n.Names[name] == nil {
				d := directory()
				n.Names[name], n.durable[name] = d, d
			}
			n = n.Names[name]
		}
	}
	return m
}

func split(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == filepath.Separator })
}

// Dir returns the names in a directory, which the caller may change; nil if there is no such directory.
func (m *Mem) Dir(name string) map[string]*Inode {
	if n := m.at(name); n != nil {
		return n.Names
	}
	return nil
}

// at returns the Inode with a name, or nil if there is none.
func (m *Mem) at(name string) *Inode {
	n := m.root
	for _, part := range split(name) {
		if n == nil {
			return nil
		}
		n = n.Names[part]
	}
	return n
}

// step counts an operation, which may be the last.
func (m *Mem) step() error {
	m.Ops++
	if m.Left == 0 {
		m.Crashed = true
	}
	m.Left--
	if m.Crashed {
		return ErrCrashed
	}
	return nil
}

// find returns the directory in which a name is or may be, its inode, which is nil with an error, and its last part.
func (m *Mem) find(name string) (d, n *Inode, base string, err error) {
	missing := &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
	base = filepath.Base(name)
	if d = m.at(filepath.Dir(name)); d == nil || d.Names == nil {
		return nil, nil, base, missing
	}
	if n = d.Names[base]; n == nil {
		return d, nil, base, missing
	}
	return d, n, base, nil
}

// change changes a directory, not yet durably.
func (n *Inode) change(fn func(map[string]*Inode)) {
	fn(n.Names)
	n.changes = append(n.changes, fn)
}

// Open implements disk.FS.
func (m *Mem) Open(name string) (disk.File, error) {
	if m.Crashed {
		return nil, ErrCrashed
	}
	_, n, _, err := m.find(name)
	if err != nil {
		return nil, err
	}
	return &memFile{m, n}, nil
}

// Edit implements disk.FS.
func (m *Mem) Edit(name string) (disk.File, error) { return m.Open(name) }

// Create implements disk.FS.
func (m *Mem) Create(name string) (disk.File, error) {
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
	n = &Inode{}
	d.change(func(e map[string]*Inode) { e[base] = n })
	return &memFile{m, n}, nil
}

func (n *Inode) cut(size int) {
	n.Data = n.Data[:size:size]
	n.pending = append(n.pending, write{off: size})
}

func (n *Inode) sync() { n.syncFirst(len(n.pending)) }

// syncFirst makes the first unsynced writes durable.
func (n *Inode) syncFirst(writes int) {
	for _, w := range n.pending[:writes] {
		n.Durable = w.apply(n.Durable)
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

// Truncate implements disk.FS.
func (m *Mem) Truncate(name string, size int64) error {
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

// Link implements disk.FS.
func (m *Mem) Link(name, second string) error {
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
	d.change(func(e map[string]*Inode) { e[base] = n })
	return nil
}

// Rename implements disk.FS.
func (m *Mem) Rename(from, to string) error {
	if err := m.step(); err != nil {
		return err
	}
	d, n, base, err := m.find(from)
	if err != nil {
		return err
	}
	target := filepath.Base(to)
	d.change(func(e map[string]*Inode) { delete(e, base); e[target] = n })
	return nil
}

// Remove implements disk.FS.
func (m *Mem) Remove(name string) error {
	if m.Crashed {
		return ErrCrashed
	}
	d, n, base, err := m.find(name)
	if err != nil {
		return err
	}
	if err := m.step(); err != nil {
		return err
	}
	if len(n.Names) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: errNotEmpty}
	}
	d.change(func(e map[string]*Inode) {
		if e[base] == n {
			delete(e, base)
		}
	})
	return nil
}

// List implements disk.FS.
func (m *Mem) List(dir string) ([]string, error) { return m.list(dir, false) }

// Dirs implements disk.FS.
func (m *Mem) Dirs(dir string) ([]string, error) { return m.list(dir, true) }

func (m *Mem) list(dir string, dirs bool) ([]string, error) {
	if m.Crashed {
		return nil, ErrCrashed
	}
	d := m.at(dir)
	if d == nil {
		return nil, fs.ErrNotExist
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(d.Names)) {
		if (d.Names[name].Names != nil) == dirs {
			names = append(names, name)
		}
	}
	return names, nil
}

// Mkdir implements disk.FS.
func (m *Mem) Mkdir(dir string) error {
	if err := m.step(); err != nil {
		return err
	}
	d, n, base, err := m.find(dir)
	if n != nil {
		return fs.ErrExist
	}
	if d == nil {
		return err
	}
	n = directory()
	d.change(func(e map[string]*Inode) { e[base] = n })
	return nil
}

// SyncDir implements disk.FS.
func (m *Mem) SyncDir(dir string) error {
	if err := m.step(); err != nil {
		return err
	}
	d := m.at(dir)
	if d == nil {
		return fs.ErrNotExist
	}
	d.durable, d.changes = maps.Clone(d.Names), nil
	return nil
}

// Lock implements disk.FS. There is only one process.
func (m *Mem) Lock(string, bool) (io.Closer, error) { return io.NopCloser(nil), nil }

type memFile struct {
	m *Mem
	n *Inode
}

// WriteAt implements disk.File.
func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	if f.m.Crashed {
		return 0, ErrCrashed
	}
	// A write during which the crash happens may still reach the disk in part.
	w := write{int(off), slices.Clone(b)}
	f.n.pending = append(f.n.pending, w)
	f.n.Data = w.apply(f.n.Data)
	if err := f.m.step(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ReadAt implements disk.File.
func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if f.m.Crashed {
		return 0, ErrCrashed
	}
	if off >= int64(len(f.n.Data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.Data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Named implements disk.File.
func (f *memFile) Named(name string) (bool, error) {
	_, n, _, _ := f.m.find(name)
	return n == f.n, nil
}

// Size implements disk.File.
func (f *memFile) Size() (int64, error) { return int64(len(f.n.Data)), nil }

// Close implements disk.File.
func (f *memFile) Close() error { return nil }

// Forget implements disk.File.
func (f *memFile) Forget(int64, int64) {}

// Sync implements disk.File.
func (f *memFile) Sync() error {
	n := len(f.n.pending)
	if f.m.Syncing != nil {
		f.m.Syncing()
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

// Crash returns the file system after the machine has started again.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	after := New()
	after.root = m.root.outlive(rng, map[*Inode]*Inode{})
	return after
}

// outlive returns what outlives a crash; kept has what is decided already.
func (n *Inode) outlive(rng *rand.Rand, kept map[*Inode]*Inode) *Inode {
	if kept[n] != nil {
		return kept[n]
	}
	if n.Names == nil {
		kept[n] = File(n.survive(rng))
		return kept[n]
	}
	after := directory()
	kept[n] = after
	entries := maps.Clone(n.durable)
	all := rng.IntN(4) == 0
	for _, op := range n.changes {
		if all || rng.IntN(2) == 0 {
			op(entries)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if entries[name] != nil {
			after.Names[name] = entries[name].outlive(rng, kept)
		}
	}
	after.durable = maps.Clone(after.Names)
	return after
}

// survive returns the bytes of the file that outlive a crash.
func (n *Inode) survive(rng *rand.Rand) []byte {
	data := slices.Clone(n.Durable)
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
				next := min(len(w.b), at+Sector-(w.off+at)%Sector)
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

// Sector is how many bytes reach the disk as a whole or not at all.
const Sector = 512
