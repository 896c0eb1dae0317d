package persistence

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/internal/disk"
)

// health says whether writers must be refused, and tells the server.
type health struct {
	log      *slog.Logger
	refusing func(error) // Options.Refusing
	fatal    func(error) // Options.Fatal
	broken   chan struct{}

	failure atomic.Pointer[failure] // why the log cannot be written; nil if it can
	stalled atomic.Bool             // the disk is too slow
	telling sync.Mutex              // held while refusing is called
	// maxUnsynced is Options.MaxUnsynced.
	maxUnsynced atomic.Int64
}

type failure struct{ err error }

// stalledAfter is the default of Options.MaxUnsynced. Beyond it, a power cut would lose too much that clients were told, or
// too much would gather in memory.
const stalledAfter = 2 * time.Second

// Failing returns why the log cannot be written, or nil if it can. Writers must be refused until then; see
// rescue. It is cheap.
func (h *health) Failing() error {
	if f := h.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// SetMaxUnsynced changes Options.MaxUnsynced, in ns; 0 means the default.
func (h *health) SetMaxUnsynced(ns int64) {
	if ns == 0 {
		ns = int64(stalledAfter)
	}
	h.maxUnsynced.Store(ns)
}

// failed notes that the log cannot be written, for good if final is set, and asks for a rescue otherwise.
func (h *health) failed(err error, final bool) {
	h.failure.Store(&failure{err})
	if final {
		h.log.Error("the log cannot be written", "err", err)
		if h.fatal != nil {
			h.fatal(err)
		}
		return
	}
	h.tell()
	h.log.Error("the log cannot be written: commands that change something are refused until a new snapshot is durable", "err", err, "full", disk.NoRoom(err))
	signal(h.broken)
}

// look refuses writers while age, that of the oldest change which should be durable, is above the bound.
func (h *health) look(age int64) {
	stalled := age > h.maxUnsynced.Load()
	if stalled == h.stalled.Load() {
		return
	}
	h.stalled.Store(stalled)
	if stalled {
		h.log.Warn("a sync of the log hangs: commands that change something are refused meanwhile")
	} else {
		h.log.Info("the log is synced again")
	}
	h.tell()
}

// tell reports to Options.Refusing whether writers must be refused, and why.
func (h *health) tell() {
	h.telling.Lock()
	defer h.telling.Unlock()
	err := h.Failing()
	if err == nil && h.stalled.Load() {
		err = fmt.Errorf("the disk has not synced what was written for %v", time.Duration(h.maxUnsynced.Load()))
	}
	if h.refusing != nil {
		h.refusing(err)
	}
}

// signal wakes the receiver of c, now or the next time it receives.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
