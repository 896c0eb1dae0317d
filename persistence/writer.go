package persistence

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/internal/disk"
	"limitdb/internal/group"
	"limitdb/internal/journal"
	"limitdb/internal/pulse"
)

// writeDelay is how long changes gather before they are written, if no reply waits for them. kill -9 can
// lose that much.
const writeDelay = 10 * time.Millisecond

// writer drains the parts, writes their records to the log, makes them durable, and releases the replies that wait for that.
//
// How a change becomes durable: its part appends a record to a buffer under a lock of its own. The writer's
// goroutine drains all buffers, writes the records as one batch, syncs if the policy says so, publishes
// what is durable, and releases the replies that wait for it. Other changes gather during a sync; the next
// batch and sync serve them all (group commit).
//
// Drains are numbered. The writer raises opened before a drain, and sets durable to that number after the
// sync. A caller of Wait whose part is dirty waits for drain opened+1, since its change may have missed the
// drain in progress. A caller whose part is clean waits for drain opened only, since everything that it can
// have seen was drained. The order of the two reads matters: dirty first.
//
// Locks, outermost first: syncing, io, the gate, mu.
type writer struct {
	health
	parts   []Part
	now     func() int64           // Options.Now
	machine func() (uint64, int64) // Options.Boot
	counters

	syncing sync.Mutex // held while a log is synced

	drains group.Drain // its gate is closed while the parts are cut

	io    sync.Mutex // guards cur, old and the fields for writing them; never held during a sync
	cur   *logFile   // the current log; nil if there is none, or it cannot be written
	old   *logFile   // the log before cur, until it is durable
	stamp batch      // clock, boot and flush of the last batch
	zeros []byte     // see ahead; made at first use, or before that by tests
	split int        // logFile.split, and the size of a piece of a drain, for tests; 0 means the default
	over  bool       // the store has ended: what the parts have is for another one

	opened, durable atomic.Uint64
	// due is when what the parts have must be written, in Unix ns; 0 if they have nothing new.
	due    atomic.Int64
	policy atomic.Uint32

	mu      sync.Mutex // guards held and retired
	held    group.Waiters
	retired bool // nobody waits any more; see Retire

	busy     pulse.Pulse // the commit in progress
	unsynced pulse.Age   // of what is written

	kick, dirtied chan struct{} // each with room for one signal
}

// SetPolicy changes the policy. Replies that wait are released at the next sync.
func (w *writer) SetPolicy(p Policy) {
	w.policy.Store(uint32(p))
	signal(w.kick)
}

// Policy returns the current policy.
func (w *writer) Policy() Policy { return Policy(w.policy.Load()) }

// Dirtied notifies the store that a part has something to drain. It never blocks.
func (w *writer) Dirtied() {
	w.due.CompareAndSwap(0, w.now()+int64(writeDelay))
	signal(w.dirtied)
}

// Wait arranges for fn(nil) to be called once every change that anyone can have seen is durable, and returns
// true. If there is nothing to wait for, or the policy is not Always, it returns false and never calls fn. The
// writer's goroutine calls fn, which must not block. The writer begins at the next Kick, so that many callers
// share one sync.
func (w *writer) Wait(fn func(error)) bool {
	if w.Policy() != Always {
		return false
	}
	at := w.position()
	if w.durable.Load() >= at {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired || w.durable.Load() >= at {
		return false
	}
	w.held.Add(at, fn)
	return true
}

// Kick wakes the writer if anybody waits or a write is due. It is cheap otherwise. Whoever makes changes calls
// it often.
//
// The writer has a timer for writes that are due, but it may fire late: Go runs a timer on the thread that set
// it, and on a busy machine the kernel may let that thread wait for 100 ms while another one keeps granting.
// A writer that the other thread has woken runs there, as soon as that thread yields.
func (w *writer) Kick() {
	if w.held.Kick() || w.overdue() {
		signal(w.kick)
	}
}

// overdue reports whether what the parts have should be written by now.
func (w *writer) overdue() bool {
	due := w.due.Load()
	return due != 0 && w.now() >= due
}

// waiting returns how many replies wait; an earlier commit may have served all.
func (w *writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held.Len()
}

// position returns the number of the drain that includes every change up to now.
func (w *writer) position() uint64 {
	dirty := w.dirty() // before opened is read; see writer
	at := w.opened.Load()
	if dirty {
		at++
	}
	return at
}

func (w *writer) dirty() bool {
	for i := range w.parts {
		if w.parts[i].Dirty() {
			return true
		}
	}
	return false
}

// gather drains the parts and writes their records.
func (w *writer) gather() error {
	w.io.Lock()
	defer w.io.Unlock()
	if w.over {
		return ErrClosed
	}
	_, err := w.flush()
	if err != nil {
		w.fail(err)
	}
	return err
}

// flush drains the parts, writes their records as one group, and returns the number of the drain. After an
// error, and without a log, it drops the records: the next base will contain everything. The caller holds io.
func (w *writer) flush() (at uint64, err error) {
	at = w.opened.Add(1) // before the drain; see writer
	w.due.Store(0)       // before the cut: later changes set it again
	w.drains.Cut(func() {
		for i := range w.parts {
			w.parts[i].Cut()
		}
	})
	begun := false
	_ = w.drains.Each(batchHeaderSize, w.drain, func(b *journal.Buffer, more bool) error {
		w.changes.Add(int64(b.Records))
		if w.cur != nil && err == nil && (begun || b.Records > 0) {
			begun, err = true, w.writeRecords(b, more)
		}
		return nil
	})
	return at, err
}

// drain fills buf with records that the parts have set aside, and reports whether there may be more.
func (w *writer) drain(buf *journal.Buffer) (more bool, err error) {
	limit := group.DrainBytes
	if w.split > 0 {
		limit = w.split
	}
	for i := range w.parts {
		if w.parts[i].Drain(buf, limit) {
			return true, nil
		}
	}
	return false, nil
}

// writeRecords writes the records in b. more means that the group continues. The caller holds io.
func (w *writer) writeRecords(b *journal.Buffer, more bool) error {
	// Read the clock after the drain, so that no decision in it is later.
	w.setStamp()
	if w.Policy() == Never {
		w.unsynced.Drop() // nothing syncs them
	} else {
		w.unsynced.Add(w.stamp.clock)
	}
	if w.split > 0 {
		w.cur.split = w.split
	}
	before := w.cur.End
	if err := w.cur.add(b, &w.stamp, w.ahead(), more); err != nil {
		return err
	}
	w.logBytes.Add(w.cur.End - before)
	w.written.Add(uint64(w.cur.End - before))
	return nil
}

// ahead returns the zeros to write ahead of small batches. The caller holds io.
func (w *writer) ahead() []byte {
	if w.Policy() != Always {
		return nil
	}
	if w.zeros == nil {
		w.zeros = make([]byte, disk.AheadBytes)
	}
	return w.zeros
}

// setStamp reads the clocks for the next batch. The caller holds io.
func (w *writer) setStamp() {
	w.stamp.clock = max(w.stamp.clock, w.now())
	_, w.stamp.boot = w.machine()
}

// newStamp returns a batch header with the current times.
func (w *writer) newStamp() batch {
	w.io.Lock()
	defer w.io.Unlock()
	w.setStamp()
	return w.stamp
}

// lag returns the age, in ns, of the oldest byte that should be written or durable by now and is not.
func (w *writer) lag() int64 {
	now := w.now()
	lag := w.busy.Stuck(now)
	if t := w.unsynced.Since(); t != 0 && w.Policy() != Never {
		lag = max(lag, now-t)
	}
	return lag
}

// fail records that the log cannot be written. The caller holds io.
//
// Bytes that were written and not synced may be lost even if a later sync succeeds, so the store never writes
// or syncs that file again. Under Always the process must end, because no waiting reply can be released.
// Under another policy, or if files were removed while the disk is sound, the store refuses writers until a
// new base, written from memory, is durable.
func (w *writer) fail(err error) {
	w.drop()
	if w.Failing() != nil {
		return // this was an attempt to recover from that failure
	}
	w.failures.Add(1)
	w.failed(err, w.Policy() == Always && !errors.Is(err, errLost))
}

// drop closes the logs. They may have failed, and no MANIFEST need name them. The caller holds io.
func (w *writer) drop() {
	for _, l := range []*logFile{w.old, w.cur} {
		if l != nil {
			l.Close()
		}
	}
	w.old, w.cur = nil, nil
	w.unsynced.Drop()
	w.unsynced.End()
}

// retire releases all who wait, and lets nobody wait any more.
func (w *writer) retire() {
	w.mu.Lock()
	w.retired = true
	ready := w.held.All()
	w.mu.Unlock()
	ready.Tell(nil)
}
