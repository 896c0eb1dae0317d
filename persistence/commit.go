package persistence

import (
	"time"

	"limitdb/internal/disk"
	"limitdb/internal/journal"
)

const (
	// writeDelay is how long changes gather before they are written, if no reply waits for them. kill -9 can
	// lose that much.
	writeDelay = 10 * time.Millisecond
	// syncEvery is the time between two syncs under EverySec.
	syncEvery = time.Second
	// drainBytes is about how many bytes of records are drained before they are written. A longer drain
	// becomes several batches of one group, so the store's memory does not grow with what has changed.
	drainBytes = 1 << 20
	// keepBuffer is the largest buffer, in bytes, that is kept for the next drain.
	keepBuffer = 2 * drainBytes
)

// Start starts the goroutines that write what the parts have. Call it after Load.
func (s *Store) Start() {
	if s.Failing() != nil { // the disk was full
		s.tellRefusing()
		signal(s.broken)
	}
	s.loops.Go(s.write)
	s.loops.Go(func() { s.every(syncEvery, s.second) })
	s.loops.Go(s.tend)
	s.loops.Go(func() { s.every(watchEvery, s.lookForStall) })
}

// Dirtied notifies the store that a part has something to drain. It never blocks.
func (s *Store) Dirtied() {
	s.due.CompareAndSwap(0, s.o.Now()+int64(writeDelay))
	signal(s.dirtied)
}

// Wait arranges for fn(nil) to be called once every change that anyone can have seen is durable, and returns
// true. If there is nothing to wait for, or the policy is not Always, it returns false and never calls fn. The
// writer's goroutine calls fn, which must not block. The writer begins at the next Kick, so that many callers
// share one sync.
func (s *Store) Wait(fn func(error)) bool {
	if s.Policy() != Always {
		return false
	}
	at := s.position()
	if s.durable.Load() >= at {
		return false
	}
	s.mu.Lock()
	if s.retired || s.durable.Load() >= at {
		s.mu.Unlock()
		return false
	}
	s.held = append(s.held, heldReply{at, fn})
	s.mu.Unlock()
	s.unkicked.Store(true)
	return true
}

// Kick wakes the writer if anybody waits or a write is due. It is cheap otherwise. Whoever makes changes calls
// it often.
//
// The writer has a timer for writes that are due, but it may fire late: Go runs a timer on the thread that set
// it, and on a busy machine the kernel may let that thread wait for 100 ms while another one keeps granting.
// A writer that the other thread has woken runs there, as soon as that thread yields.
func (s *Store) Kick() {
	if s.unkicked.Load() && s.unkicked.Swap(false) || s.overdue() {
		signal(s.kick)
	}
}

// overdue reports whether what the parts have should be written by now.
func (s *Store) overdue() bool {
	due := s.due.Load()
	return due != 0 && s.o.Now() >= due
}

// waiting reports whether anybody waits; an earlier commit may have served all.
func (s *Store) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) > 0
}

// position returns the number of the drain that includes every change up to now.
func (s *Store) position() uint64 {
	dirty := s.dirty() // before opened is read; see Store
	at := s.opened.Load()
	if dirty {
		at++
	}
	return at
}

func (s *Store) dirty() bool {
	for i := range s.o.Parts {
		if s.o.Parts[i].Dirty() {
			return true
		}
	}
	return false
}

// write is the writer's loop.
func (s *Store) write() {
	delay := time.NewTimer(writeDelay)
	delay.Stop()
	defer delay.Stop()
	for armed := false; ; {
		select {
		case <-s.stop:
			return
		case <-s.kick:
			if s.waiting() || s.overdue() {
				delay.Stop() // whatever is not in this commit arms it again
				armed = false
				s.commit()
			}
		case <-s.dirtied:
			if !armed {
				delay.Reset(writeDelay)
				armed = true
			}
		case <-delay.C:
			armed = false
			s.commit()
		}
	}
}

// every calls fn again and again, with pauses, until the store stops.
func (s *Store) every(pause time.Duration, fn func()) {
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			fn()
		}
	}
}

// second does what is due each second: it looks for removed files, syncs under EverySec, and marks the end of
// what is durable.
func (s *Store) second() {
	s.lookForFiles()
	if s.Policy() == EverySec {
		_ = s.sync() // sync has reported its failure
	}
	s.forget()
	s.markEnd()
}

// commit drains, writes, and syncs if the policy is Always or somebody waits. A reply that began to wait
// under Always needs its sync even if the policy has changed since.
func (s *Store) commit() {
	s.busySince.Store(s.o.Now())
	defer s.busySince.Store(0)
	s.counters.commits.Add(1)
	if s.gather() != nil {
		return
	}
	if s.Policy() == Always || s.waiting() {
		if s.sync() != nil {
			return
		}
	}
	s.io.Lock()
	defer s.io.Unlock()
	if s.outgrown() {
		signal(s.grown)
	}
}

// gather drains the parts and writes their records.
func (s *Store) gather() error {
	s.io.Lock()
	defer s.io.Unlock()
	_, err := s.flush()
	if err != nil {
		s.fail(err)
	}
	return err
}

// flush drains the parts, writes their records as one group, and returns the number of the drain. After an
// error, and without a log, it drops the records: the next base will contain everything. The caller holds io.
func (s *Store) flush() (at uint64, err error) {
	at = s.opened.Add(1) // before the drain; see Store
	s.due.Store(0)       // before the cut: later changes set it again
	s.cut()
	buf := &s.buf
	begun := false
	for more := true; more; {
		buf.Reset(batchHeaderSize)
		more = s.drain(buf)
		s.counters.changes.Add(int64(buf.Records))
		if s.cur != nil && err == nil && (begun || buf.Records > 0) {
			begun, err = true, s.writeRecords(more)
		}
	}
	if cap(buf.Bytes) > keepBuffer {
		buf.Bytes = nil
	}
	return at, err
}

// drain fills buf with records that the parts have set aside, and reports whether there may be more.
func (s *Store) drain(buf *journal.Buffer) (more bool) {
	limit := drainBytes
	if s.split > 0 {
		limit = s.split
	}
	for i := range s.o.Parts {
		if s.o.Parts[i].Drain(buf, limit) {
			return true
		}
	}
	return false
}

// writeRecords writes the records in buf. more means that the group continues. The caller holds io.
func (s *Store) writeRecords(more bool) error {
	// Read the clock after the drain, so that no decision in it is later.
	s.setStamp()
	s.unsynced.wrote(s.stamp.clock, s.Policy())
	before := s.cur.End
	if err := s.cur.add(&s.buf, &s.stamp, s.ahead(), more); err != nil {
		return err
	}
	s.counters.logBytes.Add(s.cur.End - before)
	s.counters.written.Add(uint64(s.cur.End - before))
	return nil
}

// ahead returns the zeros to write ahead of small batches. The caller holds io.
func (s *Store) ahead() []byte {
	if s.Policy() != Always {
		return nil
	}
	if s.zeros == nil {
		s.zeros = make([]byte, disk.AheadBytes)
	}
	return s.zeros
}

// setStamp reads the clocks for the next batch. The caller holds io.
func (s *Store) setStamp() {
	s.stamp.clock = max(s.stamp.clock, s.o.Now())
	_, s.stamp.boot = s.o.Boot()
}

// cut has each part set its records aside, with the gate closed: all changes of a step that enters the gate
// are in one cut.
func (s *Store) cut() {
	s.gate.Close()
	defer s.gate.Open()
	for i := range s.o.Parts {
		s.o.Parts[i].Cut()
	}
}
