package persistence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"limitdb/internal/clock"
	"limitdb/internal/disk"
)

// Loaded is the result of Load.
type Loaded struct {
	// Now is the time from which decisions continue, in Unix ns. It is not before any earlier decision, unless
	// Options.WallClock is set. The clock must not be behind it.
	Now int64
	// Clean reports that the last run made everything durable before it ended, or that there was none.
	Clean bool
	// Fresh reports that the directory was empty.
	Fresh bool
	// Sets, Deletes and Expired count the records that set or change a state (even if a later record replaces it), that
	// deleted a key, and whose state had expired. Bytes is how much was read.
	Sets, Deletes, Expired uint64
	Bytes                  int64
	// CutFile, CutAt and CutBytes describe a torn tail that was cut off, without the zeros at its end.
	// CutAside is the path of a copy of it. They are empty if there was none.
	CutFile  string
	CutAt    int64
	CutBytes int64
	CutAside string
}

// leastRecord is below the size of any record of a state, in bytes.
const leastRecord = 8

// recovery is what Load gathers on its way.
type recovery struct {
	Loaded
	s    *Store
	base *reader // nil if there is none
	logs []*reader
	// last is the header of the newest batch of all. lastBoot names the machine's start that its boot time
	// counts from.
	last     batch
	lastBoot uint64
	flush    uint64 // the highest version of a Flush
	// seq is the sequence number of the next batch; firsts has that of each log's first batch.
	seq    uint64
	firsts []uint64
	// clean is the content of CLEAN; nil if it is missing or damaged.
	clean *clean
	// tail is the place where the last log with batches ends before its file does.
	tail *badBatch
	// tailEnd is where the zeros after the tail begin.
	tailEnd int64
	// behind has the indices of later logs that are not empty. They are cut off with the tail.
	behind []int
	// written is the index of the last log that has batches that count, or −1. voucher is the index of the
	// last log that says that all earlier logs are durable.
	written, voucher int
	// stale: the MANIFEST is older than a log.
	stale bool
	// group has the headers of an incomplete group, which begins at groupAt.
	group   []batch
	groupAt int64
	// expected is how many records, and so how many keys, the base has.
	expected int64
	// version is the highest version of all records.
	version uint64
}

// Load gives the parts the state in the directory, and begins a new log. If the disk is full, it still gives
// the parts the state, and the store begins as one whose log cannot be written. An error leaves the disk
// unchanged, unless it comes from writing there; either way another process can try Load again. Errors:
// *CorruptError, ErrFormat, and those of the parts and of the file system.
func (s *Store) Load() (Loaded, error) {
	s.files.Lock()
	defer s.files.Unlock()
	r := &recovery{s: s, written: -1, seq: 1}
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
		s.o.Parts[i].Resume(r.version, &s.gate, s.Dirtied)
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
		if err := l.f.Sync(); err != nil {
			return err
		}
	}
	if s.cur != nil {
		s.cur.Close() // no MANIFEST names it
		s.cur = nil
	}
	s.failure.Store(&failure{full})
	s.counters.failures.Add(1)
	s.log.Error("the disk is full: commands that change something are refused until there is room", "err", full)
	return nil
}

// begin writes the first MANIFEST of a directory, which names no files. If there are files and no MANIFEST
// later, it was lost.
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

// open opens all files that count and checks that they are the right ones.
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
	b, err := disk.ReadFile(s.fs, filepath.Join(s.o.Dir, cleanName), disk.Small)
	if err == nil {
		// If it cannot be read, the last run did not end cleanly.
		if c, err := parseClean(b); err == nil && c.instance == s.man.instance {
			r.clean = &c
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// foreign examines the files that the MANIFEST does not name.
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

// stranger judges a file that has a valid header and that the MANIFEST does not name. A leftover is fine and
// is removed in the end. A file of another directory, or a log that a later MANIFEST has named, is an error.
func (r *recovery) stranger(f *reader, number uint64) error {
	m := r.s.man
	if f.instance != m.instance {
		return &CorruptError{f.name, 0, "the file belongs to another directory: move it away"}
	}
	if f.kind != kindLog || number < m.next() || r.s.dropped {
		return nil
	}
	err := f.each(headerSize, func(_ int64, h *batch) bool {
		r.stale = h.flags&flagNamed != 0
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

// note keeps the flush, the clock and the boot time of a batch.
func (r *recovery) note(h *batch, boot uint64) {
	r.flush = max(r.flush, h.flush)
	if h.clock >= r.last.clock {
		r.last, r.lastBoot = *h, boot
	}
}

// setNow sets the time from which decisions continue.
func (r *recovery) setNow() {
	s := r.s
	wall := s.o.Now()
	r.Now = wall
	if s.o.WallClock || r.last.clock == 0 {
		return
	}
	r.Now = max(wall, r.last.clock)
	if now, ok := (clock.Mark{Time: r.last.clock, Boot: r.lastBoot, Elapsed: r.last.boot}).Now(s.o.Boot()); ok {
		r.Now = now
	}
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
	m := &manifest{header: s.man.header, base: s.man.base}
	total := int64(0)
	for i, e := range s.man.logs {
		if i <= r.written && r.logs[i].size > headerSize { // a log without batches need not be kept
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
	next.seq, next.first, next.flags = r.seq, r.seq, flagNamed|flagVouches
	s.cur = next
	m.logs = append(m.logs, logEntry{s.number, next.id, next.seq})
	s.counters.logBytes.Add(headerSize)
	if err := s.writeManifest(m); err != nil {
		return err
	}
	s.man = m
	s.removeRest()
	// Replace the files with the old times by a snapshot.
	s.forced.Store(s.o.WallClock && r.last.clock > r.Now)
	return nil
}

// removeClean removes CLEAN, durably, before the store writes anything that CLEAN does not cover.
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
