package persistence

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"limitdb/internal/disk"
)

// Load gives the parts the state in the directory, and begins a new log. If the disk is full, it still gives
// the parts the state, and the store begins as one whose log cannot be written. An error leaves the disk
// unchanged, unless it comes from writing there; either way another process can try Load again. Errors:
// *CorruptError, ErrFormat, and those of the parts and of the file system.
func (s *Store) Load() (Loaded, error) {
	s.files.Lock()
	defer s.files.Unlock()
	r := newRecovery(s)
	defer r.close()
	var full error
	if s.man == nil {
		r.Fresh, r.Clean = true, true
		if err := s.begin(); disk.NoRoom(err) {
			full = err
		} else if err != nil {
			return r.Loaded, err
		}
	}
	if err := r.open(); err != nil {
		return r.Loaded, err
	}
	if err := r.verify(); err != nil {
		return r.Loaded, err
	}
	r.setNow()
	if s.o.Recovering != nil {
		s.o.Recovering(r.Loaded)
	}
	if err := r.load(); err != nil {
		return r.Loaded, err
	}
	for i := range s.o.Parts {
		s.o.Parts[i].Resume(r.version, &s.drains.Gate, s.Dirtied)
	}
	if full == nil {
		full = r.finish()
	}
	if disk.NoRoom(full) {
		return r.Loaded, r.beginFull(full)
	}
	return r.Loaded, full
}

// beginFull begins a run on a full disk: clients can read what was loaded, writers are refused, and a new
// base replaces all files as soon as there is room.
func (r *recovery) beginFull(full error) error {
	s := r.s
	for _, l := range r.logs { // from now on, replies may have seen it
		if err := r.writeAgain(l); err != nil && !disk.NoRoom(err) {
			return err
		}
		if err := l.f.Sync(); err != nil {
			return err
		}
	}
	s.drop()
	s.failure.Store(&failure{full})
	s.failures.Add(1)
	s.log.Error("the disk is full: commands that change something are refused until there is room", "err", full)
	return nil
}

// Read gives the parts the state in the directory, as Load does, and changes nothing on the disk. The parts are not resumed, and the
// store cannot be started: the caller ends it with Retire, Abandon or Release. The errors are those of Load, and ErrNoData if the directory has no state.
func (s *Store) Read() (Loaded, error) {
	s.files.Lock()
	defer s.files.Unlock()
	r := newRecovery(s)
	defer r.close()
	if s.Empty() {
		return r.Loaded, ErrNoData
	}
	if err := r.open(); err != nil {
		return r.Loaded, err
	}
	if err := r.verify(); err != nil {
		return r.Loaded, err
	}
	r.setNow()
	return r.Loaded, r.load()
}

// finish prepares the directory for a run: it cuts off a torn tail and begins a new log, because a recovered
// log is never appended to.
func (r *recovery) finish() error {
	s := r.s
	s.stamp.clock, s.stamp.flush = r.Now, r.flush
	if err := s.removeClean(); err != nil {
		return err
	}
	if err := r.cutTail(); err != nil {
		return err
	}
	m := &manifest{instance: s.man.instance, base: s.man.base}
	total := int64(0)
	for i, e := range s.man.logs {
		if i <= r.written && r.logs[i].size > headerSize { // a log without batches need not be kept
			e.first = r.firsts[i]
			m.logs = append(m.logs, e)
			total += r.logs[i].size
		}
	}
	s.logBytes.Store(total)
	if m.base != nil {
		s.baseBytes.Store(m.base.length)
	}
	next, err := s.newLog()
	if err != nil {
		return err
	}
	next.seq, next.first, next.flags = r.seq, r.seq, flagNamed|flagVouches
	s.cur = next
	m.logs = append(m.logs, logEntry{s.number, next.id, next.seq})
	s.logBytes.Add(headerSize)
	if err := s.writeManifest(m); err != nil {
		return err
	}
	s.man = m
	s.removeRest()
	// Replace the files with the old times by a snapshot.
	s.forced.Store(s.o.WallClock && r.last.clock > r.Now)
	return nil
}

// cutTail keeps a copy of a torn tail and cuts the tail off. Without a torn tail it cuts off zeros only, and
// syncs what the last process may have written and not synced: from now on, replies may have seen it.
func (r *recovery) cutTail() error {
	if r.written < 0 {
		return nil
	}
	for i := max(0, r.voucher); i <= r.written; i++ {
		if err := r.writeAgain(r.logs[i]); err != nil {
			return err
		}
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

// writeAgain writes what may not be durable of a log over itself. If a sync has failed, the kernel counts the bytes as written: it shows them
// until the machine stops, and no later sync tries to write them. It does nothing if a sync has covered all, or the machine has restarted since.
func (r *recovery) writeAgain(l *reader) error {
	if r.Clean || l.boot != r.s.boot {
		return nil
	}
	from := max(headerSize, l.synced)
	if from >= l.size {
		return nil
	}
	f, err := r.s.fs.Edit(l.name)
	if err != nil {
		return err
	}
	var buf []byte
	for ; from < l.size && err == nil; from += int64(len(buf)) {
		buf = grow(buf, min(chunkBytes, l.size-from))
		if err = disk.ReadFull(l.f, buf, from); err == nil {
			_, err = f.WriteAt(buf, from)
		}
	}
	return errors.Join(err, f.Close())
}

// cutOff cuts a log off at an offset. It keeps a copy of the bytes from there up to end, and returns its
// path.
func (r *recovery) cutOff(l *reader, off, end int64, reason string) (aside string, err error) {
	s := r.s
	aside = s.path(fmt.Sprintf("cut-%s-%d", filepath.Base(l.name), off))
	if err := copyRange(s.fs, l.f, off, end, aside); err != nil {
		return "", err
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
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
