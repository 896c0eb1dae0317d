package persistence

import (
	"errors"
	"time"
)

const (
	// syncEvery is the time between two syncs under EverySec.
	syncEvery = time.Second
	// watchEvery is the time between two looks for a disk that hangs.
	watchEvery = 100 * time.Millisecond
	// lookAhead is how much more than lag the age of the oldest change that is not durable may be before the next look: it has also waited to
	// be written.
	lookAhead = int64(watchEvery + writeDelay)
	// retryEvery is the time between two attempts to write again.
	retryEvery = time.Second
)

// Start starts the goroutines that write what the parts have. Call it after Load.
func (s *Store) Start() {
	if s.Failing() != nil { // the disk was full
		s.tell()
		signal(s.broken)
	}
	if s.forced.Load() {
		signal(s.grown)
	}
	s.loops.Go(s.write)
	s.loops.Go(func() { s.every(syncEvery, s.second) })
	s.loops.Go(s.tend)
	s.loops.Go(func() { s.every(watchEvery, func() { s.look(s.lag() + lookAhead) }) })
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
			if s.waiting() > 0 || s.overdue() {
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

// commit has the writer commit, and asks for a snapshot if one is due.
func (s *Store) commit() {
	if s.writer.commit() != nil {
		return // the writer has reported it
	}
	s.io.Lock()
	defer s.io.Unlock()
	if s.outgrown() {
		signal(s.grown)
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

// compact makes a snapshot if one is due.
func (s *Store) compact() {
	s.io.Lock()
	due := s.outgrown() && s.o.Now() >= s.notBefore()
	s.io.Unlock()
	if !due {
		return
	}
	err := s.Snapshot()
	switch {
	case err == nil:
		s.forced.Store(false)
	case !errors.Is(err, ErrBusy) && !errors.Is(err, ErrClosed):
		s.log.Error("compacting the log failed", "err", err)
	}
}
