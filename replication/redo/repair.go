package redo

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"limitdb/internal/disk"
)

// Repair does again what a redo log has, makes it durable, and empties the log. Without such a directory, it does nothing. The errors are
// disk.ErrLocked, ErrDamaged and ErrNewer.
func Repair(fsys disk.FS, dir string) error {
	lock, err := fsys.Lock(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(repair(fsys, dir), lock.Close())
}

// repair is Repair for who has the lock.
func repair(fsys disk.FS, dir string) error {
	names, frames, err := read(fsys, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := renew(fsys, name); err != nil {
			return err
		}
	}
	parent := filepath.Dir(dir)
	for _, at := range places(frames) {
		name, err := at.find(fsys, parent)
		if err != nil {
			return err
		}
		if name == "" {
			err = at.gone(fsys, parent)
		} else {
			err = at.redo(fsys, name)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range names {
		// The file before is gone for good first, also one that a process removed which was killed then: after a loss of power it would come back alone,
		// and what a later file has undone would be done again.
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
		if err := fsys.Remove(name); err != nil {
			return err
		}
	}
	// Also if nothing is left: what a process has removed that was killed then must not come back.
	if err := fsys.SyncDir(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// read reads all files of a redo log, the oldest first.
func read(fsys disk.FS, dir string) (names []string, frames []frame, err error) {
	all, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	slices.Sort(all)
	for _, name := range all {
		name = filepath.Join(dir, name)
		names = append(names, name)
		if !strings.HasSuffix(name, fileEnd) { // it was not finished
			continue
		}
		of, err := readFile(fsys, name)
		if err != nil {
			return nil, nil, err
		}
		frames = append(frames, of...)
	}
	return names, frames, err
}

// renew makes a file of the redo log durable as it was read, before anything is done again. A process that was killed may not have synced its end. If that were lost
// after it was done, the next start would do again what is before it, over what it has undone. renew writes the file again: an earlier process may have
// failed to sync it. The system tells that once, and from then on takes for written what it has only in memory.
func renew(fsys disk.FS, name string) error {
	if !strings.HasSuffix(name, fileEnd) {
		return nil
	}
	b, err := disk.ReadFile(fsys, name, math.MaxInt64)
	if err != nil {
		return err
	}
	f, err := fsys.Edit(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// place is a file and what is to be done to it again.
type place struct {
	dir, head string
	frames    []frame
}

// places sorts frames by file. Those of a file stay in their order.
func places(frames []frame) (all []*place) {
	of := map[[2]string]*place{}
	for _, f := range frames {
		id := [2]string{f.dir, f.head}
		at := of[id]
		if at == nil {
			at = &place{dir: f.dir, head: f.head}
			of[id], all = at, append(all, at)
		}
		at.frames = append(at.frames, f)
	}
	return all
}

// find returns the name that the file has now, or "" if it is gone.
func (p *place) find(fsys disk.FS, parent string) (string, error) {
	dir := filepath.Join(parent, filepath.FromSlash(p.dir))
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, name := range names {
		name = filepath.Join(dir, name)
		if is, err := p.is(fsys, name); err != nil || is {
			return name, err
		}
	}
	return "", err
}

// gone makes it durable that the file is gone. Whoever removed it may have crashed before that, and after a loss of power it would come back without
// what only the redo log has.
func (p *place) gone(fsys disk.FS, parent string) error {
	dir := filepath.Join(parent, filepath.FromSlash(p.dir))
	for {
		err := fsys.SyncDir(dir)
		if dir == parent || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		dir = filepath.Dir(dir) // the directory is gone as well
	}
}

// is reports whether a file begins as this one does.
func (p *place) is(fsys disk.FS, name string) (bool, error) {
	b, err := disk.ReadFile(fsys, name, int64(len(p.head)))
	return string(b) == p.head, err
}

// redo does all again, durably.
func (p *place) redo(fsys disk.FS, name string) error {
	f, err := fsys.Edit(name)
	if err != nil {
		return err
	}
	for _, one := range p.frames {
		if err = one.redo(fsys, name, f); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// redo does it again to an open file.
func (f *frame) redo(fsys disk.FS, name string, to disk.File) error {
	if f.action == actWrite {
		_, err := to.WriteAt(f.data, f.off)
		return err
	}
	size, err := to.Size()
	if err != nil || size <= f.off { // it was cut off further
		return err
	}
	return fsys.Truncate(name, f.off)
}

// redone returns the content of the file when all is done again.
func (p *place) redone(b []byte) []byte {
	for _, one := range p.frames {
		end := one.off + int64(len(one.data))
		switch n := int64(len(b)); {
		case one.action == actCut:
			b = b[:min(n, end)]
			continue
		case n < end:
			b = append(b, make([]byte, end-n)...)
		}
		copy(b[one.off:], one.data)
	}
	return b
}
