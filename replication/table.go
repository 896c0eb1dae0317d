package replication

import (
	"errors"

	"limitdb/internal/journal"
)

// Table holds the states of a node.
type Table interface {
	// Lead lets decisions use the table from now on. Their time is Clock.Elapsed plus ahead. The table keeps records of
	// its changes; the records of a step that enters the gate are all in one cut. The table calls dirtied when it has changes to cut and had none before; dirtied does not block.
	Lead(ahead int64, gate *journal.Gate, dirtied func())
	// Pause refuses new decisions. It waits for those that have begun, but not for long, so some may still be made. The next call is Follow or Lead.
	Pause()
	// Follow ends all decisions. When it returns, no step can change the table, and requests that wait have been told
	// to ask again. The table may still have changes that were not drained. Follow does not wait until replies are
	// sent.
	Follow()
	// Dirty, Cut and Drain are called between Lead and Follow, Cut with the gate closed. Drain adds records that the
	// last Cut has set aside, until dst has about limit bytes, and reports whether there may be more. If a state would
	// expire by reached, later Cuts record it whole, because other nodes may have dropped it.
	Dirty() bool
	Cut(reached int64)
	Drain(dst *journal.Buffer, limit int) (more bool)
	// Clear empties the table. No decisions use it meanwhile.
	Clear() error
	// Apply applies records in order. now is the replicated time; no replicated state expires before it.
	Apply(now int64, records []journal.Record) error
	// Missed returns a key with a Change whose state was missing, unless a later record has set or deleted the key, or
	// the state has expired at now.
	Missed(now int64) (key string, ok bool)
	// Copy adds the next states at a cursor and returns the next cursor. The first cursor is 0; Copy returns 0 at the
	// end. Decisions may use the table meanwhile.
	Copy(now int64, cursor uint64, dst *journal.Buffer) (next uint64)
}

// Clock is a node's own time, in nanoseconds.
type Clock struct {
	// Wall is the machine's clock, Unix time.
	Wall func() int64
	// Elapsed is a monotonic time, which neither jumps nor goes back.
	Elapsed func() int64
	// Boot returns an id of the machine's boot and the time since it; the id is 0 if unknown. Boot is nil if neither is
	// known.
	Boot func() (id uint64, elapsed int64)
}

// ErrUnknown is the outcome of a step whose node abdicated before the step was known to be accepted. The step may have
// been counted.
var ErrUnknown = errors.New("replication: the outcome is not known")

// ErrNotReady is returned if a node cannot do something at present, because it is rebuilding its table or does not
// lead.
var ErrNotReady = errors.New("replication: not now")
