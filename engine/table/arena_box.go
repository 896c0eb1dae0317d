package table

import "unsafe"

// A box is arena memory for one long state. A box of up to a span's size is a
// span, and grows and shrinks in it by pages. A larger box is a mapping of its
// own, with an eighth to spare, so that a growing state is copied only a few
// times for all its bytes.

// boxSize returns the size of a new box for n bytes.
func (a *Arena) boxSize(n int) int {
	if n > spanSize {
		n += n / 8
	}
	return a.pages(n)
}

// resize returns a box that holds state and has room for more bytes; its
// capacity is whole pages. state may lie in the old box. The old box, and a state in it, must not be used
// afterwards. The error is one of the system; nothing has changed then.
func (a *Arena) resize(box, state []byte, more int) ([]byte, error) {
	need := a.boxSize(len(state) + more)
	if base := unsafe.SliceData(box); base != nil && max(cap(box), need) <= spanSize {
		discard(unsafe.Pointer(base), need, cap(box))
		a.budget.add(need - cap(box))
		next := unsafe.Slice(base, need)[:len(state)]
		copy(next, state) // copies nothing if it is already in place
		return next, nil
	}
	next, err := a.allot(len(state) + more)
	if err != nil {
		return nil, err
	}
	next = append(next, state...)
	a.free(box)
	return next, nil
}

// allot returns an empty box for n bytes.
func (a *Arena) allot(n int) ([]byte, error) {
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
func (a *Arena) free(box []byte) {
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
