package engine

import (
	"limitdb/limit"
)

// What the model does with the blocks of its keys.

// mismatch reports whether a key holds what l cannot read. While a key is blocked, that does not matter.
func (x modelEntry) mismatch(now int64, l *limit.Limit) bool {
	if x.kind != limit.BLOCK {
		return !limit.SameFamily(x.kind, l.Algorithm.Kind())
	}
	var b limit.Block
	kind, _, err := b.Open(x.state, now)
	return err != nil || kind != 0 && !limit.SameFamily(kind, l.Algorithm.Kind()) && b.Left(l, now) == 0
}

// within runs fn on what a key's block is around.
func (x modelEntry) within(now int64, l *limit.Limit, fn func(b *limit.Block, state []byte) ([]byte, error)) (next []byte, as limit.Kind, err error) {
	var b limit.Block
	state := x.state
	if x.kind == limit.BLOCK {
		var kind limit.Kind
		if kind, state, err = b.Open(x.state, now); err != nil || !limit.SameFamily(kind, l.Algorithm.Kind()) {
			state = nil
		}
	}
	next, err = fn(&b, state)
	if err != nil || next == nil || !b.Remembered(now) {
		return next, l.Algorithm.Kind(), err
	}
	if limit.Expires(l.Algorithm.Kind(), next) <= now {
		next = nil
	}
	return b.Put(nil, l.Algorithm.Kind(), next), limit.BLOCK, nil
}

// reserve is limit.Reserve.
func (x modelEntry) reserve(now int64, l *limit.Limit, cost, maxWait int64, d *limit.Decision) (next []byte, as limit.Kind, err error) {
	left, inner, kind := int64(0), []byte(nil), x.kind
	if kind == limit.BLOCK {
		var b limit.Block
		kind, _, _ = b.Open(x.state, now)
	}
	next, as, err = x.within(now, l, func(b *limit.Block, state []byte) ([]byte, error) {
		inner = state
		if left = b.Left(l, now); left == 0 {
			next, err := limit.Reserve(l, state, now, cost, maxWait, nil, d)
			if next != nil {
				inner, kind = next, l.Algorithm.Kind()
			}
			return next, err
		}
		if _, err := limit.Reserve(l, state, now, cost, maxWait, nil, d); err == limit.ErrReserve {
			return nil, err
		}
		moved, err := limit.PeekMoved(l, state, now, cost, nil, d)
		b.Deny(now, left, d)
		return moved, err
	})
	if err != nil || left > 0 || !d.Limited || cost == 0 || l.Block == 0 {
		return next, as, err
	}
	var b limit.Block
	if x.kind == limit.BLOCK {
		_, _, _ = b.Open(x.state, now)
	}
	err = b.Begin(l, now)
	b.Deny(now, b.Length, d)
	return b.Put(nil, kind, inner), limit.BLOCK, err
}

// takePart takes as much as it can, trying one less each time.
func (x modelEntry) takePart(now int64, l *limit.Limit, cost int64, d *limit.Decision) (next []byte, as limit.Kind, granted int64, err error) {
	for ; cost > 1; cost-- {
		_, _, err := x.within(now, l, func(_ *limit.Block, state []byte) ([]byte, error) {
			return nil, limit.Peek(l, state, now, cost, d)
		})
		if err != nil {
			return nil, 0, 0, err
		}
		if !d.Limited {
			break
		}
	}
	if next, as, err = limit.TakeBlock(l, x.kind, x.state, now, cost, nil, d); err == nil && !d.Limited {
		granted = cost
	}
	return next, as, granted, err
}
