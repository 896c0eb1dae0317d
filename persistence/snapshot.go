package persistence

import (
	"time"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

// syncStretch is how many bytes of a base are synced at once: see disk.Stretch.
const syncStretch = 4 << 20

// blockPause is the pause after each block. It is several times as long as making the block takes.
const blockPause = time.Millisecond

// How a snapshot is made, which also compacts the log:
//
//  1. Make a new log, and a MANIFEST that names it after the others.
//  2. The writer moves to the new log, and the log before is synced. The parts
//     have seen everything that is in the older logs by then.
//  3. Copy the parts, a stretch at a time under one of their locks, into a new
//     base: each key as it is at some moment after step 2.
//  4. Sync the base and rename it; sync the log, so that it contains every
//     change that the copies have seen. Replaying it over the base then cannot
//     end at an older state than the base's.
//  5. Replace the MANIFEST by one that names only the base and the new log.
//  6. Remove the files that the MANIFEST no longer names.
//
// A crash at any point leaves a MANIFEST whose files all exist. After an error
// no file is removed that the MANIFEST on disk may name.

// Snapshot writes everything that the parts have to a base, and drops the logs before it.
// Errors: ErrBusy, ErrClosed, ErrFailed, and those of the file system.
func (s *Store) Snapshot() error {
	if !s.files.TryLock() {
		return ErrBusy
	}
	defer s.files.Unlock()
	if s.stopped() {
		return ErrClosed
	}
	if s.Failing() != nil {
		return ErrFailed // rescue writes the base
	}
	return s.counted(func() error {
		next, err := s.rotate()
		if err != nil {
			return err
		}
		return s.rebase(next)
	})
}

// counted makes a snapshot, and notes what came of it.
func (s *Store) counted(snapshot func() error) error {
	s.began(s.o.Now())
	err := snapshot()
	took := s.ended(s.o.Now(), err)
	if err == nil {
		s.log.Info("a snapshot is durable", "bytes", s.baseBytes.Load(), "took", time.Duration(took))
	}
	return err
}

// rebase writes a base and puts it in force, with the log that follows it.
func (s *Store) rebase(next logEntry) error {
	base, err := s.writeBase()
	if err != nil {
		return err
	}
	if err := s.persist(); err != nil {
		return err
	}
	return s.install(base, next)
}

// rotate moves the writer to a new log, unless the current one is empty.
func (s *Store) rotate() (logEntry, error) {
	s.io.Lock()
	if l := s.cur; l != nil && l.empty() {
		defer s.io.Unlock()
		e := s.man.logs[len(s.man.logs)-1]
		e.first = l.first
		return e, nil
	}
	s.io.Unlock()
	next, err := s.newLog()
	if err != nil {
		return logEntry{}, err
	}
	e := logEntry{number: s.number, id: next.id}
	m := *s.man
	m.logs = append(append([]logEntry(nil), m.logs...), e)
	if err := s.writeManifest(&m); err != nil {
		next.Close()
		return logEntry{}, err
	}
	s.man = &m
	first, err := s.switchTo(next)
	if err != nil {
		return logEntry{}, err
	}
	e.first = first
	return e, nil
}

// install makes a base and a log the only files that count, and removes the rest.
func (s *Store) install(base *baseEntry, next logEntry) error {
	m := &manifest{instance: s.man.instance, base: base, logs: []logEntry{next}}
	if err := s.writeManifest(m); err != nil {
		return err
	}
	s.man = m
	s.baseBytes.Store(base.length)
	s.io.Lock()
	left := int64(0)
	if s.cur != nil {
		left = s.cur.End
	}
	s.logBytes.Store(left)
	s.io.Unlock()
	s.removeRest()
	return nil
}

// writeBase copies the parts to a new base, and makes it and its name durable.
func (s *Store) writeBase() (*baseEntry, error) {
	id, err := s.randomID()
	if err != nil {
		return nil, err
	}
	s.number++
	e := &baseEntry{number: s.number, id: id}
	name := s.path(e.name())
	f, err := s.fs.Create(name + tmpSuffix)
	if err != nil {
		return nil, err
	}
	w := newBaseWriter(f, id, s.newStamp)
	err = w.begin(header{instance: s.man.instance, boot: s.boot})
	for i := range s.o.Parts {
		if err == nil {
			_, err = journal.Copy(s.o.Parts[i].Copy, batchHeaderSize, func(b *journal.Buffer) error {
				if s.stopped() {
					return ErrClosed
				}
				defer time.Sleep(blockPause) // leaves a processor to decisions
				return w.block(b)
			})
		}
	}
	if err == nil {
		err = w.finish()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		// If this fails, the next start removes the file.
		_ = s.fs.Remove(name + tmpSuffix)
		return nil, err
	}
	e.length = w.End
	return e, disk.Publish(s.fs, name)
}

// baseWriter writes the batches of a base.
type baseWriter struct {
	disk.Stretch
	id      uint64
	stamp   func() batch
	seq     uint64
	records uint32
	out     journal.Buffer
}

func newBaseWriter(f disk.File, id uint64, stamp func() batch) *baseWriter {
	return &baseWriter{Stretch: disk.Stretch{File: f, Bytes: syncStretch}, id: id, stamp: stamp}
}

// begin writes the file's header.
func (w *baseWriter) begin(h header) error {
	h.kind, h.id = kindBase, w.id
	_, err := w.Write(appendFileHeader(nil, &h))
	return err
}

// block writes records, which are behind room for the header of a batch.
func (w *baseWriter) block(b *journal.Buffer) error {
	if len(b.Bytes)-batchHeaderSize <= batchBytes {
		return w.batch(b)
	}
	for rest := b.Bytes[batchHeaderSize:]; len(rest) > 0; {
		part, behind, err := journal.Split(rest, journal.BlockBytes)
		if err != nil {
			return err
		}
		rest = behind
		w.out.Reset(batchHeaderSize)
		w.out.Add(&part)
		if err := w.batch(&w.out); err != nil {
			return err
		}
	}
	return nil
}

// batch writes one batch, unless it has no records. b holds the records after room for the header.
func (w *baseWriter) batch(b *journal.Buffer) error {
	if b.Records == 0 {
		return nil
	}
	w.records += uint32(b.Records)
	return w.seal(b.Bytes, uint32(b.Records), 0)
}

func (w *baseWriter) seal(b []byte, records, flags uint32) error {
	w.seq++
	h := w.stamp()
	h.length, h.records, h.flags = uint32(len(b)-batchHeaderSize), records, flags
	h.seq, h.synced = w.seq, w.Synced
	seal(b, &h, w.id)
	_, err := w.Write(b)
	return err
}

// finish writes the last batch and makes everything durable.
func (w *baseWriter) finish() error {
	if err := w.seal(make([]byte, batchHeaderSize), w.records, flagEnd); err != nil {
		return err
	}
	return w.Sync()
}
