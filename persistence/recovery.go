package persistence

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"limitdb/internal/clock"
	"limitdb/internal/disk"
)

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

func newRecovery(s *Store) *recovery { return &recovery{s: s, written: -1, seq: 1} }

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
	var c clean
	switch err := disk.ReadRecord(s.fs, s.path(cleanName), cleanKind, &c); {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, disk.ErrDamaged) || errors.Is(err, disk.ErrNewer):
		return nil // the last run did not end cleanly
	case err != nil:
		return err
	}
	if c.Instance == hex.EncodeToString(s.man.instance[:]) {
		r.clean = &c
	}
	return nil
}

// foreign examines the files that the MANIFEST does not name.
func (r *recovery) foreign() error {
	s := r.s
	names, err := s.fs.List(s.dir)
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
		path := s.path(name)
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
	path := r.s.path(name)
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
