package engine

import (
	"bytes"
	"slices"

	"limitdb/hold"
)

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
