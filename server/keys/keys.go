// Package keys has the commands on keys of every kind: to count, find, describe and forget them.
package keys

import (
	"math"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

type (
	call     = handler.Call
	keyspace = handler.Keyspace
	row      = handler.Row[call]
)

// Rows returns the commands of the package, in the order of the reference.
func Rows() []row {
	many := func(name, summary string, f spec.Flags, walk func(*call, keyspace)) row {
		r := handler.Rows[call]("generic", "O(n) for n keys", spec.Fast|spec.Wide)(name, -2, f, summary, nil, spec.Several(spec.Key("key")))
		r.FirstKey, r.LastKey, r.Step, r.Walk = 1, -1, 1, walk
		if f&spec.Write != 0 {
			r.KeyFlags = []string{"RM delete"}
		} else {
			r.KeyFlags = []string{"RO"}
		}
		return r
	}
	all := func(name string, arity int, f spec.Flags, group, complexity, summary string, walk func(*call, keyspace), args ...spec.Argument) row {
		r := handler.Rows[call](group, complexity, f|spec.AllGroups)(name, arity, 0, summary, nil, args...)
		r.Walk = walk
		return r
	}
	flush := func(name string) row {
		return all(name, -1, spec.Write|spec.Quorum|spec.Dangerous|spec.AllKeys, "server", "O(1)", "Forgets every key.", flushAll,
			spec.OneOf("flush-type", spec.Word("ASYNC"), spec.Word("SYNC")))
	}
	const read = spec.Readonly | spec.StaleRead
	return []row{
		many("DEL", "Forgets keys; returns how many existed.", spec.Write, Delete),
		many("UNLINK", "Forgets keys; returns how many existed.", spec.Write, Delete),
		many("EXISTS", "Counts the keys that exist; a key named twice counts twice.", read, exists),
		many("TOUCH", "Counts the keys that exist. This does not change a key.", read, exists),
		all("SCAN", -2, read, "generic", "O(1) for each call, O(n) for a whole iteration", "Iterates over the keys. A key that exists throughout is returned at least once.", scan,
			spec.Integer("cursor"),
			spec.Argument{Name: "pattern", Kind: "string", Token: "MATCH", Optional: true},
			spec.Argument{Name: "count", Kind: "integer", Token: "COUNT", Optional: true},
			spec.Argument{Name: "type", Kind: "string", Token: "TYPE", Optional: true}),
		all("KEYS", 2, read|spec.Dangerous, "generic", "O(n) for n keys in the table", "Lists the keys that match a pattern of at most 1024 bytes. Other clients are served meanwhile; for large tables, use SCAN.",
			list, spec.Text("pattern")),
		all("RANDOMKEY", 1, read, "generic", "O(1)", "Returns a random key, or null if there is none.", random),
		all("DBSIZE", 1, read|spec.Fast, "server", "O(1)", "Counts the keys.", count),
		flush("FLUSHALL"),
		flush("FLUSHDB"),
	}
}

// step is how many keys a step looks up.
const step = 64

// each calls do for every key of the command, and replies with the number of keys for which
// do returned true.
func each(c *call, do func(key []byte) bool) {
	keys, n := c.Args[1:], int64(0)
	count := func(i int) {
		if do(keys[i]) {
			n++
		}
	}
	lasting := func(from int) {
		keys = append(make([][]byte, from), handler.CloneArgs(keys[from:])...)
		c.Holds += handler.ArgBytes(keys)
	}
	c.EachStep(len(keys), step, lasting, count, func() { c.Int(n) })
}

// Delete removes the command's keys.
func Delete(c *call, keys keyspace) { each(c, keys.Remove) }

func exists(c *call, keys keyspace) {
	each(c, func(key []byte) bool {
		_, ok := keys.Info(key)
		return ok
	})
}

// Info replies with what is known about a key, or null.
func Info(c *call, keys keyspace) {
	info, ok := keys.Info(c.Args[1])
	if !ok {
		c.Null()
		return
	}
	Describe(c, keys, c.Args[1], &info)
}

// Describe replies with what is known about a key.
func Describe(c *call, keys keyspace, key []byte, info *engine.Info) {
	left := limit.Milliseconds(info.Expires - c.Now)
	if info.Expires == math.MaxInt64 {
		left = -1
	}
	fields := 5
	holds, held := keys.Held(key)
	if holds > 0 {
		fields += 2
	}
	if info.Block.Length > 0 {
		fields += 2
	}
	c.Map(fields)
	if holds > 0 {
		c.Text("holds")
		c.Int(holds)
		c.Text("held")
		c.Int(held)
	}
	if info.Block.Length > 0 {
		c.Text("blocked_for")
		c.Int(limit.Milliseconds(max(0, info.Block.Until-c.Now)))
		c.Text("block")
		c.Int(limit.Milliseconds(info.Block.Length))
	}
	c.Text("algorithm")
	c.Text(info.Kind.TypeName())
	c.Text("state")
	c.Int(info.Expires)
	c.Text("level")
	c.Int(info.Level)
	c.Text("resets_in")
	c.Int(left)
	c.Text("memory")
	c.Int(info.Bytes)
}

// Sum adds up the statistics of the engines that the command concerns in steps, and then calls reply with them.
func Sum(c *call, reply func(sum *engine.Stats)) {
	const shards = 1024 // in a step
	var sum engine.Stats
	var of []*engine.Engine
	c.Engines(func(e *engine.Engine, _ int64) { of = append(of, e) })
	shard := 0
	c.InSteps(nil, func() bool {
		if len(of) == 0 {
			reply(&sum)
			return true
		}
		if shard = of[0].AddStats(&sum, shard, shards); shard > 0 {
			return false
		}
		of = of[1:]
		return false
	})
}
