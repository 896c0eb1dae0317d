package persistence

import (
	"fmt"
	"sync/atomic"
)

// How what was written becomes durable. A sync may take as long as the disk likes, so no
// lock that the writer needs is held meanwhile: the writer goes on, and what it writes is for the
// next sync. One sync at a time is under way.
//
// When the writer goes on in a new log, the one before is synced first. Until it is durable,
// it is the store's old log, and batches in the new one lack flagSettled: after a power cut they count
// only if the old log is whole.

// sync makes durable what was written until now, while others write, and calls those who wait for
// it. The error is that of the file; the store has failed then.
func (s *Store) sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.io.Lock()
	at, old, cur := s.opened.Load(), s.old, s.cur
	s.unsynced.begin()
	s.io.Unlock()
	if cur == nil {
		return nil // it cannot be written: who waits, waits for a new base
	}
	if old != nil {
		if err := s.syncFile(old); err != nil {
			return err
		}
		if err := s.settle(old); err != nil {
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

// syncFile makes durable what a log has now. syncing is held.
func (s *Store) syncFile(l *logFile) error {
	s.io.Lock()
	end := l.end
	durable := l.synced == end
	s.io.Unlock()
	if durable {
		return nil
	}
	err := l.f.Sync()
	s.io.Lock()
	defer s.io.Unlock()
	if err != nil {
		err = fmt.Errorf("syncing %s: %w", l.name, err)
		if s.cur == l || s.old == l {
			s.fail(err)
		}
		return err
	}
	s.hasSynced()
	l.synced = max(l.synced, end)
	return nil
}

// settle takes note that the old log is durable. The mark in the new one says so: from
// then on, damage to the old one cannot pass for a torn tail. syncing is held.
func (s *Store) settle(old *logFile) error {
	s.io.Lock()
	defer s.io.Unlock()
	if s.old != old {
		return nil // the store has failed meanwhile
	}
	old.f.Close() // all of it is durable: what closing says tells nothing
	s.old = nil
	s.cur.flags |= flagSettled
	s.setStamp()
	if err := s.cur.mark(&s.stamp, s.ahead()); err != nil {
		s.fail(err)
		return err
	}
	s.counters.logBytes.Add(batchHeaderSize)
	return nil
}

// forget gives up the memory in which the system keeps what is durable of the log: nobody
// reads it before the next start. What is written next is then written to the same
// memory, which is cheaper than to take and later reclaim ever more of it.
func (s *Store) forget() {
	if !s.syncing.TryLock() {
		return // the next time will do
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
	l.f.Forget(from, to-from) // may take ms
}

// markEnd writes a mark where all has been durable for a while.
func (s *Store) markEnd() {
	if s.mark() && s.Policy() == Always {
		_ = s.sync() // it has told of its failure
	}
}

// mark is markEnd without the sync of the mark. It reports whether it wrote one.
func (s *Store) mark() bool {
	s.io.Lock()
	defer s.io.Unlock()
	l := s.cur
	if l == nil || l.marked || s.old != nil || l.synced < l.end || l.end == headerSize {
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

// publish says that the drains up to this number are durable.
//
// Tried and left: to wake an event loop once, when all of its connections are due, instead of at the
// first of them (no difference at 64 commands in a pipeline, 6 % dearer at one).
func (s *Store) publish(at uint64) {
	s.mu.Lock()
	if at <= s.durable.Load() {
		s.mu.Unlock()
		return
	}
	s.durable.Store(at)
	n := 0
	for n < len(s.waiters) && s.waiters[n].at <= at {
		n++
	}
	ready := s.waiters[:n:n]
	// Numbers are nearly in order; who comes after one that must wait longer waits with it.
	s.waiters = append([]waiter(nil), s.waiters[n:]...)
	s.mu.Unlock()
	for _, w := range ready {
		w.fn()
	}
}

// age knows since when there are bytes that were written and are not durable. Times are in Unix
// ns, 0 for none.
type age struct {
	// oldest is when the oldest byte was written that no sync has begun for; syncing is that of
	// the sync under way.
	oldest, syncing atomic.Int64
}

// wrote notes that something is written at now. io is held.
func (a *age) wrote(now int64, p Policy) {
	switch {
	case p == Never:
		a.oldest.Store(0) // nobody syncs it
	case a.oldest.Load() == 0:
		a.oldest.Store(now)
	}
}

// begin notes that a sync begins. io is held.
func (a *age) begin() {
	if a.syncing.Load() == 0 {
		a.syncing.Store(a.oldest.Load())
	}
	a.oldest.Store(0)
}

// end notes that the sync that began last has ended well.
func (a *age) end() { a.syncing.Store(0) }

// reset says that there is nothing to sync any more.
func (a *age) reset() {
	a.oldest.Store(0)
	a.syncing.Store(0)
}

// since returns when the oldest byte was written that is not durable, 0 for none.
func (a *age) since() int64 {
	if t := a.syncing.Load(); t != 0 {
		return t
	}
	return a.oldest.Load()
}
