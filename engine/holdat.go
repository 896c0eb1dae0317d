package engine

import (
	"bytes"

	"limitdb/engine/table"
	"limitdb/hold"
	"limitdb/limit"
)

// The short way of a hold, of its settlement, and of a request that counts once: a key and the record beside it change
// under one lock, as TakeAt changes a key. Whatever is rare is left to a step, which does the same: an id that another request has used, a request
// that others wait for, a block, an estimate that is to go back first, a set that is full, a state or a box that has no room.
//
// The key is stored first. If there is no room for the record beside it, the key gets back what it had, and the step, which can make
// room for both, begins anew.

// HoldAt is Txn.Take of a cost, all or nothing, in a step of its own, for a request that is held, without a List, or counts once. place is that of the
// key, which Warm has returned, or zero. The errors are those of Take for such a request.
func (e *Engine) HoldAt(place Place, now int64, key []byte, l *limit.Limit, cost int64, r *Hold, d *limit.Decision) error {
	h := uint64(place)
	if h == 0 {
		h, _ = e.place(key)
	}
	if cost > 0 {
		s := e.shardOf(h)
		s.mu.Lock()
		err := holdIn(s, now, h, key, l, cost, r, d, &e.core)
		s.mu.Unlock()
		if err != errBehind {
			return err
		}
	}
	own := Hold{ID: bytes.Clone(r.ID), TTL: r.TTL, Returns: r.Returns} // a step keeps what it is given, so that *r and *r.Once would be allocated
	if r.Once != nil {
		once := *r.Once
		own.Once = &once
	}
	req := Request{Limit: *l, Cost: cost, Hold: &own}
	err := e.update(Place(h), now, [][]byte{key}, func(t *Txn) error {
		_, err := t.Take(key, &req, d)
		return err
	})
	if r.Again = own.Again; r.Once != nil {
		r.Once.Again = own.Once.Again
	}
	return err
}

// SettleAt is Settle in a step of its own; place is that of the key, as for HoldAt.
func (e *Engine) SettleAt(place Place, now int64, key, id []byte, actual int64, s *Settlement) error {
	return e.settleAt(place, now, key, id, actual, hold.Committed, s)
}

// GiveUpAt is GiveUp in a step of its own; place is that of the key, as for HoldAt.
func (e *Engine) GiveUpAt(place Place, now int64, key, id []byte, s *Settlement) error {
	return e.settleAt(place, now, key, id, 0, hold.Cancelled, s)
}

func (e *Engine) settleAt(place Place, now int64, key, id []byte, actual int64, as hold.Status, out *Settlement) error {
	h := uint64(place)
	if h == 0 {
		h, _ = e.place(key)
	}
	s := e.shardOf(h)
	s.mu.Lock()
	err := settleIn(s, now, h, key, id, actual, as, out, &e.core)
	s.mu.Unlock()
	if err != errBehind {
		return err
	}
	return e.update(Place(h), now, [][]byte{key}, func(t *Txn) error { return settle(t, key, id, actual, as, false, out) })
}

// shortWay is what a shard keeps for the short way.
type shortWay struct {
	edit     hold.Edit
	packed   []byte      // what the last request asked for, and
	packs    limit.Limit // its limit, if that is one
	unpacked []byte      // the limit of the last settlement, and
	unpacks  limit.Limit // what it is
}

// couple is a key and the record beside it, in a shard that is locked.
type couple struct {
	s           *shard
	now         int64
	key, beside table.Spot
	set         hold.Set // empty for none
	state       []byte   // of the key
	known       hold.Entry
}

// find finds a key, what is beside it, and what is known of an id. The error errBehind leaves all to a step.
func (p *couple) find(s *shard, now int64, h uint64, key, id []byte) (known bool, err error) {
	if s.waits.Any() && (s.waits.Find(key) != nil || s.waits.LastTurn(key) != nil) {
		return false, errBehind
	}
	if s.short == nil {
		s.short = new(shortWay)
	}
	p.s, p.now = s, s.clamp(now)
	p.key.Hash, p.key.Key = h, key
	p.beside.Hash, p.beside.Key, p.beside.Beside = table.Beside(h), key, true
	s.table.FindBoth(&p.key, &p.beside)
	if p.key.Found() {
		if p.state = s.table.KeyState(&p.key); table.Expires(p.key.Kind(), p.state) <= p.now {
			s.table.Live(p.now, &p.key)
			s.table.FindBoth(&p.key, &p.beside)
			p.state = nil
		}
	}
	if !p.beside.Found() {
		return false, nil
	}
	if set := hold.Set(s.table.State(&p.beside)); table.Expires(limit.HOLDS, set) > p.now {
		if set.Due(p.now) {
			return false, errBehind
		}
		p.set = set
	}
	return p.set.Find(p.now, id, &p.known), nil
}

// open has the state of the key be one for a limit.
func (p *couple) open(l *limit.Limit) (err error) {
	if len(p.state) > 0 && len(p.state) <= limit.MaxState && p.key.Kind() == l.Algorithm.Kind() { // nearly always
		return nil
	}
	if p.state, err = p.s.stateFor(&p.key, l); err == errBlock || len(p.state) > limit.MaxState {
		return errBehind
	}
	return err
}

// holdIn is HoldAt in the key's shard, which is locked. The error errBehind leaves the decision to a step.
func holdIn(s *shard, now int64, h uint64, key []byte, l *limit.Limit, cost int64, r *Hold, d *limit.Decision, e *core) error {
	id, o := r.ID, r.Once
	if r.Again = false; o != nil {
		o.Again, id = false, o.ID
	}
	var p couple
	known, err := p.find(s, now, h, key, id)
	if known && p.isAgain(l, cost, r) {
		return p.again(l, r, d)
	}
	if known || err != nil {
		return errBehind
	}
	entry, ok := r.entry(p.now, s.short.askedOf(l, o))
	if !ok || !p.set.Takes(&entry) {
		return errBehind
	}
	if err := p.open(l); err != nil {
		return err
	}
	next, err := limit.Take(l, p.state, p.now, cost, s.next[:0], d)
	switch {
	case err != nil:
		return err
	case d.Limited && l.Block > 0:
		return errBehind
	case d.Limited:
		if err = s.commit(p.now, &p.key, p.key.Mark(l, cost, d), next, d); err == table.ErrNoRoom { // of a denial that counts
			return errBehind
		}
		return err
	}
	r.granted(&entry, p.now, cost, d)
	entry.Place(&p.known)
	if p.set.Add(&s.short.edit, p.now, &entry, e.seedOf(p.beside.Hash)) != nil {
		return errBehind
	}
	if err := p.store(p.key.Mark(l, cost, d), next, false, false); err != nil {
		return errBehind
	}
	if o == nil {
		s.held[holdsTaken]++
	}
	if s.count(d) {
		s.follow(p.now, h, key)
	}
	return nil
}

// isAgain reports whether a request whose id is known was granted before, and is the same.
func (p *couple) isAgain(l *limit.Limit, cost int64, r *Hold) bool {
	if r.Once != nil {
		return r.Once.made(&p.known)
	}
	return r.made(&p.known, p.now, cost) && string(p.known.Limit) == string(p.s.short.askedOf(l, nil))
}

// again answers a request that was granted before: it takes nothing.
func (p *couple) again(l *limit.Limit, r *Hold, d *limit.Decision) error {
	if err := p.open(l); err != nil {
		return err
	}
	if err := limit.Peek(l, p.state, p.now, 0, d); err != nil {
		return err
	}
	if p.s.allowed++; r.Once == nil {
		d.Limited, d.Wait, r.Again = false, limit.Never, true
		return nil
	}
	grantedBefore(&p.known, p.now, d)
	r.Once.Again = true
	p.s.held[onceRepeated]++
	return nil
}

// askedOf returns what the entry of a request under l, which may count once, says of what was asked for.
func (w *shortWay) askedOf(l *limit.Limit, o *Once) []byte {
	if o != nil {
		w.packs, w.packed = limit.Limit{}, o.appendAsked(w.packed[:0])
	} else if w.packs != *l || len(w.packed) == 0 { // nearly all are the same
		w.packs, w.packed = *l, limit.Pack(w.packed[:0], l)
	}
	return w.packed
}

// unpack is limit.Unpack. Nearly all limits are the same.
func (w *shortWay) unpack(b []byte, zones *limit.Zones, l *limit.Limit) error {
	if len(b) > 0 && string(b) == string(w.unpacked) {
		*l = w.unpacks
		return nil
	}
	err := limit.Unpack(b, zones, l)
	if err == nil {
		w.unpacks, w.unpacked = *l, append(w.unpacked[:0], b...)
	}
	return err
}

// settleIn is SettleAt and GiveUpAt in the key's shard, which is locked. The error errBehind leaves it to a step.
func settleIn(s *shard, now int64, h uint64, key, id []byte, actual int64, as hold.Status, out *Settlement, e *core) error {
	var p couple
	known, err := p.find(s, now, h, key, id)
	if !known || err != nil || p.known.Settled() || p.known.Status == hold.Once {
		return errBehind
	}
	entry := &p.known
	*out = Settlement{}
	if s.short.unpack(entry.Limit, &e.zones, &out.Limit) != nil || p.open(&out.Limit) != nil {
		return errBehind
	}
	next, err := settleState(p.state, p.key.Found(), entry, out.costs(entry, actual), p.set.Void(), p.now, s.next[:0], out)
	if err != nil {
		return err
	}
	out.of(entry, as, p.now)
	p.set.Change(&s.short.edit, p.now, entry)
	if p.store(p.key.Mark(&out.Limit, 1, &out.Decision), next, p.key.Found(), true) != nil {
		return errBehind
	}
	if s.held[holdsSettled]++; out.Over > 0 {
		s.held[holdsOver]++
	}
	return nil
}

// store stores the next state of the key, unless that is nil, and the shard's edit of the set beside it: both, or neither. must has the
// key's state ignore the budget, and mustSet the set.
func (p *couple) store(m table.Mark, next []byte, must, mustSet bool) error {
	s, had := p.s, p.key.Found()
	if s.short.edit.Whole == nil && p.beside.Boxed() && cap(p.set)-len(p.set) < s.short.edit.More() {
		return errBehind
	}
	if s.changes != nil { // the last cut has both of before
		s.payFirst(&p.key)
		s.payFirst(&p.beside)
	}
	if w := s.short.edit.Whole; next != nil && table.Join(&p.key, &p.beside, len(next), len(w)) && table.Expires(m.Kind(), next) > p.now && (s.changes == nil || len(w) < longState) {
		return p.storeBoth(m, next, w, must)
	}
	var room [limit.MaxState]byte
	var was table.Mark
	old := room[:copy(room[:], p.state)]
	if had {
		was = p.key.WasMark()
	}
	if next != nil {
		stays := had && len(next) == len(old) && table.Expires(m.Kind(), next) > p.now
		if err := s.store(p.now, &p.key, m, next, must); err != nil {
			return err
		}
		if !stays { // records may have moved
			s.table.FindBoth(&p.key, &p.beside)
		}
	}
	if p.beside.Found() {
		if err := p.storeSet(mustSet); err == nil {
			return nil
		}
	} else {
		s.table.Pin(&p.key, true) // what is beside it protects it from now on
		err := p.storeSet(mustSet)
		s.table.Find(&p.key)
		if s.table.Pin(&p.key, false); err == nil {
			return nil
		}
	}
	if s.table.Find(&p.key); next != nil {
		if !had {
			was, old = m, nil
		}
		if err := s.store(p.now, &p.key, was, old, true); err != nil {
			return err
		}
	}
	return errBehind
}

// storeBoth stores the next state of the key and a new set in one record.
func (p *couple) storeBoth(m table.Mark, next []byte, set hold.Set, must bool) error {
	s, c := p.s, p.s.changes
	var at, beside, end int // of the records
	if c != nil {
		at = c.set(m.Kind(), p.key.Key, next)
		beside = c.set(limit.HOLDS, p.key.Key, set)
		end = len(c.buf.Bytes)
	}
	err := s.table.PutBoth(p.now, &p.key, m, next, set, must)
	switch {
	case err == nil && s.watched != nil:
		s.touch(&p.key)
		s.touch(&p.beside)
	case err != nil && c != nil:
		c.buf.Cut(beside, end-beside) // other records may follow it
		c.buf.Cut(at, beside-at)
	}
	return err
}

// storeSet stores the shard's edit of the set. It ignores the budget if must is set.
func (p *couple) storeSet(must bool) (err error) {
	s, w, m := p.s, &p.s.short.edit, table.Unknown(limit.HOLDS)
	if w.Whole != nil {
		return s.store(p.now, &p.beside, m, w.Whole, must)
	}
	state := p.set // a box stays where it is
	if !p.beside.Boxed() {
		state = s.table.State(&p.beside)
	}
	before, until := len(state)-len(w.Head), table.Expires(limit.HOLDS, state)
	if p.beside.Boxed() {
		err = s.put(p.now, &p.beside, m, w.Apply(state), must)
	} else {
		buf := s.buffers.get()
		next := w.Apply(append((*buf)[:0], state...))
		err = s.put(p.now, &p.beside, m, next, must)
		s.buffers.put(buf, next)
	}
	if c := s.changes; err == nil && c != nil {
		c.splices = appendSplices(c.splices[:0], w)
		c.change(&p.beside, limit.HOLDS, w.Head, before, until, c.splices, before+w.More())
	}
	return err
}
