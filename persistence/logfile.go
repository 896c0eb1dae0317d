package persistence

import (
	"path/filepath"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

// logFile is the log that is being written.
type logFile struct {
	*disk.Appender
	name     string
	instance [16]byte
	id       uint64
	synced   int64 // the offset up to which the file is durable
	// forgotten is the offset up to which the system was told to forget the file; see Store.forget.
	forgotten int64
	seq       uint64 // of the next batch
	first     uint64 // of the first batch
	// marked: the last batch is a mark; see mark.
	marked bool
	// flags are set in each batch: flagNamed and flagVouches.
	flags uint32
	// split is the size of the payload, in bytes, at which a batch is closed.
	split int
	out   journal.Buffer
}

// createLog makes an empty log, durably.
func createLog(fs disk.FS, dir string, e logEntry, h *header) (*logFile, error) {
	h.kind, h.id = kindLog, e.id
	name := filepath.Join(dir, e.name())
	f, err := disk.CreateAppender(fs, name, appendFileHeader(nil, h))
	if err != nil {
		return nil, err
	}
	return &logFile{Appender: f, name: name, instance: h.instance, id: e.id, synced: headerSize, split: batchBytes}, nil
}

// add writes records as one batch or, if they are too large, as several batches of one group. more means
// that the group continues with the next call. b holds the records after room for a batch header. stamp has
// the times of the batches; add keeps its flush up to date and fills in the other fields. zeros are what to
// write ahead of small batches; empty means nothing.
func (l *logFile) add(b *journal.Buffer, stamp *batch, zeros []byte, more bool) error {
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
	if err := l.Append(b.Bytes, zeros); err != nil {
		return err
	}
	l.seq++
	l.marked = false
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
	return l.End == headerSize || l.marked && l.End == headerSize+batchHeaderSize
}

// mark writes an empty batch. It shows that everything before it is durable, so that damage to it is not
// mistaken for a torn tail. It also saves the time.
func (l *logFile) mark(stamp *batch, zeros []byte) error {
	err := l.appendBatch(&journal.Buffer{Bytes: make([]byte, batchHeaderSize)}, stamp, zeros, 0)
	l.marked = err == nil
	return err
}
