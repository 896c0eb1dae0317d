package replication

import "time"

// logTime continues the replicated time by what has elapsed. The replica's lock guards it.
type logTime struct {
	clock Clock
	at    int64 // Elapsed when the newest time was applied
	noted int64 // what an earlier run has noted: the time has reached this plus Elapsed; 0 without a note
}

// reached returns the earliest value that the replicated time can have now. newest is the newest time that was applied.
func (t *logTime) reached(newest int64) int64 {
	elapsed := t.clock.Elapsed()
	at := newest + elapsed - t.at
	if t.noted != 0 {
		at = max(at, t.noted+elapsed)
	}
	return at
}

// maxAhead is the most by which a new epoch moves the time ahead of the last replicated time plus what has elapsed
// since.
const maxAhead = int64(250 * time.Millisecond)

// beginning returns the time at which an epoch of this node would begin. It is the wall clock's time, but no earlier
// than the last replicated time plus what has elapsed since, and at most maxAhead later. If no time was ever
// replicated, it is the wall clock's. A planned epoch follows another without a gap, so that the time need not be moved: leaders of groups change often.
func (t *logTime) beginning(newest int64, planned bool) int64 {
	wall := t.clock.Wall()
	if newest == 0 {
		return wall
	}
	least := t.reached(newest)
	if planned {
		return least
	}
	return max(least, min(wall, least+maxAhead))
}
