package server

import (
	"strconv"

	"limitdb/resp"
	"limitdb/value"
)

// Hashes and sets, in a plain form: a change takes time in proportion to their size.
func hashCommands() []command {
	field, fields := text("field"), argument{name: "field", kind: "string", multiple: true}
	pairs := argument{name: "data", kind: "block", multiple: true, args: []argument{text("field"), text("value")}}
	members := argument{name: "member", kind: "string", multiple: true}
	hash := func(name string, arity int, f flags, summary string, step func(*call, *txn), args ...argument) command {
		return onKey(name, arity, f, "hash", summary, step, args...)
	}
	set := func(name string, arity int, f flags, summary string, step func(*call, *txn), args ...argument) command {
		return onKey(name, arity, f, "set", summary, step, args...)
	}
	return []command{
		hash("HSET", -4, flagWrite|flagTouches|flagFast, "Sets fields of a hash; returns how many are new.", (*call).hSet, pairs),
		hash("HMSET", -4, flagWrite|flagTouches|flagFast, "Sets fields of a hash.", (*call).hMSet, pairs),
		hash("HSETNX", 4, flagWrite|flagFast, "Sets a field of a hash that does not exist.", (*call).hSetNX, field, text("value")),
		hash("HGET", 3, flagReadonly|flagFast, "Returns the value of a field of a hash.", (*call).hGet, field),
		hash("HMGET", -3, flagReadonly|flagFast, "Returns the values of fields of a hash.", (*call).hMGet, fields),
		hash("HGETALL", 2, flagReadonly, "Returns the fields of a hash and their values.", func(c *call, t *txn) { c.hAll(t, true, true) }),
		hash("HKEYS", 2, flagReadonly, "Returns the fields of a hash.", func(c *call, t *txn) { c.hAll(t, true, false) }),
		hash("HVALS", 2, flagReadonly, "Returns the values of a hash.", func(c *call, t *txn) { c.hAll(t, false, true) }),
		hash("HDEL", -3, flagWrite|flagFast, "Removes fields of a hash; returns how many there were.", (*call).hDel, fields),
		hash("HEXISTS", 3, flagReadonly|flagFast, "Reports whether a hash has a field.", (*call).hExists, field),
		hash("HLEN", 2, flagReadonly|flagFast, "Counts the fields of a hash.", (*call).hLen),
		hash("HSTRLEN", 3, flagReadonly|flagFast, "Returns the length of the value of a field of a hash.", (*call).hStrLen, field),
		hash("HINCRBY", 4, flagWrite|flagTouches|flagFast, "Adds to the integer of a field of a hash.", (*call).hIncrBy, field, integer("increment")),
		hash("HINCRBYFLOAT", 4, flagWrite|flagTouches|flagFast, "Adds to the number of a field of a hash.", (*call).hIncrByFloat, field, argument{name: "increment", kind: "double"}),

		set("SADD", -3, flagWrite|flagFast, "Adds members to a set; returns how many are new.", (*call).sAdd, members),
		set("SREM", -3, flagWrite|flagFast, "Removes members of a set; returns how many there were.", (*call).sRem, members),
		set("SISMEMBER", 3, flagReadonly|flagFast, "Reports whether a set has a member.", (*call).sIsMember, text("member")),
		set("SMISMEMBER", -3, flagReadonly|flagFast, "Reports which members a set has.", (*call).sMIsMember, members),
		set("SCARD", 2, flagReadonly|flagFast, "Counts the members of a set.", (*call).sCard),
		set("SMEMBERS", 2, flagReadonly, "Returns the members of a set.", (*call).sMembers),
	}
}

// hash opens the hash of the command's key.
func (c *call) hash(t *txn) (h *value.HashOf, it item, ok bool) {
	it, ok = c.of(t, c.args[1], value.Hash)
	return value.OpenHash(it.body), it, ok
}

// hSetAll sets the fields of the arguments and returns how many are new. If it fails, it replies
// with the error.
func (c *call) hSetAll(t *txn) (n int64, ok bool) {
	if len(c.args)%2 != 0 {
		c.fail("ERR wrong number of arguments for '" + c.cmd.full + "' command")
		return 0, false
	}
	h, it, ok := c.hash(t)
	if !ok {
		return 0, false
	}
	for i := 2; i < len(c.args); i += 2 {
		if h.Set(c.args[i], c.args[i+1]) {
			n++
		}
	}
	return n, c.putCollection(t, &it, value.Hash, h)
}

func (c *call) hSet(t *txn) {
	if n, ok := c.hSetAll(t); ok {
		c.int(n)
	}
}

func (c *call) hMSet(t *txn) {
	if _, ok := c.hSetAll(t); ok {
		c.ok()
	}
}

func (c *call) hSetNX(t *txn) {
	h, it, ok := c.hash(t)
	if !ok {
		return
	}
	if _, there := h.Get(c.args[2]); there {
		c.int(0)
		return
	}
	h.Set(c.args[2], c.args[3])
	if c.putCollection(t, &it, value.Hash, h) {
		c.int(1)
	}
}

// field replies with the value of a field, or null.
func (c *call) field(h *value.HashOf, name []byte) {
	if v, ok := h.Get(name); ok {
		c.bulk(v)
		return
	}
	c.null()
}

func (c *call) hGet(t *txn) {
	if h, _, ok := c.hash(t); ok {
		c.field(h, c.args[2])
	}
}

func (c *call) hMGet(t *txn) {
	h, _, ok := c.hash(t)
	if !ok {
		return
	}
	c.array(len(c.args) - 2)
	for _, f := range c.args[2:] {
		c.field(h, f)
	}
}

func (c *call) hAll(t *txn, names, values bool) {
	h, _, ok := c.hash(t)
	if !ok {
		return
	}
	if names && values {
		c.mapOf(h.Len())
	} else {
		c.array(h.Len())
	}
	h.Each(func(f, v []byte) {
		if names {
			c.bulk(f)
		}
		if values {
			c.bulk(v)
		}
	})
}

func (c *call) hDel(t *txn) {
	h, it, ok := c.hash(t)
	if !ok {
		return
	}
	n := int64(0)
	for _, f := range c.args[2:] {
		if h.Remove(f) {
			n++
		}
	}
	if c.putCollection(t, &it, value.Hash, h) {
		c.int(n)
	}
}

// yes replies 1 or 0.
func (c *call) yes(b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	c.int(n)
}

func (c *call) hExists(t *txn) {
	if h, _, ok := c.hash(t); ok {
		_, there := h.Get(c.args[2])
		c.yes(there)
	}
}

func (c *call) hLen(t *txn) {
	if h, _, ok := c.hash(t); ok {
		c.int(int64(h.Len()))
	}
}

func (c *call) hStrLen(t *txn) {
	if h, _, ok := c.hash(t); ok {
		v, _ := h.Get(c.args[2])
		c.int(int64(len(v)))
	}
}

func (c *call) hIncrBy(t *txn) {
	by, ok := resp.ParseInt(c.args[3])
	if !ok {
		c.fail(errNotInt)
		return
	}
	h, it, ok := c.hash(t)
	if !ok {
		return
	}
	n := int64(0)
	if v, there := h.Get(c.args[2]); there {
		if n, ok = resp.ParseInt(v); !ok {
			c.failState("ERR hash value is not an integer")
			return
		}
	}
	n, err := value.Add(n, by)
	if err != nil {
		c.failState(errSumOverflow)
		return
	}
	h.Set(c.args[2], strconv.AppendInt(nil, n, 10))
	if c.putCollection(t, &it, value.Hash, h) {
		c.int(n)
	}
}

func (c *call) hIncrByFloat(t *txn) {
	by, err := value.ParseFloat(c.args[3])
	switch {
	case err != nil:
		c.fail(errNotFloat)
		return
	case !by.Finite():
		c.fail("ERR value is NaN or Infinity")
		return
	}
	h, it, ok := c.hash(t)
	if !ok {
		return
	}
	v, there := h.Get(c.args[2])
	if !there {
		v = []byte{'0'}
	}
	x, err := value.ParseFloat(v)
	if err != nil {
		c.failState("ERR hash value is not a float")
		return
	}
	if x, err = x.Plus(by); err != nil {
		c.failState(errNaN)
		return
	}
	text := x.Append(nil)
	h.Set(c.args[2], text)
	if c.putCollection(t, &it, value.Hash, h) {
		c.bulk(text)
	}
}

// setOf opens the set of the command's key.
func (c *call) setOf(t *txn) (s *value.SetOf, it item, ok bool) {
	it, ok = c.of(t, c.args[1], value.Set)
	return value.OpenSet(it.body), it, ok
}

func (c *call) sAdd(t *txn) { c.eachMember(t, (*value.SetOf).Add) }

func (c *call) sRem(t *txn) { c.eachMember(t, (*value.SetOf).Remove) }

// eachMember changes a set by each member, and replies how many changed it.
func (c *call) eachMember(t *txn, change func(s *value.SetOf, member []byte) bool) {
	s, it, ok := c.setOf(t)
	if !ok {
		return
	}
	n := int64(0)
	for _, m := range c.args[2:] {
		if change(s, m) {
			n++
		}
	}
	if c.putCollection(t, &it, value.Set, s) {
		c.int(n)
	}
}

func (c *call) sIsMember(t *txn) {
	if s, _, ok := c.setOf(t); ok {
		c.yes(s.Has(c.args[2]))
	}
}

func (c *call) sMIsMember(t *txn) {
	s, _, ok := c.setOf(t)
	if !ok {
		return
	}
	c.array(len(c.args) - 2)
	for _, m := range c.args[2:] {
		c.yes(s.Has(m))
	}
}

func (c *call) sCard(t *txn) {
	if s, _, ok := c.setOf(t); ok {
		c.int(int64(s.Len()))
	}
}

func (c *call) sMembers(t *txn) {
	if s, _, ok := c.setOf(t); ok {
		c.set(s.Len())
		s.Each(c.bulk)
	}
}
