package persistence

import "limitdb/internal/journal"

// A Part is one holder of state. The engine's table is one; what else has
// state that must survive (rules, say) joins by being another, with kinds of its own
// from journal.Foreign on. Records are in the encoding of package journal.
type Part struct {
	// Owns reports whether records of a kind belong to this part.
	Owns func(kind byte) bool

	// Dirty reports whether there is anything to cut. It must be true from
	// before a change can be seen by anybody until a Cut that has it begins,
	// and be cheap: it is asked for every reply under Always. The part calls
	// what Resume was given when it becomes true.
	Dirty func() bool
	// Cut sets aside the records of all changes since the last call. The store closes its
	// gate before it cuts the first part and opens it after the last, so it must be quick. A step
	// that enters the gate is then in one cut with all its changes, in whichever parts they are.
	Cut func()
	// Drain adds the records that the last Cut has set aside. Those of one key are in their order.
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
	// are valid during the call only; an error that is journal.ErrNewer says that one is of a newer version; the slice may be changed, what they point to may not.
	Apply func(records []journal.Record, share, shares int) error
	// Resume ends recovery: versions of changes from now on must be above this one, gate is what
	// steps enter that must be in one cut as a whole, and dirtied is to be called when Dirty becomes true.
	Resume func(version uint64, gate *journal.Gate, dirtied func())
}

// owner returns the part that a kind belongs to, nil for none.
func owner(parts []Part, kind byte) *Part {
	for i := range parts {
		if parts[i].Owns(kind) {
			return &parts[i]
		}
	}
	return nil
}
