package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"limitdb/hold"
	"limitdb/limit"
)

// A hold of several keys that whoever settles it does not name. The record of what is known of the ids of a key of its own, which
// holds nothing, has the list of the keys: see hold.Set.MakeList. It is stored, counted, kept and forgotten as those of other keys
// are.

// The leases that were granted with the hold are in the list, too, each with an empty note. They have its id, and are given back
// when it is settled.

// Listed is a key of a hold that SettleList has found.
type Listed struct {
	Key, Note []byte // the note of a lease is empty
	// Settlement is how its hold was settled.
	Settlement
	gone bool // nothing is known of the id any longer
}

// settle settles the hold of the key, or tries that if dry is set, unless it is gone.
func (k *Listed) settle(t *Txn, id []byte, as hold.Status, dry bool, cost func(note []byte) (int64, error)) error {
	actual, err := cost(k.Note)
	if err != nil || k.gone {
		return err
	}
	if dry { // as a commit, so that what is gone is not remembered anew
		as = hold.Committed
	}
	if err = settle(t, k.Key, id, actual, as, dry, &k.Settlement); err == ErrNoHold {
		k.gone, err = true, nil
	}
	return err
}

// lease reports whether the key has a lease, and not an estimate.
func (k *Listed) lease() bool { return len(k.Note) == 0 }

// releaseLease gives a lease back, if it is not over.
func releaseLease(t *Txn, key, id []byte) error {
	return t.Step(key, limit.LEASE, func(now int64, state, dst []byte) ([]byte, error) {
		next, _, err := limit.ReleaseLease(id, state, now, dst)
		if errors.Is(err, limit.ErrNoLease) {
			return nil, nil
		}
		return next, err
	})
}

// keepList stores the list of the keys that r holds.
func keepList(t *Txn, r *Together) error {
	var text []byte
	for i, key := range r.Keys {
		note := r.Hold.Notes[i]
		if r.lease(i) != nil {
			note = nil
		}
		if r.soft(i) && (note != nil || r.Decisions[i].Limited) {
			continue
		}
		for _, word := range [2][]byte{key, note} {
			text = append(binary.AppendUvarint(text, uint64(len(word))), word...)
		}
	}
	if len(text) > hold.MaxList {
		return ErrTooMany
	}
	set, beside, err := listOf(t, r.Hold.List)
	if err != nil {
		return err
	}
	set.MakeList(&t.holds, hold.Entry{Until: t.now + r.Hold.TTL, Rest: r.Hold.TTL}, text)
	return editSet(t, beside, &t.holds, false)
}

// listOf returns the record of a list, and the index of its item.
func listOf(t *Txn, list []byte) (hold.Set, int, error) {
	at, err := t.search(list)
	if err != nil {
		return nil, -1, err
	}
	return setOf(t, at)
}

// parseList returns the keys of a list; ok is false if it is damaged, or none.
func parseList(text []byte) (keys []Listed, ok bool) {
	var words [2][]byte
	for len(text) > 0 {
		for i := range words {
			n, used := binary.Uvarint(text)
			if used <= 0 || n > uint64(len(text)-used) {
				return nil, false
			}
			words[i], text = text[used:used+int(n)], text[used+int(n):]
		}
		keys = append(keys, Listed{Key: words[0], Note: words[1]})
	}
	return keys, true
}

// listed reports whether the request is held already. The errors are ErrHeld and ErrCancelled.
func listed(t *Txn, r *Together) (known bool, err error) {
	set, _, err := listOf(t, r.Hold.List)
	if err != nil {
		return false, err
	}
	e, text, ok := set.List(t.now)
	if !ok {
		return false, nil
	}
	if err := again(t, &e, &Hold{TTL: r.Hold.TTL}, nil, 0); err != nil {
		return false, err
	}
	keys, ok := parseList(text)
	if !ok {
		return false, ErrHeld
	}
	keys = slices.DeleteFunc(keys, func(k Listed) bool { return k.lease() })
	for i, key := range r.Keys {
		if r.soft(i) || r.lease(i) != nil {
			continue
		}
		var e hold.Entry
		if len(keys) == 0 || !bytes.Equal(keys[0].Key, key) {
			return false, ErrHeld
		}
		keys = keys[1:]
		set, _, err := setFor(t, i, key)
		if err != nil {
			return false, err
		}
		if !set.Find(t.now, r.Hold.ID, &e) {
			return false, ErrHeld
		}
		if err := again(t, &e, r.Hold, nil, r.Costs[i]); err != nil {
			return false, err
		}
	}
	if len(keys) > 0 {
		return false, ErrHeld
	}
	return true, nil
}

// ListedKeys returns the keys that a list has.
func ListedKeys(t *Txn, list []byte) (keys [][]byte, err error) {
	set, _, err := listOf(t, list)
	if err != nil {
		return nil, err
	}
	_, text, _ := set.List(t.now)
	all, _ := parseList(text)
	for i := range all {
		keys = append(keys, all[i].Key)
	}
	return keys, nil
}

// SettleList settles the holds of an id on the keys of a list, all of them or none, and returns them: see Settle. cost returns what a
// key has cost, by its note; less than 0 means the estimate. After an error of it, nothing is settled.
func SettleList(t *Txn, list, id []byte, cost func(note []byte) (int64, error)) ([]Listed, error) {
	return settleList(t, list, id, hold.Committed, cost)
}

// GiveUpList gives up the holds of an id on the keys of a list: see GiveUp and SettleList.
func GiveUpList(t *Txn, list, id []byte) ([]Listed, error) {
	return settleList(t, list, id, hold.Cancelled, func([]byte) (int64, error) { return 0, nil })
}

func settleList(t *Txn, list, id []byte, as hold.Status, cost func(note []byte) (int64, error)) ([]Listed, error) {
	set, beside, err := listOf(t, list)
	if err != nil {
		return nil, err
	}
	e, text, ok := set.List(t.now)
	keys, whole := parseList(text)
	switch {
	case ok && !whole || !ok && as == hold.Committed:
		return nil, ErrNoHold
	case !ok:
		set.MakeList(&t.holds, hold.Entry{Status: as, Until: t.now + Remembered, Amount: cancelledFirst}, nil)
		return nil, editSet(t, beside, &t.holds, false)
	}
	for _, dry := range [2]bool{true, false} { // a step takes nothing back
		for i := range keys {
			k := &keys[i]
			switch {
			case !k.lease():
				err = k.settle(t, id, as, dry, cost)
			case !dry && !e.Settled(): // later, another request may have a lease of this id
				err = releaseLease(t, k.Key, id)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if !e.Settled() {
		set.MakeList(&t.holds, hold.Entry{Status: as, Until: t.now + Remembered}, text)
		err = editSet(t, beside, &t.holds, true)
	}
	return slices.DeleteFunc(keys, func(k Listed) bool { return k.lease() }), err
}

// Holds of several keys under one id: all are held or none, and they are settled in one step.

// setFor returns what is known of the ids of the key at an index, and the index of that record's item.
func setFor(t *Txn, i int, key []byte) (hold.Set, int, error) {
	at, err := t.find(i, key)
	if err != nil {
		return nil, -1, err
	}
	return setOf(t, at)
}

// SettleAll settles the holds of an id on several keys, all of them or none: see Settle. costs[i] is what keys[i] has cost. After an
// error, at is the key at fault; ErrDuplicate is one of them.
func SettleAll(t *Txn, keys [][]byte, id []byte, costs []int64, s []Settlement) (at int, err error) {
	return settleAll(t, keys, id, hold.Committed, costs, s)
}

// GiveUpAll gives up the holds of an id on several keys, all of them or none: see GiveUp and SettleAll.
func GiveUpAll(t *Txn, keys [][]byte, id []byte, s []Settlement) (at int, err error) {
	return settleAll(t, keys, id, hold.Cancelled, make([]int64, len(keys)), s)
}

func settleAll(t *Txn, keys [][]byte, id []byte, as hold.Status, costs []int64, s []Settlement) (at int, err error) {
	for i, key := range keys {
		if slices.ContainsFunc(keys[:i], func(k []byte) bool { return bytes.Equal(k, key) }) {
			return i, ErrDuplicate
		}
	}
	for _, dry := range [2]bool{true, false} { // a step takes nothing back
		for i, key := range keys {
			if err := settle(t, key, id, costs[i], as, dry, &s[i]); err != nil {
				return i, err
			}
		}
	}
	return -1, nil
}
