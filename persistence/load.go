package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"limitdb/internal/journal"
)

// loader hands records to the parts. One goroutine reads and checks the batches of the base and then of the
// logs, and gives each to all workers. Each worker parses every batch, and has the parts apply the records
// whose keys are in its share:
//
//	             ┌► worker 0 ─► Part.Apply(records, 0, 2) ─► one half of the keys
//	base, logs ──┤
//	             └► worker 1 ─► Part.Apply(records, 1, 2) ─► the other half
//
// So the changes of a key are applied in order, no two workers touch the same memory, and the reader reads
// ahead. The last record of a key wins, without a table of versions, because a log that follows a base
// contains every change that the base has seen (see snapshot.go).
//
// A Flush is not applied where it stands: a drain writes its records shard by shard, so a record before the
// Flush in the file may be newer than the Flush. Instead the workers skip every record that is older than the
// newest Flush of all files.
//
// Rejected: parsing each record in one worker, which passes it to the worker that has the key. Parsing and
// hashing it again costs less.
type loader struct {
	parts []Part
	now   int64
	flush uint64

	done, total int64
	progress    func(done, total int64)

	workers []*worker
	free    chan *chunk

	failed atomic.Bool
	mu     sync.Mutex // guards err
	err    error
}

const (
	// queued is how many chunks may wait for each worker.
	queued = 2
	// together is how many records a part gets in one call.
	together = 512
)

// load applies the base and the logs.
func (r *recovery) load() error {
	ld := &loader{parts: r.s.o.Parts, now: r.Now, flush: r.flush, progress: r.s.o.Progress}
	var files []*reader
	if r.base != nil {
		files = append(files, r.base)
		for i := range ld.parts {
			if err := ld.parts[i].Expect(r.expected); err != nil {
				return err
			}
		}
	}
	for _, l := range r.logs[:r.written+1] {
		l.off, l.seq = headerSize, 0
		files = append(files, l)
	}
	for _, f := range files {
		ld.total += f.size
	}
	err := ld.run(files, max(1, r.s.o.Workers))
	w := ld.workers[0] // any will do: each has seen all records
	r.Sets, r.Deletes, r.Expired, r.Bytes = w.sets, w.deletes, w.expired, ld.done
	r.version = max(w.version, r.flush)
	if err != nil || len(files) == 0 {
		return err
	}
	for _, f := range files {
		if f.kind == kindLog && f.base == 0 {
			// A log that was turned on while the server ran has only changes until its first base, and a repaired
			// copy lacks what could not be read.
			return nil
		}
	}
	for i := range ld.parts {
		if missed := ld.parts[i].Missed; missed != nil {
			if key, ok := missed(); ok {
				last := files[len(files)-1]
				return &CorruptError{last.name, last.off, fmt.Sprintf("before this, a record changes a state of the key %.200q that is not there", key)}
			}
		}
	}
	return nil
}

// run applies files, one after the other.
func (ld *loader) run(files []*reader, workers int) error {
	ld.free = make(chan *chunk, queued+2)
	for range cap(ld.free) {
		ld.free <- &chunk{}
	}
	var wg sync.WaitGroup
	for i := range workers {
		w := &worker{ld: ld, share: i, feed: make(chan *chunk, queued), batch: make([]journal.Record, 0, together)}
		ld.workers = append(ld.workers, w)
		wg.Go(w.run)
	}
	var err error
	for _, f := range files {
		if err = ld.feed(f); err != nil {
			break
		}
	}
	for _, w := range ld.workers {
		close(w.feed)
	}
	wg.Wait()
	return errors.Join(err, ld.err)
}

// feed reads one file and passes its chunks to the workers.
func (ld *loader) feed(f *reader) error {
	for !ld.failed.Load() {
		c := <-ld.free
		before := f.off
		err := f.read(c)
		c.log, c.name = f.kind == kindLog, f.name
		var bad *badBatch
		switch {
		case err == io.EOF:
			ld.free <- c
			return nil
		case errors.As(err, &bad):
			return &CorruptError{f.name, bad.off, bad.reason}
		case err != nil:
			return err
		}
		c.left.Store(int32(len(ld.workers)))
		for _, w := range ld.workers {
			w.feed <- c
		}
		ld.done += f.off - before
		if ld.progress != nil {
			ld.progress(ld.done, ld.total)
		}
	}
	return nil
}

// worker has the parts apply the records of its share.
type worker struct {
	ld    *loader
	share int
	feed  chan *chunk

	batch   []journal.Record // what part will get next
	part    *Part            // nil if batch is empty
	name    string           // the file's
	clamped []byte           // the states of batch that differ from those in the file

	// Counts of all records, whatever share they are in.
	sets, deletes, expired, version uint64
}

func (w *worker) run() {
	for c := range w.feed {
		w.name = c.name
		for i := range c.pieces {
			if w.ld.failed.Load() {
				break
			}
			if err := w.piece(&c.pieces[i], c.log); err != nil {
				w.ld.fail(err)
			}
		}
		if c.left.Add(-1) == 0 {
			w.ld.free <- c
		}
	}
}

func (ld *loader) fail(err error) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	if ld.err == nil {
		ld.err = err
	}
	ld.failed.Store(true)
}

// piece applies the records of one batch of a file.
func (w *worker) piece(p *piece, log bool) error {
	for b := p.payload; len(b) > 0; {
		r, rest, err := journal.Parse(b)
		if errors.Is(err, journal.ErrNewer) {
			return fmt.Errorf("%s: %w (the batch at offset %d)", w.name, ErrFormat, p.off)
		}
		if err != nil {
			return &CorruptError{w.name, p.off, err.Error()}
		}
		b = rest
		if err := w.record(&r, p.clock, log); err != nil {
			return err
		}
	}
	return w.apply()
}

// record adds one record, which was written at clock, to the next batch.
func (w *worker) record(r *journal.Record, clock int64, log bool) error {
	w.version = max(w.version, r.Version)
	if r.Op == journal.Flush || r.Kind < journal.Foreign && r.Version < w.ld.flush {
		return nil
	}
	// Apply before anything else: clamped belongs to one batch.
	if len(w.batch) == together || w.part != nil && !w.part.Owns(r.Kind) {
		if err := w.apply(); err != nil {
			return err
		}
	}
	switch {
	case r.Op == journal.Delete:
		w.deletes++
	case w.expires(r, clock) <= w.ld.now:
		if w.expired++; r.ChangesMayFollow() {
			break
		}
		if !log {
			return nil
		}
		r.Op, r.State = journal.Delete, nil // the key may have an older state that has not expired
	default:
		w.sets++
	}
	if w.part == nil {
		if w.part = owner(w.ld.parts, r.Kind); w.part == nil {
			return fmt.Errorf("%w (a record is of kind %d)", ErrFormat, r.Kind)
		}
	}
	w.batch = append(w.batch, *r)
	return nil
}

// apply passes the gathered records to the part.
func (w *worker) apply() error {
	if w.part == nil {
		return nil
	}
	err := w.part.Apply(w.batch, w.share, len(w.ld.workers))
	if errors.Is(err, journal.ErrNewer) {
		err = fmt.Errorf("%w (%w)", ErrFormat, err)
	}
	w.part, w.batch, w.clamped = nil, w.batch[:0], w.clamped[:0]
	return err
}

// expires returns when a state expires. A state must not be owed more time now than when it was written, at
// clock; if it would be, expires shortens it. Decisions continue at clock or later, so this happens only with
// Options.WallClock.
func (w *worker) expires(r *journal.Record, clock int64) int64 {
	at, now := r.Expires(), w.ld.now
	if journal.Timed(r.Kind) && now < clock && at > clock {
		at = now + (at - clock)
		from := len(w.clamped) // a copy, because other workers read the chunk
		w.clamped = append(w.clamped, r.State...)
		r.State = w.clamped[from:len(w.clamped):len(w.clamped)]
		binary.LittleEndian.PutUint64(r.State, uint64(at))
	}
	return at
}
