package engine

import "unsafe"

// Boxes are memory of the arena for one long state each. One of up to a span's
// bytes has a span, in which it grows and shrinks by pages; a larger one is
// mapped by itself, with an eighth to spare, so that one that grows is copied a few
// times for all its bytes.

// boxSize is how many bytes a new box for n bytes has.
func (a *arena) boxSize(n int) int {
	if n > spanSize {
		n += n / 8
	}
	return a.pages(n)
}

// resize returns a box that holds state, which may be in the old box, and has whole
// pages as its capacity. The old box, and a state in it, must not be used any more.
// The error is one of the system; nothing has changed then.
func (a *arena) resize(box, state []byte) ([]byte, error) {
	need := a.boxSize(len(state))
	if base := unsafe.SliceData(box); base != nil && max(cap(box), need) <= spanSize {
		discard(unsafe.Pointer(base), need, cap(box))
		a.budget.add(need - cap(box))
		next := unsafe.Slice(base, need)[:len(state)]
		copy(next, state) // nothing, where it is in place already
		return next, nil
	}
	next, err := a.allot(len(state))
	if err != nil {
		return nil, err
	}
	next = append(next, state...)
	a.free(box)
	return next, nil
}

// allot returns an empty box for n bytes.
func (a *arena) allot(n int) ([]byte, error) {
	if n <= spanSize {
		base, touched, err := a.get(n)
		if err != nil {
			return nil, err
		}
		return unsafe.Slice((*byte)(base), touched)[:0], nil
	}
	region, err := reserve(a.boxSize(n))
	if err != nil {
		return nil, err
	}
	a.budget.add(len(region))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.regions.large == nil {
		a.regions.large = map[*byte][]byte{}
	}
	a.regions.large[&region[0]] = region
	return region[:0], nil
}

// free gives a box back.
func (a *arena) free(box []byte) {
	base, size := unsafe.SliceData(box), cap(box)
	if size <= spanSize {
		if size > 0 {
			a.release(warmSpan{unsafe.Pointer(base), size})
		}
		return
	}
	a.mu.Lock()
	region := a.regions.large[base]
	delete(a.regions.large, base)
	a.mu.Unlock()
	unreserve(region)
	a.budget.add(-size)
}

// lateGrowth is more than one step makes a long state longer by.
const lateGrowth = 256

// tight reports whether the box of a key that is there may have to grow, and the
// budget would not let it.
func (t *table) tight(h uint64, key []byte) bool {
	g, at := t.find(h, key)
	if at == nil || !g.record(at).isBoxed() {
		return false
	}
	state := t.state(g.record(at))
	return cap(state)-len(state) < lateGrowth && t.arena.budget.over(t.arena.page)
}
