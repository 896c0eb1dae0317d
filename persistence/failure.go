package persistence

import (
	"errors"
	"syscall"
	"time"
)

// retryEvery is the time between two attempts to write again.
const retryEvery = time.Second

// fail takes note that the log cannot be written. io is held.
//
// What was written to it and not synced may be lost, whatever a later sync
// says, so nothing is ever written or synced there again. Under Always that is the end of
// the process: no reply that waits can be released. Else, and where files were removed from under
// a disk that is sound, writers are refused until a new base, written from memory, is durable.
func (s *Store) fail(err error) {
	for _, l := range []*logFile{s.old, s.cur} {
		if l != nil {
			l.f.Close() // it has failed already
		}
	}
	s.old, s.cur = nil, nil
	s.unsynced.reset()
	if s.failure.Load() != nil {
		return // this was an attempt to heal that
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
	s.log.Error("the log cannot be written: commands that change something are refused until a new snapshot is durable", "err", err, "full", noRoom(err))
	signal(s.broken)
}

// noRoom reports whether a write has failed because the disk is full, or the owner's share of it.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// tend makes the snapshots that come by themselves, and heals the log.
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

// rescue writes all that the parts have as a new base with a new log behind
// it, and so leaves behind a log that cannot be written.
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
			s.cur.f.Close() // nothing names it
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
	// What has been drained and dropped is in the parts, and will be in the base.
	at, err := s.flush()
	next.seq, next.first = 1, 1
	e.first = next.seq
	s.cur = next
	s.io.Unlock()
	if err != nil {
		return 0, err
	}
	base, err := s.writeBase()
	if err != nil {
		return 0, err
	}
	if err := s.barrier(); err != nil {
		return 0, err
	}
	if err := s.install(base, []logEntry{e}); err != nil {
		return 0, err
	}
	s.io.Lock()
	if s.cur != nil {
		s.cur.flags = flagNamed | flagSettled
	}
	s.io.Unlock()
	s.failure.Store(nil)
	s.tellRefusing()
	s.publish(at)
	signal(s.kick)
	return base.length, nil
}

// outgrown tells whether the logs have outgrown the base. io is held.
func (s *Store) outgrown() bool {
	percent, least := s.rewrite[0].Load(), s.rewrite[1].Load()
	logs := s.counters.logBytes.Load()
	if s.forced.Load() {
		return true
	}
	return percent > 0 && s.cur != nil && logs >= least && logs/percent >= s.counters.baseBytes.Load()/100
}

// compact makes a snapshot because the logs have outgrown the base.
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
