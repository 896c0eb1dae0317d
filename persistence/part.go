package persistence

import "limitdb/internal/journal"

// A Part is one holder of state. The engine's table is one; what else has
// state that must survive (rules, say) joins by being another, with kinds of its own
// from journal.Foreign on. Records are in the encoding of package journal.
type Part struct {
	// Owns tells whether records of a kind belong to this part.
	Owns func(kind byte) bool

	// Dirty tells whether there is anything to drain. It must be true from
	// before a change can be seen by anybody until a Drain that has it begins,
	// and be cheap: it is asked for every reply under Always. The part calls
	// what Resume was given when it becomes true.
	Dirty func() bool
	// Drain adds the records of all changes since the last call. Those of
	// one key are in their order.
	Drain func(dst *journal.Buffer)
	// Copy adds Set records with the states of some of the keys, those that
	// come next at a cursor, and returns the cursor that comes after them; 0 to
	// begin, and 0 when all have been. A key that is there all the time is
	// copied at least once, a later copy being as it is later. Each has a version that the
	// key's changes until then have not above, and its changes from then on have not below.
	Copy func(cursor uint64, dst *journal.Buffer) (next uint64)

	// Expect tells, before the first Apply, that about so many keys are going to
	// come; fewer if they have expired meanwhile, more if a log follows. It is not called where that is unknown.
	Expect func(keys int64) error
	// Apply makes changes that were recovered, Sets and Deletes of this part's kinds, in their
	// order. Each record comes once for each share, from 0 to shares−1, and those of
	// different shares at the same time: a key is in one of them, which the part decides
	// by the key, and Apply passes over what is in others. The records
	// are valid during the call only; the slice may be changed, what they point to may not.
	Apply func(records []journal.Record, share, shares int) error
	// Resume ends recovery: versions of changes from now on must be above this one, and dirtied is to
	// be called when Dirty becomes true.
	Resume func(version uint64, dirtied func())
}

// owner is the part that a kind belongs to, nil for none.
func owner(parts []Part, kind byte) *Part {
	for i := range parts {
		if parts[i].Owns(kind) {
			return &parts[i]
		}
	}
	return nil
}
