package persistence

import (
	"fmt"
	"path/filepath"
	"slices"

	"limitdb/internal/disk"
)

// cutTail keeps a copy of a torn tail and cuts the tail off. Without a torn tail it cuts off zeros only, and
// syncs what the last process may have written and not synced: from now on, replies may have seen it.
func (r *recovery) cutTail() error {
	if r.written < 0 {
		return nil
	}
	for i := max(0, r.voucher); i < r.written; i++ {
		if err := r.s.fs.Truncate(r.logs[i].name, r.logs[i].size); err != nil {
			return err
		}
	}
	l := r.logs[r.written]
	if r.tail == nil {
		return r.s.fs.Truncate(l.name, l.size)
	}
	// Last log first: what follows a tail must not remain without it.
	for _, i := range slices.Backward(r.behind) {
		if _, err := r.cutOff(r.logs[i], headerSize, r.logs[i].size, "the part before it was cut off"); err != nil {
			return err
		}
		r.logs[i].size = headerSize
	}
	if r.tailEnd == r.tail.off {
		return r.s.fs.Truncate(l.name, l.size)
	}
	var err error
	r.CutFile, r.CutAt, r.CutBytes = l.name, r.tail.off, r.tailEnd-r.tail.off
	r.CutAside, err = r.cutOff(l, r.tail.off, r.tailEnd, r.tail.reason)
	return err
}

// cutOff cuts a log off at an offset. It keeps a copy of the bytes from there up to end, and returns its
// path.
func (r *recovery) cutOff(l *reader, off, end int64, reason string) (aside string, err error) {
	s := r.s
	aside = filepath.Join(s.o.Dir, fmt.Sprintf("cut-%s-%d", filepath.Base(l.name), off))
	if err := copyRange(s.fs, l.f, off, end, aside); err != nil {
		return "", err
	}
	if err := s.fs.SyncDir(s.o.Dir); err != nil {
		return "", err
	}
	if err := s.fs.Truncate(l.name, off); err != nil {
		return "", err
	}
	s.log.Warn("the log ends in the middle of a write, which is cut off", "file", l.name, "offset", off, "bytes", end-off, "reason", reason, "copy", aside)
	return aside, nil
}

// copyRange copies part of a file to a new file and syncs it. The new file's name is not durable yet.
func copyRange(fsys disk.FS, from disk.File, off, end int64, name string) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var buf []byte
	for at := off; at < end; at += int64(len(buf)) {
		buf = grow(buf, min(chunkBytes, end-at))
		if err := disk.ReadFull(from, buf, at); err != nil {
			return err
		}
		if _, err := f.WriteAt(buf, at-off); err != nil {
			return err
		}
	}
	return f.Sync()
}
