package persistence

import "limitdb/internal/journal"

// A Part is one holder of state, such as the engine's table. Something else with state that must survive
// joins as another Part, with its own kinds of record from journal.Foreign on. Records have the encoding of
// package journal.
type Part struct {
	// Owns reports whether records of a kind belong to this part.
	Owns func(kind byte) bool

	// Dirty reports whether there is anything to cut. It must become true before anybody can see a change,
	// and stay true until the Cut that takes the change begins. It must be cheap, since the store calls it
	// for every reply under Always. When it becomes true, the part calls the function that Resume was given.
	Dirty func() bool
	// Cut sets aside the records of all changes since the last call. The store closes its gate before it cuts
	// the first part and opens it after the last, so Cut must be quick. All changes of a step that enters the
	// gate are then in one cut, in whichever parts they are.
	Cut func()
	// Drain adds records that the last Cut set aside, until dst has about limit bytes, and reports whether
	// there may be more. The store calls it until there are none. The records of one key are in order.
	Drain func(dst *journal.Buffer, limit int) (more bool)
	// Copy adds Set records with the states of some keys, beginning at a cursor, and returns the next cursor.
	// The first cursor is 0, and Copy returns 0 when it is done. A key that exists throughout is copied at
	// least once; a later copy has its later state. The version of a copied record is at least that of each
	// earlier change of the key, and at most that of each later one.
	Copy func(cursor uint64, dst *journal.Buffer) (next uint64)

	// Expect is called before the first Apply with about how many keys will come. There are fewer if some
	// have expired since, and more if a log follows. It is not called if the number is unknown.
	Expect func(keys int64) error
	// Apply applies recovered changes, Sets, Changes and Deletes of this part's kinds, in order. It is called once for
	// each share from 0 to shares−1 with the same records, at the same time for different shares. The part
	// decides by the key which share a record is in, and skips the records of other shares. The records are
	// valid only during the call: Apply may change the slice, but not what the records point to. It returns
	// journal.ErrNewer if a newer version wrote a record.
	Apply func(records []journal.Record, share, shares int) error
	// Missed returns a key that lacks the state that one of its Changes needs, after all records were applied;
	// see engine.Missed. It is nil for a part without Changes.
	Missed func() (key string, ok bool)
	// Resume ends recovery. From now on, versions of changes must be above version, a step whose changes must
	// be in one cut must enter gate, and the part must call dirtied when Dirty becomes true.
	Resume func(version uint64, gate *journal.Gate, dirtied func())
}

// owner returns the part that owns a kind, or nil.
func owner(parts []Part, kind byte) *Part {
	for i := range parts {
		if parts[i].Owns(kind) {
			return &parts[i]
		}
	}
	return nil
}
