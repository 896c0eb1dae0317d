package pulse

import "sync/atomic"

// Age tracks since when there is work that is not finished, where work is finished in rounds and more comes during a round:
// bytes that are written, and synced later. Times are in ns of any clock; 0 means none. One goroutine at a time calls Begin
// and Add.
type Age struct {
	// oldest is when the oldest work came that is in no round. round is the same for the round in progress.
	oldest, round atomic.Int64
}

// Add notes that work has come at now.
func (a *Age) Add(now int64) {
	if a.oldest.Load() == 0 {
		a.oldest.Store(now)
	}
}

// Begin begins a round with all work so far. If the last round has failed, its work is in this one as well.
func (a *Age) Begin() {
	if a.round.Load() == 0 {
		a.round.Store(a.oldest.Load())
	}
	a.oldest.Store(0)
}

// End ends the round: its work is finished.
func (a *Age) End() { a.round.Store(0) }

// Drop forgets the work that is in no round.
func (a *Age) Drop() { a.oldest.Store(0) }

// Since returns when the oldest work came that is not finished, 0 if there is none.
func (a *Age) Since() int64 {
	if t := a.round.Load(); t != 0 {
		return t
	}
	return a.oldest.Load()
}
