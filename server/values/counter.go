package values

import (
	"math"

	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/value"
)

// Counters: strings that are numbers.
func counterRows() []Row {
	by := func(name string) spec.Argument { return spec.Integer(name) }
	return []Row{
		onKey("INCR", 2, spec.Write|spec.Fast, "string", "Adds 1 to the integer of a key, which begins as 0.", incr),
		onKey("DECR", 2, spec.Write|spec.Fast, "string", "Subtracts 1 from the integer of a key, which begins as 0.", decr),
		onKey("INCRBY", 3, spec.Write|spec.Fast, "string", "Adds to the integer of a key, which begins as 0.", incrBy, by("increment")),
		onKey("DECRBY", 3, spec.Write|spec.Fast, "string", "Subtracts from the integer of a key, which begins as 0.", decrBy, by("decrement")),
		onKey("INCRBYFLOAT", 3, spec.Write|spec.Fast, "string", "Adds to the number of a key, which begins as 0.", incrByFloat, spec.Argument{Name: "increment", Kind: "double"}),
		onKey("INCREX", -2, spec.Write|spec.Fast, "string", "Adds to the number of a key within bounds, and sets when it expires.", incrEX,
			spec.OneOf("increment", spec.Argument{Name: "integer", Kind: "integer", Token: "BYINT"}, spec.Argument{Name: "float", Kind: "double", Token: "BYFLOAT"}),
			spec.Optional(spec.Argument{Name: "lowerbound", Kind: "double", Token: "LBOUND"}),
			spec.Optional(spec.Argument{Name: "upperbound", Kind: "double", Token: "UBOUND"}),
			spec.Optional(spec.Word("SATURATE")),
			spec.OneOf("expiration", expiryWords(spec.Word("PERSIST"))...),
			spec.Optional(spec.Word("ENX"))),
	}
}

func incr(c *Call, t *Txn) { add(c, t, 1) }

func decr(c *Call, t *Txn) { add(c, t, -1) }

func incrBy(c *Call, t *Txn) {
	if n, ok := resp.ParseInt(c.Args[2]); ok {
		add(c, t, n)
		return
	}
	c.Fail(spec.ErrNotInt)
}

func decrBy(c *Call, t *Txn) {
	n, ok := resp.ParseInt(c.Args[2])
	switch {
	case !ok:
		c.Fail(spec.ErrNotInt)
	case n == math.MinInt64:
		c.Fail("ERR decrement would overflow")
	default:
		add(c, t, -n)
	}
}

// add adds n to the integer of the command's key.
func add(c *Call, t *Txn, n int64) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok {
		return
	}
	sum, err := value.StringInt(it.Body)
	if err != nil {
		c.Fail(spec.ErrNotInt)
		return
	}
	if sum, err = value.Add(sum, n); err != nil {
		c.Fail(errSumOverflow)
		return
	}
	c.putCounter(t, sum, it.Expires)
	c.Int(sum)
}

// putCounter makes the command's key hold a number.
func (c *Call) putCounter(t *Txn, n, expires int64) {
	c.body = value.AppendCounter(c.body[:0], n)
	c.Put(t, c.Args[1], &Item{Type: value.String, Expires: expires, Body: c.body})
}

// floatOf returns a string as a number, 0 for an absent key.
func floatOf(it *Item) (value.Float, error) {
	if !it.Exists() {
		return value.ParseFloat([]byte{'0'})
	}
	return value.ParseFloat(value.StringText(nil, it.Body))
}

func incrByFloat(c *Call, t *Txn) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok {
		return
	}
	x, err := floatOf(&it)
	if err != nil {
		c.Fail(errNotFloat)
		return
	}
	by, err := value.ParseFloat(c.Args[2])
	if err != nil {
		c.Fail(errNotFloat)
		return
	}
	if x, err = x.Plus(by); err != nil {
		c.Fail(errNaN)
		return
	}
	c.Bulk(c.putFloat(t, x, it.Expires))
}

// putFloat makes the command's key hold a number, and returns its text.
func (c *Call) putFloat(t *Txn, x value.Float, expires int64) []byte {
	c.body = x.Append(value.AppendText(c.body[:0], nil))
	c.Put(t, c.Args[1], &Item{Type: value.String, Expires: expires, Body: c.body})
	return c.body[1:]
}
