package engine

import (
	"encoding/binary"

	"limitdb/hold"
	"limitdb/limit"
)

// Ids: a request that is sent again counts once.
//
// The id of a request that was granted is remembered beside a key, as those of holds are, and with it what was asked
// for. While it is known, the same request is granted again and takes nothing; a denial leaves no id. What was asked for
// is a hash, since it is only compared: two requests that are alike by chance are one in 2⁶⁴.

// remembered is what is known of an id within a step.
type remembered struct {
	hold.Entry
	beside int // the index of the item of the record
	known  bool
}

// find finds what is known of the id beside the key of the item at an index. It may move the items. The errors are
// ErrOnce, and those for an id that has no place.
func (o *Once) find(t *Txn, at int, m *remembered) (err error) {
	o.Again = false
	var set hold.Set
	if set, m.beside, err = setOf(t, at); err != nil {
		return err
	}
	if m.known = set.Find(t.now, o.ID, &m.Entry); m.known {
		if !o.made(&m.Entry) {
			return ErrOnce
		}
		o.Again = true
		t.tallies.count(onceRepeated)
		return nil
	}
	m.Entry, _ = (&Hold{Once: o}).entry(t.now, nil)
	return roomFor(t, m.beside, set, &m.Entry)
}

// made reports whether an entry is that of the same request.
func (o *Once) made(e *hold.Entry) bool {
	return e.Status == hold.Once && len(e.Limit) == 8 && binary.LittleEndian.Uint64(e.Limit) == o.Asked
}

// grantedBefore turns a peek's decision, *d, into the decision on a request that was granted before. e is the request's entry.
func grantedBefore(e *hold.Entry, now int64, d *limit.Decision) {
	if d.Limited, d.Wait = false, limit.Never; e.Back > now {
		d.Wait = e.Back - now
	}
}

// add remembers the id of a request that has taken an amount, and goes ahead after a wait. Nothing but the whole step
// may fail after it.
func (o *Once) add(t *Txn, amount, wait int64, m *remembered) error {
	if m.Amount = amount; wait > 0 {
		m.Back = later(t.now, wait)
	}
	t.packed = o.appendAsked(t.packed[:0])
	m.Limit = t.packed
	it := &t.items[m.beside]
	if err := it.takeLate(); err != nil { // a key that starts afresh has changed it
		return err
	}
	if err := hold.Set(it.State).Add(&t.holds, t.now, &m.Entry, seedOf(t, m.beside)); err != nil {
		return err
	}
	return editSet(t, m.beside, &t.holds, false)
}

// appendAsked appends what the entry of the id says of what was asked for.
func (o *Once) appendAsked(b []byte) []byte { return binary.LittleEndian.AppendUint64(b, o.Asked) }
