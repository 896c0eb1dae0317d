package persistence

import (
	"fmt"
	"hash/crc32"
	"path/filepath"

	"limitdb/internal/journal"
)

// Zeros ahead. A sync after which a file is longer than before has the file system write its
// sizes and blocks as well, which takes twice as long as the data alone. So under Always, where every
// batch has a sync and small ones are frequent, the log is made longer in steps, with zeros, and
// batches are written over them:
//
//	┌────────┬───────┬───────┬───────┬─────────────────────────┐
//	│ header │ batch │ batch │ batch │ 0 0 0 0 …               │
//	└────────┴───────┴───────┴───────┴─────────────────────────┘
//	                                 end                       length
//
// Where a batch would be next and there are zeros up to the file's end, the log ends (reader.ends). The zeros
// are never cut off by the one who writes: that would be one more thing that can fail.
//
// Rejected: fallocate. The first write to a block that it has set aside changes the file's
// metadata, too.
const (
	// aheadBytes is how far the zeros reach.
	aheadBytes = 256 << 10
	// aheadBelow is the size from which a batch is simply appended: it pays for its sync by itself.
	aheadBelow = 32 << 10
)

// logFile is the log that is being written.
type logFile struct {
	f      File
	name   string
	id     uint64
	end    int64 // of the last batch
	length int64 // of the file: what is beyond end are zeros
	synced int64 // up to which it is durable
	// forgotten is up to which it has been given up to the disk, see Store.forget.
	forgotten int64
	seq       uint64 // of the next batch
	first     uint64 // of the first one
	// cramped: there was no room for zeros ahead, and batches are simply appended.
	cramped bool
	// marked: the last batch is a mark, see mark.
	marked bool
	// flags are those of each batch: flagNamed and flagSettled.
	flags uint32
	// split is the size of payload at which a batch is closed.
	split int
	out   journal.Buffer
}

// createLog makes an empty log and makes its header durable.
func createLog(fs FS, dir string, e logEntry, h *header) (*logFile, error) {
	h.kind, h.id = kindLog, e.id
	name := filepath.Join(dir, e.name())
	f, err := fs.Create(name)
	if err != nil {
		return nil, err
	}
	if err := writeAll(f, appendFileHeader(nil, h), 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return nil, fmt.Errorf("syncing %s: %w", name, err)
	}
	if err := fs.SyncDir(dir); err != nil {
		f.Close()
		return nil, err
	}
	return &logFile{f: f, name: name, id: e.id, end: headerSize, length: headerSize, synced: headerSize, split: batchBytes}, nil
}

// writeAll writes b at an offset; fewer bytes than that are an error.
func writeAll(f File, b []byte, off int64) error {
	n, err := f.WriteAt(b, off)
	if err == nil && n < len(b) {
		err = errShort
	}
	return err
}

var errShort = fmt.Errorf("short write")

// append writes records, which stand in b after room for a batch header, as
// one batch, or as a group of several. stamp has the times of the batches; its other fields
// but flush are filled in, and flush is kept up to date. zeros are what is
// written ahead of small batches, none for nothing.
func (l *logFile) append(b *journal.Buffer, stamp *batch, zeros []byte) error {
	if len(b.Bytes)-batchHeaderSize <= l.split {
		return l.appendBatch(b, stamp, zeros, 0)
	}
	for rest := b.Bytes[batchHeaderSize:]; len(rest) > 0; {
		var err error
		if rest, err = prefix(rest, l.split, &l.out); err != nil {
			return err
		}
		flags := uint32(0)
		if len(rest) > 0 {
			flags = flagMore
		}
		if err := l.appendBatch(&l.out, stamp, nil, flags); err != nil {
			return err
		}
	}
	l.out = journal.Buffer{}
	return nil
}

// prefix makes a batch in out, with room for its header, of the records at the start of b
// that fit into limit bytes, one at the least, and returns the others.
func prefix(b []byte, limit int, out *journal.Buffer) (rest []byte, err error) {
	out.Reset(batchHeaderSize)
	n := 0
	for n < len(b) {
		r, rest, err := journal.Parse(b[n:])
		if err != nil {
			return nil, err
		}
		if size := len(b) - n - len(rest); n > 0 && n+size > limit {
			break
		}
		n = len(b) - len(rest)
		out.Records++
		if r.Op == journal.Flush {
			out.Flushed = max(out.Flushed, r.Version)
		}
	}
	out.Bytes = append(out.Bytes, b[:n]...)
	return b[n:], nil
}

// appendBatch writes one batch: records, after room for its header.
func (l *logFile) appendBatch(b *journal.Buffer, stamp *batch, zeros []byte, flags uint32) error {
	stamp.flush = max(stamp.flush, b.Flushed)
	h := *stamp
	h.flags = l.flags | flags
	h.length, h.records = uint32(len(b.Bytes)-batchHeaderSize), uint32(b.Records)
	h.seq, h.synced = l.seq, l.synced
	seal(b.Bytes, &h, l.id)
	if err := l.write(b.Bytes, zeros); err != nil {
		return fmt.Errorf("writing %s: %w", l.name, err)
	}
	l.seq++
	l.marked = b.Records == 0
	return nil
}

// write writes a batch behind the one before, over zeros if that pays.
func (l *logFile) write(b, zeros []byte) error {
	end := l.end + int64(len(b))
	if end > l.length && len(b) < aheadBelow && len(zeros) > 0 && !l.cramped {
		switch err := writeAll(l.f, zeros, l.length); {
		case err == nil:
			l.length += int64(len(zeros))
		case !noRoom(err):
			return err
		default: // the batch itself may still have room
			l.cramped = true
		}
	}
	if err := writeAll(l.f, b, l.end); err != nil {
		return err
	}
	l.end, l.length = end, max(l.length, end)
	return nil
}

// seal puts the header of a batch before its payload.
func seal(buf []byte, h *batch, id uint64) {
	seed := seedOf(id)
	h.crc = crc32.Update(seed, crcTable(), buf[batchHeaderSize:])
	h.appendTo(buf[:0], seed)
}

// empty reports whether the log has no records.
func (l *logFile) empty() bool {
	return l.end == headerSize || l.marked && l.end == headerSize+batchHeaderSize
}

// mark writes an empty batch, which says that all before it is durable: from
// then on, damage to it cannot pass for a torn tail. It also keeps the clock.
func (l *logFile) mark(stamp *batch, zeros []byte) error {
	return l.appendBatch(&journal.Buffer{Bytes: make([]byte, batchHeaderSize)}, stamp, zeros, 0)
}
