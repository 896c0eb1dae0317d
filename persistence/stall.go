package persistence

import (
	"fmt"
	"time"
)

const (
	// stalledAfter is the default of Options.MaxUnsynced. Beyond it, a power cut would lose too much that
	// clients were told, or too much would gather in memory.
	stalledAfter = 2 * time.Second
	// watchEvery is the time between two checks.
	watchEvery = 100 * time.Millisecond
)

// SetMaxUnsynced changes Options.MaxUnsynced, in ns; 0 means the default.
func (s *Store) SetMaxUnsynced(ns int64) {
	if ns == 0 {
		ns = int64(stalledAfter)
	}
	s.maxUnsynced.Store(ns)
}

// lag returns the age, in ns, of the oldest byte that should be written or durable by now and is not.
func (s *Store) lag() int64 {
	since := s.busySince.Load()
	if t := s.unsynced.since(); t != 0 && s.Policy() != Never && (since == 0 || t < since) {
		since = t
	}
	if since == 0 {
		return 0
	}
	return max(0, s.o.Now()-since)
}

// lookForStall refuses writers while the disk is too slow.
func (s *Store) lookForStall() {
	stalled := s.lag() > s.maxUnsynced.Load()
	if stalled == s.stalled.Load() {
		return
	}
	s.stalled.Store(stalled)
	if stalled {
		s.log.Warn("a sync of the log hangs: commands that change something are refused meanwhile")
	} else {
		s.log.Info("the log is synced again")
	}
	s.tellRefusing()
}

// errStalled returns the reason for which writers are refused while the disk does not respond.
func (s *Store) errStalled() error {
	return fmt.Errorf("the disk has not synced what was written for %v", time.Duration(s.maxUnsynced.Load()))
}

// tellRefusing reports to Options.Refusing whether writers must be refused, and why.
func (s *Store) tellRefusing() {
	s.telling.Lock()
	defer s.telling.Unlock()
	err := s.Failing()
	if err == nil && s.stalled.Load() {
		err = s.errStalled()
	}
	if s.o.Refusing != nil {
		s.o.Refusing(err)
	}
}

// Sync makes every change up to now durable, under any policy. It returns ErrFailed if the log cannot be
// written.
func (s *Store) Sync() error { return s.barrier() }
