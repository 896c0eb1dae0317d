package handler

import (
	"bytes"

	"limitdb/engine"
	"limitdb/limit"
)

// Keyspace is the keys as Row.Walk sees them: those of the engine, or those of a step, as it has made them.
type Keyspace interface {
	// Info describes a key. It returns false if there is none.
	Info(key []byte) (engine.Info, bool)
	// Held returns how many holds of a key are live, and how much they hold.
	Held(key []byte) (n, amount int64)
	// Remove removes a key, and reports whether it was there.
	Remove(key []byte) bool
	// Range visits keys from a cursor on (0 to begin), in about as many slots of the table, until visit returns false. It returns the next
	// cursor, 0 at the end. A step visits all at once, because nothing may change between two calls. key is valid only during the call,
	// and visit must not use the keyspace.
	Range(cursor uint64, slots int, visit func(key []byte, kind limit.Kind) (more bool)) uint64
	// Records is Range that also visits, with the kind HOLDS, the keys beside which ids are known, whether they have a state or not.
	Records(cursor uint64, slots int, visit func(key []byte, kind limit.Kind) (more bool)) uint64
	// Forget removes a key, and what is known of ids beside it.
	Forget(key []byte)
	// Spend notes what a walk spends on matching a key with a pattern, and reports whether it may go on.
	Spend(cost int) bool
	// Random returns a random key. If it has found none, few are left or none: those from the cursor on.
	Random() (key []byte, cursor uint64, ok bool)
	// CountKeys counts the keys from a part of the table on (0 to begin), and returns the next part, 0 at the end.
	CountKeys(part int) (n int64, next int)
	// Flush forgets all keys and returns what frees their memory, shard by shard. ok is false if the keys are to be removed one by one.
	Flush() (free func(shards int) (done bool), ok bool)
}

// countShards is how many shards CountKeys visits at a time.
const countShards = 1024

// Keyspace returns the keys of the engine that the call asks.
func (c *Call) Keyspace() Keyspace { return (*table)(c) }

// table is the keys of the engine that a call asks.
type table Call

func (k *table) states() *engine.Engine { return (*Call)(k).States() }

// Info implements Keyspace.
func (k *table) Info(key []byte) (info engine.Info, ok bool) {
	err := k.states().UpdateAt(0, k.Now, [][]byte{key}, func(t *engine.Txn) (err error) {
		info, ok, err = t.Info(key)
		return err
	})
	return info, ok && err == nil
}

// Held implements Keyspace.
func (k *table) Held(key []byte) (n, amount int64) {
	_ = k.states().UpdateAt(0, k.Now, [][]byte{key}, func(t *engine.Txn) (err error) { // without a table, there are none
		n, amount, err = engine.HeldOn(t, key)
		return err
	})
	return n, amount
}

// Remove implements Keyspace.
func (k *table) Remove(key []byte) (was bool) {
	err := k.states().UpdateAt(0, k.Now, [][]byte{key}, func(t *engine.Txn) (err error) {
		was, err = t.Delete(key)
		return err
	})
	return was && err == nil
}

// Range implements Keyspace.
func (k *table) Range(cursor uint64, slots int, visit func(key []byte, kind limit.Kind) bool) uint64 {
	more := true
	return k.states().Range(k.Now, cursor, slots, func(key []byte, info engine.Info) { more = more && visit(key, info.Kind) })
}

// Records implements Keyspace.
func (k *table) Records(cursor uint64, slots int, visit func(key []byte, kind limit.Kind) bool) uint64 {
	more := true
	return k.states().Records(k.Now, cursor, slots, func(key []byte, info engine.Info) { more = more && visit(key, info.Kind) })
}

// Forget implements Keyspace.
func (k *table) Forget(key []byte) {
	_ = k.states().UpdateAt(0, k.Now, [][]byte{key}, func(t *engine.Txn) error { return engine.Forget(t, key) })
}

// Spend implements Keyspace.
func (*table) Spend(int) bool { return true }

// Random implements Keyspace.
func (k *table) Random() (key []byte, cursor uint64, ok bool) { return k.states().Random(k.Now, nil) }

// CountKeys implements Keyspace.
func (k *table) CountKeys(part int) (n int64, next int) {
	var sum engine.Stats
	next = k.states().AddStats(&sum, part, countShards)
	return sum.Keys, next
}

// Flush implements Keyspace. It forgets the keys shard by shard, and the followers of a node have other shards.
func (k *table) Flush() (free func(shards int) (done bool), ok bool) {
	if k.Clustered {
		return nil, false
	}
	flush := k.states().BeginFlush()
	return flush.Step, true
}

// MatchMost is the most that a step which cannot yield spends on matching with a pattern, as glob.Pattern.Cost counts it: some 100 ms.
const MatchMost = 100 << 20

// Info implements Keyspace.
func (t *Txn) Info(key []byte) (engine.Info, bool) {
	info, ok, err := t.Txn.Info(key)
	_ = t.Note(err)
	return info, ok
}

// Held implements Keyspace.
func (t *Txn) Held(key []byte) (n, amount int64) {
	n, amount, err := engine.HeldOn(t.Txn, key)
	_ = t.Note(err)
	return n, amount
}

// Range implements Keyspace.
func (t *Txn) Range(cursor uint64, slots int, visit func(key []byte, kind limit.Kind) bool) uint64 {
	return t.Records(cursor, slots, func(key []byte, kind limit.Kind) bool { return kind == limit.HOLDS || visit(key, kind) })
}

// Records implements Keyspace.
func (t *Txn) Records(_ uint64, _ int, visit func(key []byte, kind limit.Kind) bool) uint64 {
	_ = t.Note(t.Each(visit))
	return 0
}

// Forget implements Keyspace.
func (t *Txn) Forget(key []byte) { _ = t.Note(engine.Forget(t.Txn, key)) }

// Spend implements Keyspace.
func (t *Txn) Spend(cost int) bool {
	if t.spent += cost; t.spent > MatchMost {
		t.End(engine.ErrTooMany)
	}
	return t.spent <= MatchMost
}

// Random implements Keyspace: the key is the first.
func (t *Txn) Random() (key []byte, cursor uint64, ok bool) {
	t.Range(0, 0, func(k []byte, _ limit.Kind) bool {
		key, ok = bytes.Clone(k), true
		return false
	})
	return key, 0, ok
}

// CountKeys implements Keyspace.
func (t *Txn) CountKeys(int) (n int64, next int) {
	t.Range(0, 0, func([]byte, limit.Kind) bool { n++; return true })
	return n, 0
}

// Flush implements Keyspace.
func (t *Txn) Flush() (free func(shards int) (done bool), ok bool) { return nil, false }
