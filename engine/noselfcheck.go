//go:build !selfcheck

package engine

// check verifies the invariants in builds with the tag selfcheck.
func (e *core) check() {}
