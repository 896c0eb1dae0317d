package persistence

import (
	"time"
)

const (
	// writeDelay is how long changes gather before they are written where no
	// reply waits for that: what kill -9 can lose.
	writeDelay = 10 * time.Millisecond
	// syncEvery is the time between two syncs under EverySec.
	syncEvery = time.Second
	// keepBuffer is the largest buffer that is kept for the next drain.
	keepBuffer = 8 << 20
)

// Start begins to write what the parts have, after Load.
func (s *Store) Start() {
	if s.Failing() != nil { // the disk was full
		s.tellRefusing()
		signal(s.broken)
	}
	s.loops.Go(s.write)
	s.loops.Go(s.tick)
	s.loops.Go(s.tend)
	s.loops.Go(s.watch)
}

// Dirtied tells that a part has something to drain. It never blocks.
func (s *Store) Dirtied() { signal(s.dirtied) }

// Wait calls fn when all changes that can have been seen until now are durable,
// from the writer's goroutine: fn must not block. It returns false, and
// never calls fn, where nothing is to be waited for: also under any policy
// but Always. The writer begins at the next Kick, so that many who come at
// once have one sync.
func (s *Store) Wait(fn func()) bool {
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
	s.waiters = append(s.waiters, waiter{at, fn})
	s.mu.Unlock()
	s.unkicked.Store(true)
	return true
}

// Kick has the writer begin, if anybody waits. It is cheap where nobody does.
func (s *Store) Kick() {
	if s.unkicked.Load() && s.unkicked.Swap(false) {
		signal(s.kick)
	}
}

// waiting reports whether anybody waits; the commit before may have been for all.
func (s *Store) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiters) > 0
}

// position is the number of the drain that has all changes until now.
func (s *Store) position() uint64 {
	dirty := s.dirty() // before opened is read: see Store
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

// write is the writer.
func (s *Store) write() {
	delay := time.NewTimer(writeDelay)
	delay.Stop()
	defer delay.Stop()
	for armed := false; ; {
		select {
		case <-s.stop:
			return
		case <-s.kick:
			if s.waiting() {
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

// tick syncs once a second, by the policy, and marks the end of what is durable.
func (s *Store) tick() {
	t := time.NewTicker(syncEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.second()
		}
	}
}

// second is what is done each second.
func (s *Store) second() {
	s.lookForFiles()
	if s.Policy() == EverySec {
		_ = s.sync() // it has told of its failure
	}
	s.forget()
	s.markEnd()
}

// commit drains, writes, and syncs if the policy says so or somebody waits: a reply
// that waits under Always is owed its sync, whatever the policy is by now.
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

// gather drains the parts and writes what they had.
func (s *Store) gather() error {
	s.io.Lock()
	defer s.io.Unlock()
	_, err := s.flush()
	if err != nil {
		s.fail(err)
	}
	return err
}

// flush drains the parts and writes what they had, and returns the number of
// the drain. io is held.
func (s *Store) flush() (uint64, error) {
	at := s.opened.Add(1) // before the drain: see Store
	buf := &s.buf
	buf.Reset(batchHeaderSize)
	s.cut()
	for i := range s.o.Parts {
		s.o.Parts[i].Drain(buf)
	}
	defer func() {
		if cap(buf.Bytes) > keepBuffer {
			buf.Bytes = nil
		}
	}()
	if s.cur == nil || buf.Records == 0 {
		return at, nil // without a log, the next base has it all
	}
	// After the drain, so that no decision in it is later.
	s.setStamp()
	s.unsynced.wrote(s.stamp.clock, s.Policy())
	before := s.cur.end
	if err := s.cur.append(buf, &s.stamp, s.ahead()); err != nil {
		return 0, err
	}
	s.counters.logBytes.Add(s.cur.end - before)
	s.counters.written.Add(uint64(s.cur.end - before))
	return at, nil
}

// ahead is what is written ahead of small batches. io is held.
func (s *Store) ahead() []byte {
	if s.Policy() != Always {
		return nil
	}
	if s.zeros == nil {
		s.zeros = make([]byte, aheadBytes)
	}
	return s.zeros
}

// setStamp reads the clocks for the next batch. io is held.
func (s *Store) setStamp() {
	s.stamp.clock = max(s.stamp.clock, s.o.Now())
	_, s.stamp.boot = s.o.Boot()
}

// cut sets aside what the parts have: of a step that enters the gate, all or nothing.
func (s *Store) cut() {
	s.gate.Close()
	defer s.gate.Open()
	for i := range s.o.Parts {
		s.o.Parts[i].Cut()
	}
}
