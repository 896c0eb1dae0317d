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

// Keyspace returns the keys of the engine that the call asks, or of all groups that the command concerns.
func (c *Call) Keyspace() Keyspace {
	if len(c.Groups) > 0 {
		return (*tables)(c)
	}
	return (*table)(c)
}

// table is the keys of the engine that a call asks. A key by itself may also be in another group.
type table Call

func (k *table) states() *engine.Engine { return (*Call)(k).States() }

// Info implements Keyspace.
func (k *table) Info(key []byte) (info engine.Info, ok bool) {
	e, now := (*Call)(k).engineOf(key)
	err := e.UpdateAt(0, now, [][]byte{key}, func(t *engine.Txn) (err error) {
		info, ok, err = t.Info(key)
		return err
	})
	return info, ok && err == nil
}

// Held implements Keyspace.
func (k *table) Held(key []byte) (n, amount int64) {
	e, now := (*Call)(k).engineOf(key)
	_ = e.UpdateAt(0, now, [][]byte{key}, func(t *engine.Txn) (err error) { // without a table, there are none
		n, amount, err = engine.HeldOn(t, key)
		return err
	})
	return n, amount
}

// Remove implements Keyspace.
func (k *table) Remove(key []byte) (was bool) {
	e, now := (*Call)(k).engineOf(key)
	err := e.UpdateAt(0, now, [][]byte{key}, func(t *engine.Txn) (err error) {
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
	e, now := (*Call)(k).engineOf(key)
	_ = e.UpdateAt(0, now, [][]byte{key}, func(t *engine.Txn) error { return engine.Forget(t, key) })
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

// tables is the keys of the groups that a call concerns. A cursor and a part begin with the index of the group, in the lowest bits.
type tables Call

// GroupBits is how many of the lowest bits of a cursor of several groups have the index of the group in Call.Groups.
const GroupBits = 6

// in calls do with the keys of the group of a cursor, and with the cursor there. It returns the next cursor, of that group or the next one.
func (k *tables) in(cursor uint64, do func(one *Call, cursor uint64) (next uint64)) uint64 {
	i := int(cursor & (1<<GroupBits - 1))
	if i >= len(k.Groups) {
		return 0
	}
	next := uint64(0)
	if g := k.Groups[i]; g != nil {
		one := *(*Call)(k)
		one.Groups, one.Group, one.Now = nil, g, g.At(k.Began)
		next = do(&one, cursor>>GroupBits)
	}
	if next != 0 {
		return next<<GroupBits | uint64(i)
	}
	if i++; i == len(k.Groups) {
		return 0
	}
	return uint64(i)
}

// Info implements Keyspace.
func (k *tables) Info(key []byte) (engine.Info, bool) { return (*table)(k).Info(key) }

// Held implements Keyspace.
func (k *tables) Held(key []byte) (n, amount int64) { return (*table)(k).Held(key) }

// Remove implements Keyspace.
func (k *tables) Remove(key []byte) bool { return (*table)(k).Remove(key) }

// Range implements Keyspace.
func (k *tables) Range(cursor uint64, slots int, visit func(key []byte, kind limit.Kind) bool) uint64 {
	return k.in(cursor, func(one *Call, cursor uint64) uint64 { return (*table)(one).Range(cursor, slots, visit) })
}

// Records implements Keyspace.
func (k *tables) Records(cursor uint64, slots int, visit func(key []byte, kind limit.Kind) bool) uint64 {
	return k.in(cursor, func(one *Call, cursor uint64) uint64 { return (*table)(one).Records(cursor, slots, visit) })
}

// Forget implements Keyspace.
func (k *tables) Forget(key []byte) { (*table)(k).Forget(key) }

// Spend implements Keyspace.
func (*tables) Spend(int) bool { return true }

// Random implements Keyspace. It begins with any group.
func (k *tables) Random() (key []byte, cursor uint64, ok bool) {
	first := int(uint64(k.Began/1e3) % uint64(len(k.Groups)))
	for i := range k.Groups {
		if g := k.Groups[(first+i)%len(k.Groups)]; g != nil {
			if key, _, ok = g.Engine.Load().Random(g.At(k.Began), nil); ok {
				return key, 0, true
			}
		}
	}
	return nil, 0, false
}

// CountKeys implements Keyspace.
func (k *tables) CountKeys(part int) (n int64, next int) {
	at := k.in(uint64(part), func(one *Call, part uint64) uint64 {
		var after int
		n, after = (*table)(one).CountKeys(int(part))
		return uint64(after)
	})
	return n, int(at)
}

// Flush implements Keyspace.
func (k *tables) Flush() (free func(shards int) (done bool), ok bool) {
	if k.Clustered {
		return nil, false
	}
	var all []func(shards int) bool
	for _, g := range k.Groups {
		flush := g.Engine.Load().BeginFlush()
		all = append(all, flush.Step)
	}
	return func(shards int) bool {
		if all[0](shards) {
			all = all[1:]
		}
		return len(all) == 0
	}, true
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
