package persistence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// Loaded says what Load has found.
type Loaded struct {
	// Now is the time from which decisions go on, in Unix ns: not before any
	// that was made. The clock must not be behind it.
	Now int64
	// Clean tells that the last run had made everything durable when it ended,
	// or that there was none.
	Clean bool
	// Fresh tells that the directory was empty.
	Fresh bool
	// Sets, Deletes and Expired count records: states that were set (those
	// that others took the place of among them), keys forgotten, and states that
	// had expired meanwhile. Bytes is how much was read.
	Sets, Deletes, Expired uint64
	Bytes                  int64
	// CutFile, CutAt and CutBytes tell of a torn tail that was cut off, without the zeros that it ends in,
	// and CutAside where a copy of it is; empty for none.
	CutFile  string
	CutAt    int64
	CutBytes int64
	CutAside string
}

// readManifest reads MANIFEST, if there is one, or sees that nothing is there.
func (s *Store) readManifest() error {
	m, err := parseManifestFile(s.fs, filepath.Join(s.o.Dir, manifestName))
	if !errors.Is(err, fs.ErrNotExist) {
		s.man = m
		return err
	}
	m, err = parseManifestFile(s.fs, filepath.Join(s.o.Dir, retiredName))
	if err == nil {
		s.log.Warn("the log was turned off while the server ran: what the directory has is older than what clients were told, and is dropped", "dir", s.o.Dir)
		s.man = &manifest{header: m.header} // its files are left over
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names, err := s.fs.List(s.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if _, _, data := fileNumber(name); data {
			return fmt.Errorf("%w (%s)", ErrNoManifest, filepath.Join(s.o.Dir, name))
		}
	}
	return nil
}

// parseManifestFile reads a MANIFEST. Errors: fs.ErrNotExist, ErrFormat, *CorruptError, those of the file system.
func parseManifestFile(fsys FS, name string) (*manifest, error) {
	b, err := readFile(fsys, name)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(b)
	switch {
	case errors.Is(err, ErrFormat):
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
	case err != nil:
		return nil, &CorruptError{name, 0, err.Error()}
	}
	return m, nil
}

// readFile reads a small file, at most 4 MB of it.
func readFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size, 4<<20))
	_, err = readAt(f, b, 0)
	return b, err
}

// leastRecord is less than what any record of a state has, in bytes.
const leastRecord = 8

// recovery is what Load gathers on its way.
type recovery struct {
	Loaded
	s    *Store
	base *reader // nil for none
	logs []*reader
	// last is the newest batch header of all, and lastBoot the id that its boot time belongs to.
	last     batch
	lastBoot uint64
	flush    uint64 // the highest version of a Flush
	// seq is the next batch's; firsts are those of the logs' first ones.
	seq    uint64
	firsts []uint64
	// clean is CLEAN, nil without one that can be read.
	clean *clean
	// tail is where the last log that has batches ends before its file does.
	tail *badBatch
	// tailEnd is where the zeros behind the tail begin.
	tailEnd int64
	// written is the index of the last log that has batches, -1 for none.
	written int
	// expected is how many records the base has, which are as many keys.
	expected int64
	// version is the highest of all.
	version uint64
}

// Load gives the parts what the directory has, and begins a new log. An error
// changes nothing on the disk but, if it comes from writing there, what had
// been done until then, and Load can be tried again by another process.
// Errors: *CorruptError, ErrFormat, those of the parts and of the file system.
func (s *Store) Load() (Loaded, error) {
	s.files.Lock()
	defer s.files.Unlock()
	r := &recovery{s: s, written: -1, seq: 1}
	defer r.close()
	if s.man == nil {
		r.Fresh, r.Clean = true, true
		if err := s.begin(); err != nil {
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
		s.o.Parts[i].Resume(r.version, s.Dirtied)
	}
	return r.Loaded, r.finish()
}

// begin writes the first MANIFEST of a directory, which names no files: from
// then on, files without one mean that it was lost.
func (s *Store) begin() error {
	s.man = &manifest{}
	if _, err := io.ReadFull(s.o.Entropy, s.man.instance[:]); err != nil {
		return fmt.Errorf("making an id: %w", err)
	}
	s.man.instance[6] = s.man.instance[6]&0x0f | 0x40 // a UUID of version 4
	s.man.instance[8] = s.man.instance[8]&0x3f | 0x80
	return s.writeManifest(s.man)
}

func (r *recovery) close() {
	if r.base != nil {
		r.base.f.Close()
	}
	for _, l := range r.logs {
		l.f.Close()
	}
}

// open opens all files that count and makes sure that they are what they should be.
func (r *recovery) open() error {
	s := r.s
	s.boot, _ = s.o.Boot()
	s.number = s.man.next() - 1
	if err := r.foreign(); err != nil {
		return err
	}
	if e := s.man.base; e != nil {
		f, err := r.openFile(e.name(), kindBase, e.id)
		if err != nil {
			return err
		}
		if f.size != e.length {
			f.f.Close()
			return &CorruptError{f.name, min(f.size, e.length), fmt.Sprintf("it has %d bytes, not %d", f.size, e.length)}
		}
		r.base = f
		r.base.seq = 1
	}
	for _, e := range s.man.logs {
		f, err := r.openFile(e.name(), kindLog, e.id)
		if err != nil {
			return err
		}
		r.logs = append(r.logs, f)
	}
	b, err := readFile(s.fs, filepath.Join(s.o.Dir, cleanName))
	if err == nil {
		// One that cannot be read counts as none: then the end was not clean.
		if c, err := parseClean(b); err == nil && c.instance == s.man.instance {
			r.clean = &c
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// foreign looks for files that no MANIFEST of this directory has named.
func (r *recovery) foreign() error {
	s := r.s
	names, err := s.fs.List(s.o.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		kind, number, data := fileNumber(name)
		if !data {
			continue
		}
		s.number = max(s.number, number)
		if s.man.names(name) {
			continue
		}
		path := filepath.Join(s.o.Dir, name)
		f, err := s.fs.Open(path)
		if err != nil {
			return err
		}
		rd, err := newReader(f, path, kind)
		f.Close()
		if err == nil && rd.instance != s.man.instance {
			return &CorruptError{path, 0, "the file belongs to another directory: move it away"}
		}
	}
	return nil
}

func (r *recovery) openFile(name string, kind fileKind, id uint64) (*reader, error) {
	path := filepath.Join(r.s.o.Dir, name)
	f, err := r.s.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &CorruptError{path, 0, "the file is missing"}
	}
	if err != nil {
		return nil, err
	}
	rd, err := newReader(f, path, kind)
	if err == nil && (rd.instance != r.s.man.instance || rd.id != id) {
		err = &CorruptError{path, 0, "it is not the file that the MANIFEST names, but one of another directory or time"}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return rd, nil
}

// verify reads the logs' batches and the base's end: all that must be known
// before the first record is applied.
func (r *recovery) verify() error {
	if r.base != nil {
		if err := r.verifyBase(); err != nil {
			return err
		}
	}
	var c chunk
	for i, l := range r.logs {
		if first := r.s.man.logs[i].first; first != 0 {
			if i > 0 && first != r.seq {
				return &CorruptError{l.name, headerSize, fmt.Sprintf("it begins with batch %d where %d is next", first, r.seq)}
			}
			r.seq = first
		}
		l.seq = r.seq
		r.firsts = append(r.firsts, r.seq)
		bad, err := r.verifyLog(i, l, &c)
		if err != nil {
			return err
		}
		if bad != nil {
			if err := r.torn(i, bad); err != nil {
				return err
			}
		}
		r.seq = l.seq
	}
	return r.verifyClean()
}

// verifyLog reads one log to its end, or to where no batch is next.
func (r *recovery) verifyLog(i int, l *reader, c *chunk) (*badBatch, error) {
	for {
		err := l.read(c)
		for j := range c.pieces {
			if r.tail != nil {
				// Its batches were written after all before them had been synced.
				return nil, r.corrupt(r.logs[r.written], r.tail)
			}
			r.written = i
			r.note(&c.pieces[j].batch, l.boot)
		}
		var bad *badBatch
		switch {
		case err == io.EOF:
			return nil, nil
		case errors.As(err, &bad):
			return bad, nil
		case err != nil:
			return nil, err
		}
	}
}

func (r *recovery) corrupt(l *reader, bad *badBatch) error {
	return &CorruptError{l.name, bad.off, bad.reason}
}

// torn decides whether what is wrong in log i is the tail of a write that a
// crash has cut short.
func (r *recovery) torn(i int, bad *badBatch) error {
	l := r.logs[i]
	if r.tail != nil {
		return r.corrupt(r.logs[r.written], r.tail) // that is the first
	}
	if bad.whole {
		return r.corrupt(l, bad)
	}
	past, err := l.syncedPast(bad.off)
	if err != nil {
		return err
	}
	if past {
		return r.corrupt(l, bad)
	}
	if r.tailEnd, err = l.dataEnd(bad.off); err != nil {
		return err
	}
	r.tail = bad
	r.written = i
	l.size = bad.off
	return nil
}

// verifyBase reads the end of the base.
func (r *recovery) verifyBase() error {
	b := r.base
	at := b.size - batchHeaderSize
	buf := make([]byte, batchHeaderSize)
	if at < headerSize {
		return &CorruptError{b.name, headerSize, "it has no end"}
	}
	if _, err := readAt(b.f, buf, at); err != nil {
		return err
	}
	h, ok := parseBatch(buf, seedOf(b.id))
	if !ok || h.flags != flagEnd || h.length != 0 || h.crc != seedOf(b.id) {
		return &CorruptError{b.name, at, "it has no end"}
	}
	// A count that the file has no room for is not believed.
	r.expected = min(int64(h.records), b.size/leastRecord)
	r.note(&h, b.boot)
	return nil
}

// verifyClean compares the end with what CLEAN says.
func (r *recovery) verifyClean() error {
	c := r.clean
	if c == nil {
		r.Clean = r.Fresh
		return nil
	}
	last := r.base
	if len(r.logs) > 0 {
		// Those that the start of a run has made since are empty.
		for _, l := range r.logs {
			if l.id == c.base || l.size > headerSize {
				last = l
			}
		}
	}
	if last != nil && last.id != c.base || last == nil && c.base != 0 {
		return nil // it is of another time, and says nothing
	}
	if last != nil && (last.size != c.length || r.tail != nil || last.kind == kindLog && last.seq != c.seq+1) {
		return &CorruptError{last.name, min(last.size, c.length), fmt.Sprintf("it was whole when the last run ended, with %d bytes", c.length)}
	}
	r.Clean = true
	r.note(&batch{clock: c.clock, boot: c.boot}, c.header.boot)
	return nil
}

// note keeps what a batch says beside its records.
func (r *recovery) note(h *batch, boot uint64) {
	r.flush = max(r.flush, h.flush)
	if h.clock >= r.last.clock {
		r.last, r.lastBoot = *h, boot
	}
}

// setNow decides at which time decisions go on.
func (r *recovery) setNow() {
	s := r.s
	wall := s.o.Now()
	r.Now = wall
	id, elapsed := s.o.Boot()
	switch mark := r.last.clock; {
	case s.o.WallClock || mark == 0:
	case id != 0 && id == r.lastBoot && elapsed >= r.last.boot:
		// The machine has run on since: its own count of the time is right
		// whatever has been done to the wall clock.
		r.Now = mark + elapsed - r.last.boot
	default:
		r.Now = max(wall, mark)
	}
}

// finish brings the directory to where a run can go on: a torn tail is cut
// off, and a new log begins, because what was recovered is never appended to.
func (r *recovery) finish() error {
	s := r.s
	s.stamp.clock, s.stamp.flush = r.Now, r.flush
	if err := s.removeClean(); err != nil {
		return err
	}
	if err := r.cutTail(); err != nil {
		return err
	}
	m := &manifest{header: s.man.header, base: s.man.base}
	total := int64(0)
	for i, e := range s.man.logs {
		if r.logs[i].size > headerSize { // what has no batch need not be kept
			e.first = r.firsts[i]
			m.logs = append(m.logs, e)
			total += r.logs[i].size
		}
	}
	s.counters.logBytes.Store(total)
	if m.base != nil {
		s.counters.baseBytes.Store(m.base.length)
	}
	next, err := s.newLog()
	if err != nil {
		return err
	}
	next.seq, next.first = r.seq, r.seq
	s.cur = next
	m.logs = append(m.logs, logEntry{s.number, next.id, next.seq})
	s.counters.logBytes.Add(headerSize)
	if err := s.writeManifest(m); err != nil {
		return err
	}
	s.man = m
	s.removeRest()
	// The old marks of the clock must go with the files that hold them.
	s.forced.Store(s.o.WallClock && r.last.clock > r.Now)
	return nil
}

// removeClean removes CLEAN, durably, before anything is written that it does not know.
func (s *Store) removeClean() error {
	err := s.fs.Remove(filepath.Join(s.o.Dir, cleanName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.fs.SyncDir(s.o.Dir)
}

// cutTail keeps a copy of a torn tail aside and cuts it off. Without one, it cuts off zeros
// only, and syncs what may have been written and not synced before the process was
// killed: from now on there may be replies that have seen it.
func (r *recovery) cutTail() error {
	if r.written < 0 {
		return nil
	}
	s, l := r.s, r.logs[r.written]
	if r.tail == nil {
		return s.fs.Truncate(l.name, l.size)
	}
	r.CutFile, r.CutAt, r.CutBytes = l.name, r.tail.off, r.tailEnd-r.tail.off
	aside := fmt.Sprintf("cut-%s-%d", filepath.Base(l.name), r.tail.off)
	r.CutAside = filepath.Join(s.o.Dir, aside)
	if err := copyRange(s.fs, l.f, r.tail.off, r.tailEnd, r.CutAside); err != nil {
		return err
	}
	if err := s.fs.SyncDir(s.o.Dir); err != nil {
		return err
	}
	if err := s.fs.Truncate(l.name, r.tail.off); err != nil {
		return err
	}
	s.log.Warn("the log ended in the middle of a write, which is cut off", "file", l.name, "offset", r.CutAt, "bytes", r.CutBytes, "reason", r.tail.reason, "copy", r.CutAside)
	return nil
}

// copyRange makes a durable file, but for its name, of part of another.
func copyRange(fsys FS, from File, off, end int64, name string) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var buf []byte
	for at := off; at < end; at += int64(len(buf)) {
		buf = grow(buf, min(chunkBytes, end-at))
		if _, err := readAt(from, buf, at); err != nil {
			return err
		}
		if err := writeAll(f, buf, at-off); err != nil {
			return err
		}
	}
	return f.Sync()
}
