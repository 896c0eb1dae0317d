package server

import (
	"math"

	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/value"
)

// Counters: strings that are numbers.
func counterCommands() []command {
	by := func(name string) spec.Argument { return spec.Integer(name) }
	return []command{
		onKey("INCR", 2, spec.Write|spec.Fast|spec.Ahead, "string", "Adds 1 to the integer of a key, which begins as 0.", (*call).incr),
		onKey("DECR", 2, spec.Write|spec.Fast|spec.Ahead, "string", "Subtracts 1 from the integer of a key, which begins as 0.", (*call).decr),
		onKey("INCRBY", 3, spec.Write|spec.Fast|spec.Ahead, "string", "Adds to the integer of a key, which begins as 0.", (*call).incrBy, by("increment")),
		onKey("DECRBY", 3, spec.Write|spec.Fast|spec.Ahead, "string", "Subtracts from the integer of a key, which begins as 0.", (*call).decrBy, by("decrement")),
		onKey("INCRBYFLOAT", 3, spec.Write|spec.Fast|spec.Ahead, "string", "Adds to the number of a key, which begins as 0.", (*call).incrByFloat, spec.Argument{Name: "increment", Kind: "double"}),
		onKey("INCREX", -2, spec.Write|spec.Fast|spec.Ahead, "string", "Adds to the number of a key within bounds, and sets when it expires.", (*call).incrEX,
			spec.OneOf("increment", spec.Argument{Name: "integer", Kind: "integer", Token: "BYINT"}, spec.Argument{Name: "float", Kind: "double", Token: "BYFLOAT"}),
			spec.Optional(spec.Argument{Name: "lowerbound", Kind: "double", Token: "LBOUND"}),
			spec.Optional(spec.Argument{Name: "upperbound", Kind: "double", Token: "UBOUND"}),
			spec.Optional(spec.Word("SATURATE")),
			spec.OneOf("expiration", expiryWords(spec.Word("PERSIST"))...),
			spec.Optional(spec.Word("ENX"))),
	}
}

func (c *call) incr(t *Txn) { c.add(t, 1) }

func (c *call) decr(t *Txn) { c.add(t, -1) }

func (c *call) incrBy(t *Txn) {
	if n, ok := resp.ParseInt(c.Args[2]); ok {
		c.add(t, n)
		return
	}
	c.Fail(errNotInt)
}

func (c *call) decrBy(t *Txn) {
	n, ok := resp.ParseInt(c.Args[2])
	switch {
	case !ok:
		c.Fail(errNotInt)
	case n == math.MinInt64:
		c.Fail("ERR decrement would overflow")
	default:
		c.add(t, -n)
	}
}

// add adds n to the integer of the command's key.
func (c *call) add(t *Txn, n int64) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok {
		return
	}
	sum, err := value.StringInt(it.body)
	if err != nil {
		c.FailState(errNotInt)
		return
	}
	if sum, err = value.Add(sum, n); err != nil {
		c.FailState(errSumOverflow)
		return
	}
	c.putCounter(t, sum, it.expires)
	c.Int(sum)
}

// putCounter makes the command's key hold a number.
func (c *call) putCounter(t *Txn, n, expires int64) {
	c.body = value.AppendCounter(c.body[:0], n)
	c.put(t, c.Args[1], &item{typ: value.String, expires: expires, body: c.body})
}

// floatOf returns a string as a number, 0 for an absent key.
func floatOf(it *item) (value.Float, error) {
	if !it.exists() {
		return value.ParseFloat([]byte{'0'})
	}
	return value.ParseFloat(value.StringText(nil, it.body))
}

func (c *call) incrByFloat(t *Txn) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok {
		return
	}
	x, err := floatOf(&it)
	if err != nil {
		c.FailState(errNotFloat)
		return
	}
	by, err := value.ParseFloat(c.Args[2])
	if err != nil {
		c.Fail(errNotFloat)
		return
	}
	if x, err = x.Plus(by); err != nil {
		c.FailState(errNaN)
		return
	}
	c.Bulk(c.putFloat(t, x, it.expires))
}

// putFloat makes the command's key hold a number, and returns its text.
func (c *call) putFloat(t *Txn, x value.Float, expires int64) []byte {
	c.body = x.Append(value.AppendText(c.body[:0], nil))
	c.put(t, c.Args[1], &item{typ: value.String, expires: expires, body: c.body})
	return c.body[1:]
}
