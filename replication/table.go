package replication

import (
	"errors"

	"limitdb/internal/journal"
)

// Table is what a node asks of whoever holds the states.
type Table interface {
	// Lead lets the table be decided on, at the time that is Clock.Elapsed plus ahead, and has it keep records of what changes, of
	// which a step that enters the gate is in one cut as a whole. Unless parts is set, no record is a Change. dirtied is called when there is something to cut and there
	// was not; it does not block.
	Lead(ahead int64, parts bool, gate *journal.Gate, dirtied func())
	// Pause refuses decisions from now on. Those that have begun may still be made. Follow or Lead comes next.
	Pause()
	// Follow ends that. When it returns, no step passes any more, and whoever waits for one is told to ask
	// again. The table may have changes then that nobody has drained. It does not wait for a reply to leave.
	Follow()
	// Dirty, Cut and Drain are called while the table is decided on, Cut with the gate closed. Drain adds
	// records that the last Cut has set aside, until dst has about limit bytes, and reports whether there may
	// be more. A state that would expire by reached is not changed in part in what a later Cut sets aside: other nodes
	// may have dropped it.
	Dirty() bool
	Cut(reached int64)
	Drain(dst *journal.Buffer, limit int) (more bool)
	// Clear empties the table, which is not decided on.
	Clear() error
	// Apply applies records, in their order. now is the replicated time, before which nothing expires that was replicated.
	Apply(now int64, records []journal.Record) error
	// Missed returns a key whose state a Change has not found, and that no later record has set right, unless it has
	// expired at now.
	Missed(now int64) (key string, ok bool)
	// Copy adds some of the states, those that come next at a cursor, and returns the cursor behind
	// them; 0 to begin, and 0 at the end. Meanwhile the table may be decided on.
	Copy(now int64, cursor uint64, dst *journal.Buffer) (next uint64)
}

// Clock is a node's own time, in nanoseconds.
type Clock struct {
	// Wall is the machine's clock, Unix time.
	Wall func() int64
	// Elapsed is a monotonic time: it neither jumps nor goes back.
	Elapsed func() int64
	// Boot is an id of the machine's run, 0 where that is not known, and the time since that began. nil: nothing of it is known.
	Boot func() (id uint64, elapsed int64)
}

// ErrUnknown is the outcome of a step whose node has abdicated before it was known to be accepted: it
// may have been counted.
var ErrUnknown = errors.New("replication: the outcome is not known")

// ErrNotReady is returned for what a node cannot do just now: it builds its table anew, or does not lead.
var ErrNotReady = errors.New("replication: not now")
