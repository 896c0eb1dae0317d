package server

import (
	"limitdb/resp"
	"limitdb/value"
)

// Lists, in a plain form: a change takes time in proportion to the size of the list.
func listCommands() []command {
	elements := argument{name: "element", kind: "string", multiple: true}
	count := optional(integer("count"))
	row := func(name string, arity int, f flags, summary string, step func(*call, *txn), args ...argument) command {
		return onKey(name, arity, f, "list", summary, step, args...)
	}
	return []command{
		row("LPUSH", -3, flagWrite|flagFast, "Adds elements on the left of a list; returns its length.", func(c *call, t *txn) { c.pushTo(t, true, false) }, elements),
		row("RPUSH", -3, flagWrite|flagFast, "Adds elements on the right of a list; returns its length.", func(c *call, t *txn) { c.pushTo(t, false, false) }, elements),
		row("LPUSHX", -3, flagWrite|flagFast, "Adds elements on the left of a list that exists.", func(c *call, t *txn) { c.pushTo(t, true, true) }, elements),
		row("RPUSHX", -3, flagWrite|flagFast, "Adds elements on the right of a list that exists.", func(c *call, t *txn) { c.pushTo(t, false, true) }, elements),
		row("LPOP", -2, flagWrite|flagFast, "Removes elements on the left of a list and returns them.", func(c *call, t *txn) { c.pop(t, (*value.ListOf).PopLeft) }, count),
		row("RPOP", -2, flagWrite|flagFast, "Removes elements on the right of a list and returns them.", func(c *call, t *txn) { c.pop(t, (*value.ListOf).PopRight) }, count),
		row("LLEN", 2, flagReadonly|flagFast, "Counts the elements of a list.", (*call).lLen),
		row("LINDEX", 3, flagReadonly, "Returns an element of a list.", (*call).lIndex, integer("index")),
		row("LRANGE", 4, flagReadonly, "Returns elements of a list.", (*call).lRange, integer("start"), integer("stop")),
		row("LTRIM", 4, flagWrite|flagTouches, "Removes all elements of a list but those in a range.", (*call).lTrim, integer("start"), integer("stop")),
	}
}

// list opens the list of the command's key.
func (c *call) list(t *txn) (l *value.ListOf, it item, ok bool) {
	it, ok = c.of(t, c.args[1], value.List)
	return value.OpenList(it.body), it, ok
}

func (c *call) pushTo(t *txn, left, present bool) {
	l, it, ok := c.list(t)
	switch {
	case !ok:
		return
	case present && !it.exists():
		c.int(0)
		return
	}
	for _, e := range c.args[2:] {
		if left {
			l.PushLeft(e)
		} else {
			l.PushRight(e)
		}
	}
	if c.putCollection(t, &it, value.List, l) {
		c.int(int64(l.Len()))
	}
}

func (c *call) pop(t *txn, pop func(l *value.ListOf) ([]byte, bool)) {
	count, many := int64(1), len(c.args) == 3
	if many {
		var ok bool
		if count, ok = resp.ParseInt(c.args[2]); !ok || count < 0 {
			c.fail("ERR value is out of range, must be positive")
			return
		}
	} else if len(c.args) > 3 {
		c.fail("ERR wrong number of arguments for '" + c.cmd.full + "' command")
		return
	}
	l, it, ok := c.list(t)
	switch {
	case !ok:
		return
	case !it.exists() && many:
		c.nullArray()
		return
	case !it.exists():
		c.null()
		return
	}
	if count = min(count, int64(l.Len())); many {
		c.array(int(count))
	}
	for range count {
		text, _ := pop(l)
		c.bulk(text)
	}
	c.putCollection(t, &it, value.List, l)
}

func (c *call) lLen(t *txn) {
	if l, _, ok := c.list(t); ok {
		c.int(int64(l.Len()))
	}
}

func (c *call) lIndex(t *txn) {
	l, it, ok := c.list(t)
	switch {
	case !ok:
		return
	case !it.exists():
		c.null()
		return
	}
	i, ok := resp.ParseInt(c.args[2])
	if !ok {
		c.fail(errNotInt)
		return
	}
	if text, ok := l.Index(i); ok {
		c.bulk(text)
		return
	}
	c.null()
}

func (c *call) lRange(t *txn) {
	start, stop, ok := c.ranks(c.args[2], c.args[3])
	if !ok {
		return
	}
	if l, _, ok := c.list(t); ok {
		l.Range(start, stop, c.array, c.bulk)
	}
}

func (c *call) lTrim(t *txn) {
	start, stop, ok := c.ranks(c.args[2], c.args[3])
	if !ok {
		return
	}
	l, it, ok := c.list(t)
	if !ok {
		return
	}
	l.Trim(start, stop)
	if c.putCollection(t, &it, value.List, l) {
		c.ok()
	}
}
