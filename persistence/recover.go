package persistence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
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
		s.log.Warn("the log was turned off while the server ran: the directory's state is older than what clients were told, and is dropped", "dir", s.o.Dir)
		s.man, s.dropped = &manifest{header: m.header}, true // its files are left over
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
	// behind are the indices of later logs that are not empty: they go with the tail.
	behind []int
	// written is the index of the last log that has batches that count, -1 for none; settled is that of the
	// last log before which all are durable.
	written, settled int
	// stale: the MANIFEST is older than a log.
	stale bool
	// group are the headers of a group that has begun, which is at groupAt.
	group   []batch
	groupAt int64
	// expected is how many records the base has, which are as many keys.
	expected int64
	// version is the highest of all.
	version uint64
}

// Load gives the parts what the directory has, and begins a new log. On a disk that is full it does the first, and the
// store begins as one whose log cannot be written. An error
// changes nothing on the disk but, if it comes from writing there, what had
// been done until then, and Load can be tried again by another process.
// Errors: *CorruptError, ErrFormat, those of the parts and of the file system.
func (s *Store) Load() (Loaded, error) {
	s.files.Lock()
	defer s.files.Unlock()
	r := &recovery{s: s, written: -1, seq: 1}
	defer r.close()
	var full error
	if s.man == nil {
		r.Fresh, r.Clean = true, true
		if err := s.begin(); noRoom(err) {
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
		s.o.Parts[i].Resume(r.version, &s.gate, s.Dirtied)
	}
	if full == nil {
		full = r.finish()
	}
	if noRoom(full) {
		return r.Loaded, r.beginFull(full)
	}
	return r.Loaded, full
}

// beginFull begins a run on a disk that is full: what was loaded can be asked for, writers are refused, and
// a new base takes the place of all that was there as soon as there is room.
func (r *recovery) beginFull(full error) error {
	s := r.s
	for _, l := range r.logs { // from now on there may be replies that have seen it
		if err := l.f.Sync(); err != nil {
			return fmt.Errorf("syncing %s: %w", l.name, err)
		}
	}
	if s.cur != nil {
		s.cur.f.Close() // nothing names it
		s.cur = nil
	}
	s.failure.Store(&failure{full})
	s.counters.failures.Add(1)
	s.log.Error("the disk is full: commands that change something are refused until there is room", "err", full)
	return nil
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
	s.instance = s.man.instance
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
		if err != nil {
			f.Close()
			continue // left over from a crash
		}
		err = r.stranger(rd, number)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// stranger judges a file with a good header that the MANIFEST does not name. It may be a leftover, which
// is removed in the end. It may not be of another directory, nor a log that a later MANIFEST has named.
func (r *recovery) stranger(f *reader, number uint64) error {
	m := r.s.man
	if f.instance != m.instance {
		return &CorruptError{f.name, 0, "the file belongs to another directory: move it away"}
	}
	if f.kind != kindLog || number < m.next() || r.s.dropped {
		return nil
	}
	err := f.each(headerSize, func(_ int64, h *batch) bool {
		r.stale = f.version == 1 || h.flags&flagNamed != 0
		return !r.stale
	})
	if err == nil && r.stale {
		err = &CorruptError{f.name, 0, "the MANIFEST is older than this log, which a later MANIFEST names: restore that one"}
	}
	return err
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
		err = &CorruptError{path, 0, "it is not the file that the MANIFEST names: it is from another directory or time"}
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
		if r.tail != nil {
			if err := r.behindTail(i, l); err != nil {
				return err
			}
			continue
		}
		if first := r.s.man.logs[i].first; first != 0 {
			if i > 0 && first != r.seq {
				return &CorruptError{l.name, headerSize, fmt.Sprintf("it begins with batch %d where %d is next", first, r.seq)}
			}
			r.seq = first
		}
		l.seq = r.seq
		lacks, err := r.lacksTail(i, l)
		if err != nil {
			return err
		}
		if lacks {
			continue
		}
		r.firsts = append(r.firsts, r.seq)
		bad, err := r.verifyLog(i, l, &c)
		if err != nil {
			return err
		}
		if bad != nil || len(r.group) > 0 {
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
			r.next(i, l, &c.pieces[j])
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

// next takes note of a batch of log i, once its group is whole.
func (r *recovery) next(i int, l *reader, p *piece) {
	if len(r.group) == 0 {
		r.groupAt = p.off
	}
	r.group = append(r.group, p.batch)
	if l.version == 1 || p.flags&flagSettled != 0 {
		r.settled = i
	}
	if p.flags&flagMore != 0 {
		return
	}
	r.written = i
	for j := range r.group {
		r.note(&r.group[j], l.boot)
	}
	r.group = r.group[:0]
}

// torn decides whether log i ends in a write, or a group of them, that a crash has cut short. bad is where
// no batch is next, nil for the end of the file in the middle of a group.
func (r *recovery) torn(i int, bad *badBatch) error {
	l := r.logs[i]
	if bad == nil {
		bad = &badBatch{off: l.size, reason: "a group of batches that is not whole"}
	}
	if bad.whole {
		return r.corrupt(l, bad)
	}
	t, err := l.behind(bad.off+1, bad.off)
	if err != nil {
		return err
	}
	if t.past || t.any && r.sameBoot(l) {
		return r.corrupt(l, bad)
	}
	if len(r.group) > 0 {
		bad = &badBatch{off: r.groupAt, reason: bad.reason}
		l.seq = r.group[0].seq
		r.group = nil
	}
	if r.tailEnd, err = l.dataEnd(bad.off); err != nil {
		return err
	}
	r.tail = bad
	r.written = i
	l.size = bad.off
	return nil
}

// sameBoot reports whether the machine has run on since a log was made. What was written to it is there
// then, synced or not, but for the end of a write that a kill has cut short.
func (r *recovery) sameBoot(l *reader) bool { return l.boot != 0 && l.boot == r.s.boot }

// lacksTail reports whether log i, whose first batch would have the sequence r.seq, goes on behind batches that a
// crash has left nothing of: the tail of the log before is torn at its end.
func (r *recovery) lacksTail(i int, l *reader) (bool, error) {
	if i == 0 {
		return false, nil
	}
	_, first, found, err := l.after(headerSize)
	if err != nil || !found || first.seq == r.seq {
		return false, err
	}
	t, err := l.behind(headerSize, l.size)
	if err != nil || t.settled || r.sameBoot(l) {
		return false, err
	}
	before := r.logs[i-1]
	r.tail = &badBatch{off: before.size, reason: "batches before those of the next log are missing"}
	r.tailEnd, r.written = before.size, i-1
	return true, r.behindTail(i, l)
}

// behindTail looks at a log after one that has a torn tail. Its batches may have been written before
// the tail was durable. Then they go with it; else the tail is none.
func (r *recovery) behindTail(i int, l *reader) error {
	t, err := l.behind(headerSize, l.size)
	if err != nil {
		return err
	}
	if l.size, err = l.dataEnd(headerSize); err != nil {
		return err
	}
	if t.settled || l.size > headerSize && r.sameBoot(l) {
		return r.corrupt(r.logs[r.written], r.tail)
	}
	if l.size > headerSize {
		r.behind = append(r.behind, i)
	}
	r.firsts = append(r.firsts, 0)
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
		// Those that the start of a run has made since are empty, but for a torn tail's.
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
		if i <= r.written && r.logs[i].size > headerSize { // what has no batch need not be kept
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
	next.seq, next.first, next.flags = r.seq, r.seq, flagNamed|flagSettled
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
	for i := max(0, r.settled); i < r.written; i++ {
		if err := r.s.fs.Truncate(r.logs[i].name, r.logs[i].size); err != nil {
			return err
		}
	}
	l := r.logs[r.written]
	if r.tail == nil {
		return r.s.fs.Truncate(l.name, l.size)
	}
	// The last first: what is behind a tail must not be there without it.
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

// cutOff cuts a log off at an offset and keeps a copy, which it returns the name of, of what was there up to end.
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
