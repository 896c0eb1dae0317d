package persistence

import (
	"path/filepath"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

// Zeros ahead. After a sync that makes a file longer, the file system must also write its size and blocks,
// which takes twice as long as the data alone. Under Always every batch is synced, and small batches are
// frequent. So the store lengthens the log in steps, with zeros, and writes batches over them:
//
//	┌────────┬───────┬───────┬───────┬─────────────────────────┐
//	│ header │ batch │ batch │ batch │ 0 0 0 0 …               │
//	└────────┴───────┴───────┴───────┴─────────────────────────┘
//	                                 end                       length
//
// The log ends where the next batch would begin, if only zeros follow up to the end of the file
// (reader.ends). The writer never cuts the zeros off: that would be one more operation that can fail.
//
// Rejected: fallocate. The first write to a block that it has reserved changes the file's metadata, too.
const (
	// aheadBytes is how many zeros are written ahead, in bytes.
	aheadBytes = 256 << 10
	// aheadBelow is the size of a batch, in bytes, from which zeros do not pay: the batch is appended.
	aheadBelow = 32 << 10
)

// logFile is the log that is being written.
type logFile struct {
	f      disk.File
	name   string
	id     uint64
	end    int64 // where the last batch ends
	length int64 // of the file; the bytes beyond end are zeros
	synced int64 // the offset up to which the file is durable
	// forgotten is the offset up to which the system was told to forget the file; see Store.forget.
	forgotten int64
	seq       uint64 // of the next batch
	first     uint64 // of the first batch
	// cramped: there was no room for zeros, so batches are appended.
	cramped bool
	// marked: the last batch is a mark; see mark.
	marked bool
	// flags are set in each batch: flagNamed and flagVouches.
	flags uint32
	// split is the size of the payload, in bytes, at which a batch is closed.
	split int
	out   journal.Buffer
}

// createLog makes an empty log with a durable header.
func createLog(fs disk.FS, dir string, e logEntry, h *header) (*logFile, error) {
	h.kind, h.id = kindLog, e.id
	name := filepath.Join(dir, e.name())
	f, err := fs.Create(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(appendFileHeader(nil, h), 0); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return nil, err
	}
	if err := fs.SyncDir(dir); err != nil {
		f.Close()
		return nil, err
	}
	return &logFile{f: f, name: name, id: e.id, end: headerSize, length: headerSize, synced: headerSize, split: batchBytes}, nil
}

// append writes records as one batch or, if they are too large, as several batches of one group. more means
// that the group continues with the next call. b holds the records after room for a batch header. stamp has
// the times of the batches; append keeps its flush up to date and fills in the other fields. zeros are what to
// write ahead of small batches; empty means nothing.
func (l *logFile) append(b *journal.Buffer, stamp *batch, zeros []byte, more bool) error {
	if len(b.Bytes)-batchHeaderSize <= l.split {
		return l.appendBatch(b, stamp, zeros, groupFlags(more))
	}
	for rest := b.Bytes[batchHeaderSize:]; len(rest) > 0; {
		part, behind, err := journal.Split(rest, l.split)
		if err != nil {
			return err
		}
		rest = behind
		l.out.Reset(batchHeaderSize)
		l.out.Add(&part)
		if err := l.appendBatch(&l.out, stamp, nil, groupFlags(more || len(rest) > 0)); err != nil {
			return err
		}
	}
	l.out = journal.Buffer{}
	return nil
}

// groupFlags returns the flags of a batch; more means that the group continues after it.
func groupFlags(more bool) (flags uint32) {
	if more {
		flags = flagMore
	}
	return flags
}

// appendBatch writes one batch. b holds its records after room for the header.
func (l *logFile) appendBatch(b *journal.Buffer, stamp *batch, zeros []byte, flags uint32) error {
	stamp.flush = max(stamp.flush, b.Flushed)
	h := *stamp
	h.flags = l.flags | flags
	h.length, h.records = uint32(len(b.Bytes)-batchHeaderSize), uint32(b.Records)
	h.seq, h.synced = l.seq, l.synced
	seal(b.Bytes, &h, l.id)
	if err := l.write(b.Bytes, zeros); err != nil {
		return err
	}
	l.seq++
	l.marked = false
	return nil
}

// write writes a batch after the last one, over zeros if that pays.
func (l *logFile) write(b, zeros []byte) error {
	end := l.end + int64(len(b))
	if end > l.length && len(b) < aheadBelow && len(zeros) > 0 && !l.cramped {
		switch _, err := l.f.WriteAt(zeros, l.length); {
		case err == nil:
			l.length += int64(len(zeros))
		case !noRoom(err):
			return err
		default: // there may be room for the batch itself
			l.cramped = true
		}
	}
	if _, err := l.f.WriteAt(b, l.end); err != nil {
		return err
	}
	l.end, l.length = end, max(l.length, end)
	return nil
}

// seal writes the header of a batch in front of its payload.
func seal(buf []byte, h *batch, id uint64) {
	seed := seedOf(id)
	h.crc = disk.Sum(seed, buf[batchHeaderSize:])
	h.appendTo(buf[:0], seed)
}

// empty reports whether the log has no records.
func (l *logFile) empty() bool {
	return l.end == headerSize || l.marked && l.end == headerSize+batchHeaderSize
}

// mark writes an empty batch. It shows that everything before it is durable, so that damage to it is not
// mistaken for a torn tail. It also saves the time.
func (l *logFile) mark(stamp *batch, zeros []byte) error {
	err := l.appendBatch(&journal.Buffer{Bytes: make([]byte, batchHeaderSize)}, stamp, zeros, 0)
	l.marked = err == nil
	return err
}
