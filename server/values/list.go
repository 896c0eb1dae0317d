package values

import (
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
	"limitdb/value"
)

// Lists, in a plain form: a change takes time in proportion to the size of the list. Only in long lists of numbers, which
// have a form of their own, does it not.
func listRows() []Row {
	elements := spec.Several(spec.Text("element"))
	count := spec.Optional(spec.Integer("count"))
	row := func(name string, arity int, f spec.Flags, summary string, step func(*Call, *Txn), args ...spec.Argument) Row {
		return onKey(name, arity, f, "list", summary, step, args...)
	}
	return []Row{
		row("LPUSH", -3, spec.Write|spec.Fast|spec.Wide, "Adds elements on the left of a list; returns its length.", func(c *Call, t *Txn) { pushTo(c, t, true, false) }, elements).Uses("RW insert"),
		row("RPUSH", -3, spec.Write|spec.Fast|spec.Wide, "Adds elements on the right of a list; returns its length.", func(c *Call, t *Txn) { pushTo(c, t, false, false) }, elements).Uses("RW insert"),
		row("LPUSHX", -3, spec.Write|spec.Fast|spec.Wide, "Adds elements on the left of a list that exists.", func(c *Call, t *Txn) { pushTo(c, t, true, true) }, elements).Uses("RW insert"),
		row("RPUSHX", -3, spec.Write|spec.Fast|spec.Wide, "Adds elements on the right of a list that exists.", func(c *Call, t *Txn) { pushTo(c, t, false, true) }, elements).Uses("RW insert"),
		row("LPOP", -2, spec.Write|spec.Fast, "Removes elements on the left of a list and returns them.", func(c *Call, t *Txn) { popFrom(c, t, (*value.ListOf).PopLeft) }, count).Uses("RW access delete"),
		row("RPOP", -2, spec.Write|spec.Fast, "Removes elements on the right of a list and returns them.", func(c *Call, t *Txn) { popFrom(c, t, (*value.ListOf).PopRight) }, count).Uses("RW access delete"),
		row("LLEN", 2, spec.Readonly|spec.Fast, "Counts the elements of a list.", lLen).Uses("RO"),
		row("LINDEX", 3, spec.Readonly|spec.Ahead, "Returns an element of a list.", lIndex, spec.Integer("index")),
		row("LRANGE", 4, spec.Readonly, "Returns elements of a list.", lRange, spec.Integer("start"), spec.Integer("stop")),
		row("LTRIM", 4, spec.Write|spec.Touches|spec.Ahead, "Removes all elements of a list but those in a range.", lTrim, spec.Integer("start"), spec.Integer("stop")).Uses("RW delete"),
	}
}

// list opens the list of the command's key.
func (c *Call) list(t *Txn) (l *value.ListOf, it Item, ok bool) {
	it, ok = c.of(t, c.Args[1], value.List)
	return value.OpenList(it.Body), it, ok
}

func pushTo(c *Call, t *Txn, left, present bool) {
	l, it, ok := c.list(t)
	switch {
	case !ok:
		return
	case present && !it.Exists():
		c.Int(0)
		return
	}
	if left {
		l.PushLeft(c.Args[2:]...)
	} else {
		l.PushRight(c.Args[2:]...)
	}
	if it.isNumbers() && !l.Late() || l.Err() != nil { // it has gone through all elements
		c.Worked(handler.LookAtClock)
	}
	if c.putCollection(t, &it, value.List, l) {
		c.Int(int64(l.Len()))
	}
}

func popFrom(c *Call, t *Txn, pop func(l *value.ListOf, n int, fn func(text []byte))) {
	count, many := int64(1), len(c.Args) == 3
	if many {
		var ok bool
		if count, ok = resp.ParseInt(c.Args[2]); !ok || count < 0 {
			c.Fail("ERR value is out of range, must be positive")
			return
		}
	} else if len(c.Args) > 3 {
		c.Fail("ERR wrong number of arguments for '" + c.Command.Full + "' command")
		return
	}
	l, it, ok := c.list(t)
	switch {
	case !ok:
		return
	case !it.Exists() && many:
		c.NullArray()
		return
	case !it.Exists():
		c.Null()
		return
	}
	if count = min(count, int64(l.Len())); many {
		c.Array(int(count))
	}
	pop(l, int(count), c.Bulk)
	c.Worked(count)
	c.putCollection(t, &it, value.List, l)
}

func lLen(c *Call, t *Txn) {
	if l, _, ok := c.list(t); ok {
		c.Int(int64(l.Len()))
	}
}

func lIndex(c *Call, t *Txn) {
	l, it, ok := c.list(t)
	switch {
	case !ok:
		return
	case !it.Exists():
		c.Null()
		return
	}
	i, ok := resp.ParseInt(c.Args[2])
	if !ok {
		c.Fail(spec.ErrNotInt)
		return
	}
	if text, ok := l.Index(i); ok {
		c.Bulk(text)
		return
	}
	c.Null()
}

func lRange(c *Call, t *Txn) {
	start, stop, ok := c.ranks(c.Args[2], c.Args[3])
	if !ok {
		return
	}
	if l, it, ok := c.list(t); ok {
		mark := len(c.Out)
		l.Range(start, stop, c.Array, c.Bulk)
		if it.isNumbers() {
			c.Worked(int64((len(c.Out) - mark) / workBytes))
		}
	}
}

func lTrim(c *Call, t *Txn) {
	start, stop, ok := c.ranks(c.Args[2], c.Args[3])
	if !ok {
		return
	}
	l, it, ok := c.list(t)
	if !ok {
		return
	}
	l.Trim(start, stop)
	if c.putCollection(t, &it, value.List, l) {
		c.OK()
	}
}
