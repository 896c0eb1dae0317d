//go:build selfcheck

package engine

// check verifies every invariant of the engine and panics if one does not hold.
// No method of the engine may run meanwhile.
func (e *core) check() {
	want := len(e.shards) * shardBytes
	for i := range e.shards {
		want += e.shards[i].table.Check()
	}
	e.checkWaits()
	e.arena.Check(want)
}
