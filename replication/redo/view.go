package redo

import (
	"bytes"
	"math"
	"path/filepath"

	"limitdb/internal/disk"
)

// View returns the files beside a redo log as Repair would leave them, for a reader that changes nothing. Without such a directory, these are the
// files as they are. The errors are ErrDamaged and ErrNewer.
func View(fsys disk.FS, dir string) (disk.FS, error) {
	_, frames, err := read(fsys, dir)
	if err != nil || len(frames) == 0 {
		return fsys, err
	}
	return &view{fsys, filepath.Dir(dir), places(frames)}, nil
}

type view struct {
	disk.FS
	parent string
	places []*place
}

// Open implements disk.FS.
func (v *view) Open(name string) (disk.File, error) {
	for _, p := range v.places {
		if filepath.Dir(name) != filepath.Join(v.parent, filepath.FromSlash(p.dir)) {
			continue
		}
		switch is, err := p.is(v.FS, name); {
		case err != nil:
			return nil, err
		case is:
			b, err := disk.ReadFile(v.FS, name, math.MaxInt64)
			return &viewed{Reader: bytes.NewReader(p.redone(b))}, err
		}
	}
	return v.FS.Open(name)
}

// viewed is a file as it would be.
type viewed struct {
	disk.File // nil: nobody writes
	*bytes.Reader
}

func (v *viewed) ReadAt(b []byte, off int64) (int, error) { return v.Reader.ReadAt(b, off) }
func (v *viewed) Size() (int64, error)                    { return v.Reader.Size(), nil }
func (*viewed) Close() error                              { return nil }
