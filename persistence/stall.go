package persistence

import (
	"errors"
	"time"
)

const (
	// stalledAfter is how long a commit may take until writers are refused: what
	// they change gathers in memory meanwhile.
	stalledAfter = 2 * time.Second
	// watchEvery is how often that is looked at.
	watchEvery = 100 * time.Millisecond
)

// errStalled is why writers are refused while the disk does not answer.
var errStalled = errors.New("the disk has not taken what was written for 2 s")

// watch refuses writers while a commit is stuck.
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

func (s *Store) lookForStall() {
	since := s.busySince.Load()
	stalled := since != 0 && s.o.Now()-since > int64(stalledAfter)
	if stalled == s.stalled.Load() {
		return
	}
	s.stalled.Store(stalled)
	if stalled {
		s.log.Warn("the disk does not take what is written: writers are refused meanwhile")
	}
	s.tellRefusing()
}

// tellRefusing tells the server whether writers must be refused, and why.
func (s *Store) tellRefusing() {
	s.telling.Lock()
	defer s.telling.Unlock()
	err := s.Failing()
	if err == nil && s.stalled.Load() {
		err = errStalled
	}
	if s.o.Refusing != nil {
		s.o.Refusing(err)
	}
}

// Sync makes durable all that has changed until now, under any policy. The error is ErrFailed.
func (s *Store) Sync() error { return s.barrier() }
