package clock

// A Mark says which time it was when a machine had run for how long. If the machine has not been restarted since, its own
// count of the time tells how late it is now, even if somebody has changed its wall clock.
type Mark struct {
	Time    int64  // Unix ns
	Boot    uint64 // names the machine's start; 0 if it is unknown
	Elapsed int64  // since then, in ns
}

// Now returns the time at which a machine has run for elapsed ns since a start. ok is false if the mark is of another
// start, or there is none.
func (m Mark) Now(boot uint64, elapsed int64) (now int64, ok bool) {
	if m.Time <= 0 || m.Boot == 0 || m.Boot != boot || elapsed < m.Elapsed {
		return 0, false
	}
	return m.Time + elapsed - m.Elapsed, true
}
