package server

import (
	"math"

	"limitdb/resp"
	"limitdb/value"
)

// Counters: strings that are numbers.
func counterCommands() []command {
	by := func(name string) argument { return integer(name) }
	return []command{
		onKey("INCR", 2, flagWrite|flagFast|flagAhead, "string", "Adds 1 to the integer of a key, which begins as 0.", (*call).incr),
		onKey("DECR", 2, flagWrite|flagFast|flagAhead, "string", "Subtracts 1 from the integer of a key, which begins as 0.", (*call).decr),
		onKey("INCRBY", 3, flagWrite|flagFast|flagAhead, "string", "Adds to the integer of a key, which begins as 0.", (*call).incrBy, by("increment")),
		onKey("DECRBY", 3, flagWrite|flagFast|flagAhead, "string", "Subtracts from the integer of a key, which begins as 0.", (*call).decrBy, by("decrement")),
		onKey("INCRBYFLOAT", 3, flagWrite|flagFast|flagAhead, "string", "Adds to the number of a key, which begins as 0.", (*call).incrByFloat, argument{name: "increment", kind: "double"}),
		onKey("INCREX", -2, flagWrite|flagFast|flagAhead, "string", "Adds to the number of a key within bounds, and sets when it expires.", (*call).incrEX,
			oneOf("increment", argument{name: "integer", kind: "integer", token: "BYINT"}, argument{name: "float", kind: "double", token: "BYFLOAT"}),
			optional(argument{name: "lowerbound", kind: "double", token: "LBOUND"}),
			optional(argument{name: "upperbound", kind: "double", token: "UBOUND"}),
			optional(word("SATURATE")),
			oneOf("expiration", expiryWords(word("PERSIST"))...),
			optional(word("ENX"))),
	}
}

func (c *call) incr(t *txn) { c.add(t, 1) }

func (c *call) decr(t *txn) { c.add(t, -1) }

func (c *call) incrBy(t *txn) {
	if n, ok := resp.ParseInt(c.args[2]); ok {
		c.add(t, n)
		return
	}
	c.fail(errNotInt)
}

func (c *call) decrBy(t *txn) {
	n, ok := resp.ParseInt(c.args[2])
	switch {
	case !ok:
		c.fail(errNotInt)
	case n == math.MinInt64:
		c.fail("ERR decrement would overflow")
	default:
		c.add(t, -n)
	}
}

// add adds n to the integer of the command's key.
func (c *call) add(t *txn, n int64) {
	it, ok := c.of(t, c.args[1], value.String)
	if !ok {
		return
	}
	sum, err := value.StringInt(it.body)
	if err != nil {
		c.failState(errNotInt)
		return
	}
	if sum, err = value.Add(sum, n); err != nil {
		c.failState(errSumOverflow)
		return
	}
	c.putCounter(t, sum, it.expires)
	c.int(sum)
}

// putCounter makes the command's key hold a number.
func (c *call) putCounter(t *txn, n, expires int64) {
	c.body = value.AppendCounter(c.body[:0], n)
	c.put(t, c.args[1], &item{typ: value.String, expires: expires, body: c.body})
}

// floatOf returns a string as a number, 0 for an absent key.
func floatOf(it *item) (value.Float, error) {
	if !it.exists() {
		return value.ParseFloat([]byte{'0'})
	}
	return value.ParseFloat(value.StringText(nil, it.body))
}

func (c *call) incrByFloat(t *txn) {
	it, ok := c.of(t, c.args[1], value.String)
	if !ok {
		return
	}
	x, err := floatOf(&it)
	if err != nil {
		c.failState(errNotFloat)
		return
	}
	by, err := value.ParseFloat(c.args[2])
	if err != nil {
		c.fail(errNotFloat)
		return
	}
	if x, err = x.Plus(by); err != nil {
		c.failState(errNaN)
		return
	}
	c.bulk(c.putFloat(t, x, it.expires))
}

// putFloat makes the command's key hold a number, and returns its text.
func (c *call) putFloat(t *txn, x value.Float, expires int64) []byte {
	c.body = x.Append(value.AppendText(c.body[:0], nil))
	c.put(t, c.args[1], &item{typ: value.String, expires: expires, body: c.body})
	return c.body[1:]
}
