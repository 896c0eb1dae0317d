package state

// A long state of LOG, one of leases of LongLease bytes or more, those of HOLDS and long values have a revision, which grows by one
// with each record of a change. It is the end of the state's head: the expiry if there is one, the tag of
// LOG, and the revision. The body follows.

const (
	// LongLease is the least number of bytes of a state of leases with a revision.
	LongLease = 256
	// RevisionSize is the size of a revision, in bytes.
	RevisionSize = 4

	// LongLogTag is the tag of a LOG that may be long, and HeldBit is set in it if the log is held for a
	// longer period than that asked for.
	LongLogTag = 0x9f
	HeldBit    = 0x20
	// LongLogHead is the size of what stands before the tokens of a LOG with that tag. One without tokens has no
	// revision.
	LongLogHead = 45
)

// HeadSize returns the size of the head of states in records of kind k; 0 if they do not change in parts.
func (k Kind) HeadSize() int {
	switch {
	case k == LongLog:
		return expirySize + 1 + RevisionSize
	case k != LongLeases && k != HOLDS && k < LONGSTRING || k >= Foreign:
		return 0
	case k.Timed():
		return expirySize + RevisionSize
	}
	return RevisionSize
}

// Recorded returns the kind of records of a state of kind k. It is another than k if the state has a
// revision.
func (k Kind) Recorded(state []byte) Kind {
	switch {
	case k == LEASE && len(state) >= LongLease:
		return LongLeases
	case k == LOG && len(state) > LongLogHead && state[expirySize]|HeldBit == LongLogTag|HeldBit:
		return LongLog
	}
	return k
}

// Restored returns the kind of the states that records of kind k have.
func (k Kind) Restored() Kind {
	switch k {
	case LongLeases:
		return LEASE
	case LongLog:
		return LOG
	}
	return k
}
