package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"limitdb/internal/journal"
)

// How records reach the parts. One goroutine reads and checks batches; workers
// apply them:
//
//   - of a base each batch goes to one worker, since no key is there twice;
//   - of the logs each batch goes to all workers, and each takes the keys whose hash
//     is its own, so that one key's changes are applied in their order.
//
// The workers are through with the base before the logs begin. That the last
// record of a key wins needs no table of versions then: a log that follows
// a base has all that the base has seen (see snapshot.go). A Flush forgets
// keys of all workers, and records of some of them that stand before it in the file came after it; so
// it is not applied in its turn: what is older than the newest Flush of all
// files is left out from the start.
//
// Rejected: queues of records for each worker. Skipping a record costs a few
// ns, less than handing it over does.
type loader struct {
	parts   []Part
	now     int64
	flush   uint64
	workers int

	done, total int64
	progress    func(done, total int64)

	failed atomic.Bool
	mu     sync.Mutex // guards err
	err    error

	sets, deletes, expired atomic.Uint64
	version                atomic.Uint64
}

// queued is how many chunks wait for each worker.
const queued = 2

// load applies the base and the logs.
func (r *recovery) load() error {
	ld := &loader{
		parts: r.s.o.Parts, now: r.Now, flush: r.flush,
		workers: max(1, r.s.o.Workers), progress: r.s.o.Progress,
	}
	if r.base != nil {
		ld.total += r.base.size
	}
	for _, l := range r.logs {
		ld.total += l.size
		l.off, l.seq = headerSize, 0
	}
	var err error
	if r.base != nil {
		err = ld.run([]*reader{r.base}, false)
	}
	if err == nil {
		err = ld.run(r.logs, true)
	}
	r.Sets, r.Deletes, r.Expired, r.Bytes = ld.sets.Load(), ld.deletes.Load(), ld.expired.Load(), ld.done
	r.version = max(ld.version.Load(), r.flush)
	return err
}

// run applies files of one kind.
func (ld *loader) run(files []*reader, logs bool) error {
	// A worker gets chunks from its own channel (logs), or from the one channel (base).
	feeds := make([]chan *chunk, ld.workers)
	for i := range feeds {
		if i == 0 || logs {
			feeds[i] = make(chan *chunk, queued)
		} else {
			feeds[i] = feeds[0]
		}
	}
	free := make(chan *chunk, queued*ld.workers+ld.workers+1)
	for range cap(free) {
		free <- &chunk{}
	}
	var wg sync.WaitGroup
	for i, feed := range feeds {
		wg.Go(func() {
			w := worker{ld: ld, index: uint64(i)}
			for c := range feed {
				if !ld.failed.Load() {
					w.apply(c)
				}
				if c.left.Add(-1) == 0 {
					free <- c
				}
			}
			w.report()
		})
	}
	feeders := feeds
	if !logs {
		feeders = feeds[:1]
	}
	var err error
	for _, f := range files {
		if err = ld.feed(f, logs, feeders, free); err != nil {
			break
		}
	}
	for _, c := range feeders {
		close(c)
	}
	wg.Wait()
	return errors.Join(err, ld.err)
}

// feed reads one file and hands on its chunks.
func (ld *loader) feed(f *reader, logs bool, feeds []chan *chunk, free chan *chunk) error {
	for !ld.failed.Load() {
		c := <-free
		before := f.off
		err := f.read(c)
		c.log = logs
		var bad *badBatch
		switch {
		case err == io.EOF:
			free <- c
			return nil
		case errors.As(err, &bad):
			return &CorruptError{f.name, bad.off, bad.reason}
		case err != nil:
			return err
		}
		c.left.Store(int32(len(feeds)))
		for _, feed := range feeds {
			feed <- c
		}
		ld.done += f.off - before
		if ld.progress != nil {
			ld.progress(ld.done, ld.total)
		}
	}
	return nil
}

// worker applies the records that are its own.
type worker struct {
	ld    *loader
	index uint64

	sets, deletes, expired, version uint64
}

// report adds up what the worker has done.
func (w *worker) report() {
	w.ld.sets.Add(w.sets)
	w.ld.deletes.Add(w.deletes)
	w.ld.expired.Add(w.expired)
	for v := w.ld.version.Load(); v < w.version; v = w.ld.version.Load() {
		if w.ld.version.CompareAndSwap(v, w.version) {
			break
		}
	}
}

func (w *worker) apply(c *chunk) {
	for i := range c.pieces {
		if err := w.batch(&c.pieces[i], c.log); err != nil {
			w.ld.mu.Lock()
			if w.ld.err == nil {
				w.ld.err = err
			}
			w.ld.mu.Unlock()
			w.ld.failed.Store(true)
			return
		}
	}
}

func (w *worker) batch(p *piece, log bool) error {
	many := uint64(w.ld.workers)
	for b := p.payload; len(b) > 0; {
		r, rest, err := journal.Parse(b)
		if err != nil {
			return fmt.Errorf("the batch at offset %d: %w", p.off, err)
		}
		b = rest
		w.version = max(w.version, r.Version)
		if log && many > 1 && xxh3.Hash(r.Key)%many != w.index {
			continue
		}
		if err := w.record(&r, p.clock, log); err != nil {
			return err
		}
	}
	return nil
}

// record applies one record, which was written at clock.
func (w *worker) record(r *journal.Record, clock int64, log bool) error {
	if r.Op == journal.Flush || r.Kind < journal.Foreign && r.Version < w.ld.flush {
		return nil
	}
	part := owner(w.ld.parts, r.Kind)
	if part == nil {
		return fmt.Errorf("persistence: a record is of kind %d, which this version does not know", r.Kind)
	}
	if r.Op == journal.Delete {
		w.deletes++
		part.Delete(r.Kind, r.Key)
		return nil
	}
	if r.Kind < journal.Foreign {
		if clampExpiry(r, clock, w.ld.now) <= w.ld.now {
			w.expired++
			if log { // it may have taken the place of one that has not
				part.Delete(r.Kind, r.Key)
			}
			return nil
		}
	}
	w.sets++
	return part.Set(r.Kind, r.Key, r.State)
}

// clampExpiry bounds what a state owes now by what it owed when it was
// written, at clock, and returns when it expires. Since decisions go on at clock or later, this
// changes something only where the wall clock was asked for (Options.WallClock).
func clampExpiry(r *journal.Record, clock, now int64) int64 {
	at := r.Expires()
	if now < clock && at > clock {
		at = now + (at - clock)
		binary.LittleEndian.PutUint64(r.State, uint64(at))
	}
	return at
}
