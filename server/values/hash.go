package values

import (
	"strconv"

	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/value"
)

// Hashes and sets, in a plain form: a change takes time in proportion to their size.
func hashRows() []Row {
	field, fields := spec.Text("field"), spec.Several(spec.Text("field"))
	pairs := spec.Argument{Name: "data", Kind: "block", Multiple: true, Args: []spec.Argument{spec.Text("field"), spec.Text("value")}}
	members := spec.Several(spec.Text("member"))
	hash := func(name string, arity int, f spec.Flags, summary string, step func(*Call, *Txn), args ...spec.Argument) Row {
		return onKey(name, arity, f, "hash", summary, step, args...)
	}
	set := func(name string, arity int, f spec.Flags, summary string, step func(*Call, *Txn), args ...spec.Argument) Row {
		return onKey(name, arity, f, "set", summary, step, args...)
	}
	return []Row{
		hash("HSET", -4, spec.Write|spec.Touches|spec.Fast|spec.Wide, "Sets fields of a hash; returns how many are new.", hSet, pairs).Uses("RW update"),
		hash("HMSET", -4, spec.Write|spec.Touches|spec.Fast|spec.Wide, "Sets fields of a hash.", hMSet, pairs).Uses("RW update"),
		hash("HSETNX", 4, spec.Write|spec.Fast, "Sets a field of a hash that does not exist.", hSetNX, field, spec.Text("value")).Uses("RW insert"),
		hash("HGET", 3, spec.Readonly|spec.Fast, "Returns the value of a field of a hash.", hGet, field),
		hash("HMGET", -3, spec.Readonly|spec.Fast|spec.Wide, "Returns the values of fields of a hash.", hMGet, fields),
		hash("HGETALL", 2, spec.Readonly, "Returns the fields of a hash and their values.", func(c *Call, t *Txn) { hAll(c, t, true, true) }),
		hash("HKEYS", 2, spec.Readonly, "Returns the fields of a hash.", func(c *Call, t *Txn) { hAll(c, t, true, false) }),
		hash("HVALS", 2, spec.Readonly, "Returns the values of a hash.", func(c *Call, t *Txn) { hAll(c, t, false, true) }),
		scanRow("HSCAN", "hash", "Returns the fields of a hash and their values, by a pattern.", value.Hash, func(body []byte, reply func(name, other []byte)) {
			value.OpenHash(body).Each(reply)
		}),
		hash("HDEL", -3, spec.Write|spec.Fast|spec.Wide, "Removes fields of a hash; returns how many there were.", hDel, fields).Uses("RW delete"),
		hash("HEXISTS", 3, spec.Readonly|spec.Fast, "Reports whether a hash has a field.", hExists, field).Uses("RO"),
		hash("HLEN", 2, spec.Readonly|spec.Fast, "Counts the fields of a hash.", hLen).Uses("RO"),
		hash("HSTRLEN", 3, spec.Readonly|spec.Fast, "Returns the length of the value of a field of a hash.", hStrLen, field).Uses("RO"),
		hash("HINCRBY", 4, spec.Write|spec.Touches|spec.Fast, "Adds to the integer of a field of a hash.", hIncrBy, field, spec.Integer("increment")),
		hash("HINCRBYFLOAT", 4, spec.Write|spec.Touches|spec.Fast, "Adds to the number of a field of a hash.", hIncrByFloat, field, spec.Argument{Name: "increment", Kind: "double"}),

		set("SADD", -3, spec.Write|spec.Fast|spec.Wide, "Adds members to a set; returns how many are new.", sAdd, members).Uses("RW insert"),
		set("SREM", -3, spec.Write|spec.Fast|spec.Wide, "Removes members of a set; returns how many there were.", sRem, members).Uses("RW delete"),
		set("SISMEMBER", 3, spec.Readonly|spec.Fast, "Reports whether a set has a member.", sIsMember, spec.Text("member")).Uses("RO"),
		set("SMISMEMBER", -3, spec.Readonly|spec.Fast|spec.Wide, "Reports which members a set has.", sMIsMember, members),
		set("SCARD", 2, spec.Readonly|spec.Fast, "Counts the members of a set.", sCard).Uses("RO"),
		set("SMEMBERS", 2, spec.Readonly, "Returns the members of a set.", sMembers),
		scanRow("SSCAN", "set", "Returns the members of a set, by a pattern.", value.Set, func(body []byte, reply func(name, other []byte)) {
			value.OpenSet(body).Each(func(member []byte) { reply(member, nil) })
		}),
	}
}

// hash opens the hash of the command's key.
func (c *Call) hash(t *Txn) (h *value.HashOf, it Item, ok bool) {
	it, ok = c.of(t, c.Args[1], value.Hash)
	return value.OpenHash(it.Body), it, ok
}

// hSetAll sets the fields of the arguments and returns how many are new. If it fails, it replies
// with the error.
func hSetAll(c *Call, t *Txn) (n int64, ok bool) {
	if len(c.Args)%2 != 0 {
		c.Fail("ERR wrong number of arguments for '" + c.Command.Full + "' command")
		return 0, false
	}
	h, it, ok := c.hash(t)
	if !ok {
		return 0, false
	}
	n = int64(h.Set(c.Args[2:]...))
	return n, c.putCollection(t, &it, value.Hash, h)
}

func hSet(c *Call, t *Txn) {
	if n, ok := hSetAll(c, t); ok {
		c.Int(n)
	}
}

func hMSet(c *Call, t *Txn) {
	if _, ok := hSetAll(c, t); ok {
		c.OK()
	}
}

func hSetNX(c *Call, t *Txn) {
	h, it, ok := c.hash(t)
	if !ok {
		return
	}
	field := h.Find(c.Args[2:3], 1)
	if field[0].There {
		c.Int(0)
		return
	}
	field[0].There, field[0].Value = true, c.Args[3]
	h.Put(field)
	if c.putCollection(t, &it, value.Hash, h) {
		c.Int(1)
	}
}

// field replies with the value of a field, or null.
func (c *Call) field(p *value.Place) {
	if p.There {
		c.Bulk(p.Value)
		return
	}
	c.Null()
}

func hGet(c *Call, t *Txn) {
	if h, _, ok := c.hash(t); ok {
		c.field(&h.Find(c.Args[2:], 1)[0])
	}
}

func hMGet(c *Call, t *Txn) {
	h, _, ok := c.hash(t)
	if !ok {
		return
	}
	fields := h.Find(c.Args[2:], 1)
	most := c.OutputLimit()
	c.Array(len(fields))
	for i := range fields { // of which many may be the same
		if c.field(&fields[fields[i].Same]); c.TooLong(t, most) {
			return
		}
	}
}

func hAll(c *Call, t *Txn, names, values bool) {
	h, _, ok := c.hash(t)
	if !ok {
		return
	}
	if names && values {
		c.Map(h.Len())
	} else {
		c.Array(h.Len())
	}
	h.Each(func(f, v []byte) {
		if names {
			c.Bulk(f)
		}
		if values {
			c.Bulk(v)
		}
	})
}

func hDel(c *Call, t *Txn) {
	h, it, ok := c.hash(t)
	if !ok {
		return
	}
	n := h.Remove(c.Args[2:]...)
	if c.putCollection(t, &it, value.Hash, h) {
		c.Int(int64(n))
	}
}

func hExists(c *Call, t *Txn) {
	if h, _, ok := c.hash(t); ok {
		_, there := h.Get(c.Args[2])
		c.Bit(there)
	}
}

func hLen(c *Call, t *Txn) {
	if h, _, ok := c.hash(t); ok {
		c.Int(int64(h.Len()))
	}
}

func hStrLen(c *Call, t *Txn) {
	if h, _, ok := c.hash(t); ok {
		v, _ := h.Get(c.Args[2])
		c.Int(int64(len(v)))
	}
}

func hIncrBy(c *Call, t *Txn) {
	by, ok := resp.ParseInt(c.Args[3])
	if !ok {
		c.Fail(spec.ErrNotInt)
		return
	}
	h, it, ok := c.hash(t)
	if !ok {
		return
	}
	field, n := h.Find(c.Args[2:3], 1), int64(0)
	if field[0].There {
		if n, ok = resp.ParseInt(field[0].Value); !ok {
			c.Fail("ERR hash value is not an integer")
			return
		}
	}
	n, err := value.Add(n, by)
	if err != nil {
		c.Fail(errSumOverflow)
		return
	}
	c.body = strconv.AppendInt(c.body[:0], n, 10)
	field[0].There, field[0].Value = true, c.body
	h.Put(field)
	if c.putCollection(t, &it, value.Hash, h) {
		c.Int(n)
	}
}

func hIncrByFloat(c *Call, t *Txn) {
	by, err := value.ParseFloat(c.Args[3])
	switch {
	case err != nil:
		c.Fail(errNotFloat)
		return
	case !by.Finite():
		c.Fail("ERR value is NaN or Infinity")
		return
	}
	h, it, ok := c.hash(t)
	if !ok {
		return
	}
	field, text := h.Find(c.Args[2:3], 1), []byte{'0'}
	if field[0].There {
		text = field[0].Value
	}
	x, err := value.ParseFloat(text)
	if err != nil {
		c.Fail("ERR hash value is not a float")
		return
	}
	if x, err = x.Plus(by); err != nil {
		c.Fail(errNaN)
		return
	}
	text = x.Append(nil)
	field[0].There, field[0].Value = true, text
	h.Put(field)
	if c.putCollection(t, &it, value.Hash, h) {
		c.Bulk(text)
	}
}

// setOf opens the set of the command's key.
func (c *Call) setOf(t *Txn) (s *value.SetOf, it Item, ok bool) {
	it, ok = c.of(t, c.Args[1], value.Set)
	return value.OpenSet(it.Body), it, ok
}

func sAdd(c *Call, t *Txn) { eachMember(c, t, (*value.SetOf).Add) }

func sRem(c *Call, t *Txn) { eachMember(c, t, (*value.SetOf).Remove) }

// eachMember changes a set by the members, and replies how many changed it.
func eachMember(c *Call, t *Txn, change func(s *value.SetOf, members ...[]byte) int) {
	s, it, ok := c.setOf(t)
	if !ok {
		return
	}
	n := change(s, c.Args[2:]...)
	if c.putCollection(t, &it, value.Set, s) {
		c.Int(int64(n))
	}
}

func sIsMember(c *Call, t *Txn) {
	if s, _, ok := c.setOf(t); ok {
		c.Bit(s.Find(c.Args[2:], 1)[0].There)
	}
}

func sMIsMember(c *Call, t *Txn) {
	s, _, ok := c.setOf(t)
	if !ok {
		return
	}
	members := s.Find(c.Args[2:], 1)
	c.Array(len(members))
	for i := range members {
		c.Bit(members[members[i].Same].There)
	}
}

func sCard(c *Call, t *Txn) {
	if s, _, ok := c.setOf(t); ok {
		c.Int(int64(s.Len()))
	}
}

func sMembers(c *Call, t *Txn) {
	if s, _, ok := c.setOf(t); ok {
		c.Set(s.Len())
		s.Each(c.Bulk)
	}
}
