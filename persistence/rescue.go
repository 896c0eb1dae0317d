package persistence

import "fmt"

// If somebody removes or replaces the data directory, or files in it, while the server runs, every write and
// sync succeeds and yet the next start finds nothing. So once a second the store checks that the names still
// refer to its files. All state is in memory: if the place is free, the store makes the directory again and
// writes a new base into it. Until that is durable, writers are refused and replies wait. If another
// directory with data has taken the place, the store leaves it alone.

// lookForFiles checks that a start would find what the store writes.
func (s *Store) lookForFiles() {
	s.io.Lock()
	l := s.cur
	s.io.Unlock()
	if l == nil {
		return
	}
	if there, err := l.Named(l.name); !there && err == nil {
		s.lost(l, l.name)
	} else if s.lacks(l.instance) != "" {
		// Who holds the files may have renamed or removed it a moment ago: the next second looks again.
		if !s.files.TryLock() {
			return
		}
		defer s.files.Unlock()
		if name := s.lacks(l.instance); name != "" && !s.stopped() {
			s.lost(l, name)
		}
	}
}

// lost records that a file is lost, if l is still the current log.
func (s *Store) lost(l *logFile, name string) {
	s.io.Lock()
	defer s.io.Unlock()
	if s.cur == l {
		s.fail(fmt.Errorf("%w: %s", errLost, name))
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
	if err := s.counted(s.renew); err != nil {
		s.io.Lock()
		s.drop()
		s.io.Unlock()
		s.removeRest()
		return err
	}
	s.log.Info("the log can be written again")
	return nil
}

// renew begins a new log, and puts it in force with a new base.
func (s *Store) renew() error {
	if s.Empty() && !s.dropped {
		// The disk was full at the first start. A log without a MANIFEST would keep the next one from starting.
		if err := s.writeManifest(s.man); err != nil {
			return err
		}
	}
	next, err := s.newLog()
	if err != nil {
		return err
	}
	s.io.Lock()
	// Records that were drained and dropped are still in the parts, and so will be in the base.
	at, err := s.flush()
	next.seq, next.first = 1, 1
	s.cur = next
	s.io.Unlock()
	if err != nil {
		return err
	}
	if err := s.rebase(logEntry{number: s.number, id: next.id, first: next.first}); err != nil {
		return err
	}
	s.io.Lock()
	whole := s.cur != nil // else the new log has failed in the meantime, and fail leaves that to this attempt
	if whole {
		s.cur.flags = flagNamed | flagVouches
		s.failure.Store(nil) // with the lock held: a later failure is a new one
	}
	s.io.Unlock()
	if !whole {
		return ErrFailed
	}
	s.tell()
	s.publish(at)
	signal(s.kick)
	return nil
}
