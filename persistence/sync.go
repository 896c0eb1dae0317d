package persistence

import (
	"sync/atomic"
)

// How written bytes become durable. A sync may take as long as the disk likes, so no lock that the writer
// needs is held during one: the writer continues, and the next sync covers what it writes. Only one sync runs
// at a time.
//
// When the writer moves to a new log, the log before is synced first. Until that is durable, it is the
// store's old log and batches in the new one lack flagVouches: after a power cut they count only if the old
// log is complete.

// sync makes durable everything that was written before the call, and releases the replies that wait for it.
// Others may write meanwhile. If it returns the file's error, the store has failed.
func (s *Store) sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.io.Lock()
	at, old, cur := s.opened.Load(), s.old, s.cur
	s.unsynced.begin()
	s.io.Unlock()
	if cur == nil {
		return nil // the log cannot be written: replies wait for a new base
	}
	if old != nil {
		if err := s.syncFile(old); err != nil {
			return err
		}
		if err := s.finishOld(old); err != nil {
			return err
		}
	}
	if err := s.syncFile(cur); err != nil {
		return err
	}
	s.unsynced.end()
	if s.failure.Load() == nil {
		s.publish(at)
	}
	return nil
}

// syncFile makes everything in a log so far durable. The caller holds syncing.
func (s *Store) syncFile(l *logFile) error {
	s.io.Lock()
	end := l.End
	durable := l.synced == end
	s.io.Unlock()
	if durable {
		return nil
	}
	err := l.Sync()
	s.io.Lock()
	defer s.io.Unlock()
	if err != nil {
		if s.cur == l || s.old == l {
			s.fail(err)
		}
		return err
	}
	s.hasSynced()
	l.synced = max(l.synced, end)
	return nil
}

// finishOld records that the old log is durable, and writes a mark to the new log that says so. From then on,
// damage to the old log is not mistaken for a torn tail. The caller holds syncing.
func (s *Store) finishOld(old *logFile) error {
	s.io.Lock()
	defer s.io.Unlock()
	if s.old != old {
		return nil // the store failed in the meantime
	}
	old.Close() // everything is durable, so an error of Close means nothing
	s.old = nil
	s.cur.flags |= flagVouches
	s.setStamp()
	if err := s.cur.mark(&s.stamp, s.ahead()); err != nil {
		s.fail(err)
		return err
	}
	s.counters.logBytes.Add(batchHeaderSize)
	return nil
}

// forget drops the durable part of the log from the system's cache, since nobody reads it before the next
// start. The system then reuses that memory for the next writes, which is cheaper than taking and later
// reclaiming more.
func (s *Store) forget() {
	if !s.syncing.TryLock() {
		return // the next call will do it
	}
	defer s.syncing.Unlock()
	s.io.Lock()
	l := s.cur
	if l == nil || l.forgotten == l.synced {
		s.io.Unlock()
		return
	}
	from, to := l.forgotten, l.synced
	l.forgotten = to
	s.io.Unlock()
	l.Forget(from, to-from) // may take milliseconds
}

// markEnd writes a mark if everything has been durable for a while.
func (s *Store) markEnd() {
	if s.mark() && s.Policy() == Always {
		_ = s.sync() // sync has reported its failure
	}
}

// mark does what markEnd does, without syncing the mark. It reports whether it wrote one.
func (s *Store) mark() bool {
	s.io.Lock()
	defer s.io.Unlock()
	l := s.cur
	if l == nil || l.marked || s.old != nil || l.synced < l.End || l.End == headerSize {
		return false
	}
	s.setStamp()
	if err := l.mark(&s.stamp, s.ahead()); err != nil {
		s.fail(err)
		return false
	}
	s.counters.logBytes.Add(batchHeaderSize)
	return true
}

// publish records that all drains up to this number are durable, and releases the replies that wait for them.
//
// Tried and rejected: waking an event loop once, when the replies of all its connections may leave, instead
// of at the first (no difference at 64 commands in a pipeline, 6 % slower at one).
func (s *Store) publish(at uint64) {
	s.mu.Lock()
	if at <= s.durable.Load() {
		s.mu.Unlock()
		return
	}
	s.durable.Store(at)
	n := 0
	for n < len(s.held) && s.held[n].at <= at {
		n++
	}
	ready := s.held[:n:n]
	// Numbers are nearly in order; a reply behind one with a higher number waits with it.
	s.held = append([]heldReply(nil), s.held[n:]...)
	s.mu.Unlock()
	for _, w := range ready {
		w.fn(nil)
	}
}

// age tracks since when there are bytes that were written and are not durable. Times are in Unix ns; 0 means
// none.
type age struct {
	// oldest is when the oldest byte was written that no sync covers yet. syncing is the same for the sync in
	// progress.
	oldest, syncing atomic.Int64
}

// wrote notes that bytes were written at now. The caller holds io.
func (a *age) wrote(now int64, p Policy) {
	switch {
	case p == Never:
		a.oldest.Store(0) // nothing syncs them
	case a.oldest.Load() == 0:
		a.oldest.Store(now)
	}
}

// begin notes that a sync begins. The caller holds io.
func (a *age) begin() {
	if a.syncing.Load() == 0 {
		a.syncing.Store(a.oldest.Load())
	}
	a.oldest.Store(0)
}

// end notes that the last sync succeeded.
func (a *age) end() { a.syncing.Store(0) }

// reset notes that there is nothing left to sync.
func (a *age) reset() {
	a.oldest.Store(0)
	a.syncing.Store(0)
}

// since returns when the oldest byte that is not durable was written, 0 if there is none.
func (a *age) since() int64 {
	if t := a.syncing.Load(); t != 0 {
		return t
	}
	return a.oldest.Load()
}
