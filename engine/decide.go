package engine

import (
	"errors"

	"limitdb/engine/table"
	"limitdb/limit"
)

// Blocks: a denial under a limit with BLOCK shuts its key out for a while. Package limit says how, in block.go.
//
// The block is in the key's own state, whose kind is then BLOCK, so a key without one costs nothing: a decision that finds
// another kind than its own has had to look closer all along. Steps see the state of the algorithm (see stateFor), and
// put the block back around what they make of it (see writeFor). A denial begins a block once nothing else can make it none: it
// does not wait, and it was the limit that denied, not those who wait for the key.

// Info describes one live key.
type Info = table.Info

// errBehind says that the key has a queue. Take leaves such a decision to a step.
var errBehind = errors.New("engine: others wait for the key")

// TakeAt decides whether cost may be taken from key at now, takes it if so, and
// writes the answer to *d, which is valid only if the error is nil. place is that of the key,
// which Warm has returned, or zero. Errors:
// ErrWrongType, those of limit.Take, and for a new key ErrKey and ErrOOM. After
// an error nothing has changed.
//
// It is Txn.Take in a step of its own, by a way that takes two thirds of the time.
func (e *Engine) TakeAt(place Place, now int64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	h := uint64(place)
	if h == 0 {
		h, _ = e.place(key)
	}
	s := e.shardOf(h)
	s.mu.Lock()
	if s.table.Besides() > 0 {
		giveBackDue(s, &e.core, s.clamp(now), h, key)
	}
	err := s.take(now, h, key, l, cost, d)
	s.mu.Unlock()
	if err == nil {
		return nil
	}
	if err == table.ErrNoRoom && e.reclaim(now) {
		s.mu.Lock()
		err = s.take(now, h, key, l, cost, d)
		s.mu.Unlock()
	}
	if err == errBehind {
		r := Request{Limit: *l, Cost: cost}
		return e.update(Place(h), now, [][]byte{key}, func(t *Txn) error {
			_, err := t.Take(key, &r, d)
			return err
		})
	}
	return s.refuse(err)
}

// take is TakeAt in the key's shard, which is locked. The error errBehind leaves the
// decision to a step.
func (s *shard) take(now int64, h uint64, key []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	if s.waits.Any() && s.waits.Find(key) != nil {
		return errBehind
	}
	sp := table.Spot{Hash: h, Key: key}
	now = s.open(now, &sp)
	state, err := s.stateFor(&sp, l)
	if err != nil {
		if err == errBlock {
			return takeBlock(s, now, &sp, l, cost, d)
		}
		return err
	}
	next, err := limit.Take(l, state, now, cost, s.scratch(l.Algorithm.Kind(), state), d)
	if err != nil {
		return err
	}
	if d.Limited && l.Block > 0 && cost > 0 {
		return beginBlock(s, now, &sp, state, next, l, cost, d)
	}
	if len(next) > len(s.next) {
		return s.commitLong(now, &sp, sp.Mark(l, cost, d), next, state, d)
	}
	return s.commit(now, &sp, sp.Mark(l, cost, d), next, d)
}

// commitLong is commit of a long state, whose buffer the next step may use.
func (s *shard) commitLong(now int64, sp *table.Spot, m table.Mark, next, state []byte, d *limit.Decision) error {
	defer s.buffers.putLong(next, state)
	return s.commit(now, sp, m, next, d)
}

// takeBlock is take for a key whose state has the kind BLOCK. The error errBehind leaves the decision to a step.
func takeBlock(s *shard, now int64, sp *table.Spot, l *limit.Limit, cost int64, d *limit.Decision) error {
	state := s.table.State(sp)
	var b limit.Block
	kind, _, err := b.Open(state, now)
	if err != nil {
		return err
	}
	if kind == 0 && s.usedUp != 0 {
		return errBehind
	}
	if b.Left(l, now) == 0 && kind != 0 && !limit.SameFamily(kind, l.Algorithm.Kind()) {
		return ErrWrongType
	}
	buf := s.buffers.get()
	next, as, err := limit.TakeBlock(l, limit.BLOCK, state, now, cost, *buf, d)
	begins := d.Limited && l.Block > 0 && cost > 0 && b.Left(l, now) == 0
	if err == nil {
		err = commitBlock(s, now, sp, next, as, l, cost, d)
	}
	if err == nil && begins {
		s.held[blocksBegun]++
	}
	s.buffers.put(buf, next)
	return err
}

// beginBlock begins a block after a denial that has made next of a state, unless next is nil.
func beginBlock(s *shard, now int64, sp *table.Spot, state, next []byte, l *limit.Limit, cost int64, d *limit.Decision) error {
	kind := l.Algorithm.Kind()
	if next == nil {
		if next = state; sp.Found() {
			kind = sp.Kind()
		}
	}
	if limit.Expires(kind, next) <= now {
		next = nil
	}
	var b limit.Block
	if err := b.Begin(l, now); err != nil {
		return err
	}
	b.Deny(now, b.Length, d)
	buf := s.buffers.get()
	whole := b.Put(*buf, kind, next)
	err := commitBlock(s, now, sp, whole, limit.BLOCK, l, cost, d)
	if err == nil {
		s.held[blocksBegun]++
	}
	s.buffers.put(buf, whole)
	return err
}

// commitBlock is commit for a key that has, or had, a block. A key that is there ignores the budget: to refuse it a block would
// set it free.
func commitBlock(s *shard, now int64, sp *table.Spot, next []byte, as limit.Kind, l *limit.Limit, cost int64, d *limit.Decision) error {
	m := table.BlockMark(l, cost, d)
	if next != nil && as != limit.BLOCK {
		m = sp.Mark(l, cost, d)
	}
	if next == nil || !sp.Found() {
		return s.commit(now, sp, m, next, d)
	}
	if err := s.store(now, sp, m, next, true); err != nil {
		return err
	}
	if s.count(d) {
		s.follow(now, sp.Hash, sp.Key)
	}
	return nil
}
