package persistence

import (
	"fmt"
	"time"
)

const (
	// stalledAfter is how old what is not durable may get until writers are refused: what
	// they are promised would be lost with the power, or gathers in memory.
	stalledAfter = 2 * time.Second
	// watchEvery is how often that is looked at.
	watchEvery = 100 * time.Millisecond
)

// SetMaxUnsynced changes how old a byte may get that is not durable, see Options.
func (s *Store) SetMaxUnsynced(ns int64) {
	if ns == 0 {
		ns = int64(stalledAfter)
	}
	s.maxUnsynced.Store(ns)
}

// watch refuses writers while the disk does not keep up.
func (s *Store) watch() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.lookForStall()
		}
	}
}

// lag is the age of the oldest byte that should be durable by now, or at least written, and is not, in ns.
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

func (s *Store) lookForStall() {
	stalled := s.lag() > s.maxUnsynced.Load()
	if stalled == s.stalled.Load() {
		return
	}
	s.stalled.Store(stalled)
	if stalled {
		s.log.Warn("the disk does not sync what is written: commands that change something are refused meanwhile")
	} else {
		s.log.Info("the disk has synced what was written")
	}
	s.tellRefusing()
}

// errStalled is why writers are refused while the disk does not answer.
func (s *Store) errStalled() error {
	return fmt.Errorf("the disk has not synced what was written for %v", time.Duration(s.maxUnsynced.Load()))
}

// tellRefusing tells the server whether writers must be refused, and why.
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

// Sync makes durable all that has changed until now, under any policy. The error is ErrFailed.
func (s *Store) Sync() error { return s.barrier() }
