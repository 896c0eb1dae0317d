package persistence

import (
	"errors"
	"time"

	"limitdb/internal/disk"
)

// retryEvery is the time between two attempts to write again.
const retryEvery = time.Second

// fail records that the log cannot be written. The caller holds io.
//
// Bytes that were written and not synced may be lost even if a later sync succeeds, so the store never writes
// or syncs that file again. Under Always the process must end, because no waiting reply can be released.
// Under another policy, or if files were removed while the disk is sound, the store refuses writers until a
// new base, written from memory, is durable.
func (s *Store) fail(err error) {
	for _, l := range []*logFile{s.old, s.cur} {
		if l != nil {
			l.Close() // it has failed already
		}
	}
	s.old, s.cur = nil, nil
	s.unsynced.reset()
	if s.failure.Load() != nil {
		return // this was an attempt to recover from that failure
	}
	s.failure.Store(&failure{err})
	s.counters.failures.Add(1)
	if s.Policy() == Always && !errors.Is(err, errLost) {
		s.log.Error("the log cannot be written", "err", err)
		if s.o.Fatal != nil {
			s.o.Fatal(err)
		}
		return
	}
	s.tellRefusing()
	s.log.Error("the log cannot be written: commands that change something are refused until a new snapshot is durable", "err", err, "full", disk.NoRoom(err))
	signal(s.broken)
}

// tend makes snapshots when the log has grown, and repairs a log that cannot be written.
func (s *Store) tend() {
	retry := time.NewTimer(0)
	<-retry.C
	defer retry.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.broken:
			retry.Reset(0)
		case <-s.grown:
			s.compact()
		case <-retry.C:
			if err := s.rescue(); err != nil && !errors.Is(err, ErrClosed) {
				s.log.Warn("the log still cannot be written", "err", err)
				retry.Reset(retryEvery)
			}
		}
	}
}

// rescue replaces a log that cannot be written: it writes everything that the parts have as a new base, with
// a new log after it.
func (s *Store) rescue() error {
	if s.Failing() == nil {
		return nil
	}
	s.files.Lock()
	defer s.files.Unlock()
	if s.stopped() {
		return ErrClosed
	}
	if err := s.retake(); err != nil {
		return err
	}
	began := s.began()
	size, err := s.renew()
	s.ended(began, size, err)
	if err != nil {
		s.io.Lock()
		if s.cur != nil {
			s.cur.Close() // no MANIFEST names it
			s.cur = nil
		}
		s.io.Unlock()
		s.removeRest()
		return err
	}
	s.log.Info("the log can be written again")
	return nil
}

func (s *Store) renew() (size int64, err error) {
	next, err := s.newLog()
	if err != nil {
		return 0, err
	}
	e := logEntry{number: s.number, id: next.id}
	s.io.Lock()
	// Records that were drained and dropped are still in the parts, and so will be in the base.
	at, err := s.flush()
	next.seq, next.first = 1, 1
	e.first = next.seq
	s.cur = next
	s.io.Unlock()
	if err != nil {
		return 0, err
	}
	if size, err = s.rebase(e); err != nil {
		return 0, err
	}
	s.io.Lock()
	if s.cur != nil {
		s.cur.flags = flagNamed | flagVouches
	}
	s.io.Unlock()
	s.failure.Store(nil)
	s.tellRefusing()
	s.publish(at)
	signal(s.kick)
	return size, nil
}

// outgrown reports whether a snapshot is due, because the logs have outgrown the base or one was forced. The
// caller holds io.
func (s *Store) outgrown() bool {
	percent, least := s.rewrite[0].Load(), s.rewrite[1].Load()
	logs := s.counters.logBytes.Load()
	if s.forced.Load() {
		return true
	}
	return percent > 0 && s.cur != nil && logs >= least && logs/percent >= s.counters.baseBytes.Load()/100
}

// compact makes a snapshot if one is due.
func (s *Store) compact() {
	s.io.Lock()
	due := s.outgrown() && s.o.Now() >= s.notBefore()
	s.io.Unlock()
	if !due {
		return
	}
	if err := s.Snapshot(); err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrClosed) {
		s.log.Error("compacting the log failed", "err", err)
		return
	}
	s.forced.Store(false)
}
