package server

import (
	"bytes"

	"limitdb/resp"
	"limitdb/value"
)

// What keys hold, and under which name.
func objectCommands() []command {
	two := func(name string, arity int, summary string, run func(*call, *txn), more ...argument) command {
		c := onKeys(name, arity, flagWrite, 1, "generic", summary, run,
			append([]argument{{name: "key", kind: "key"}, {name: "newkey", kind: "key"}}, more...)...)
		c.lastKey = 2
		return c
	}
	sub := func(name, summary string) command {
		c := onKey(name, 3, flagReadonly, "generic", summary, (*call).object)
		c.firstKey, c.lastKey = 2, 2
		return c
	}
	return []command{
		onKey("TYPE", 2, flagReadonly|flagFast|flagAhead, "generic", "Returns a key's algorithm or type in lower case, or none.", (*call).typeOf),
		two("RENAME", 3, "Gives a key another name.", (*call).rename),
		two("RENAMENX", 3, "Gives a key another name that no key has.", (*call).renameNX),
		two("COPY", -3, "Copies a key.", (*call).copyKey, optional(argument{name: "destination-db", kind: "integer", token: "DB"}), optional(word("REPLACE"))),
		{
			name: "OBJECT", arity: -2, group: "generic", since: "1.0.0", complexity: "O(1)", summary: "Says how a key is kept.",
			subs: []command{
				sub("ENCODING", "Returns how a value is kept, in Redis' words."),
				sub("FREQ", "Returns 0: limitdb does not count how often a key is used."),
				sub("IDLETIME", "Returns 0: limitdb does not keep when a key was used."),
				sub("REFCOUNT", "Returns 1."),
				{name: "HELP", arity: 2, group: "generic", since: "1.0.0", complexity: "O(1)", summary: "Lists the subcommands.", run: (*call).help},
			},
		},
	}
}

func (c *call) typeOf(t *txn) {
	it := c.item(t, c.args[1])
	if it.kind != 0 {
		c.simple(it.kind.TypeName())
		return
	}
	c.simple(it.typ.String())
}

func (c *call) rename(t *txn) { c.move(t, false) }

func (c *call) renameNX(t *txn) { c.move(t, true) }

// move gives the first key the name of the second one.
func (c *call) move(t *txn, absent bool) {
	from, to := c.args[1], c.args[2]
	it := c.item(t, from)
	if !it.exists() {
		c.failState(errNoSuchKey)
		return
	}
	old := c.item(t, to)
	switch {
	case !c.movable(&it):
		return
	case absent && old.exists():
		c.int(0)
		return
	case !c.replaceable(&old):
		return
	}
	if !bytes.Equal(from, to) {
		it.body = bytes.Clone(it.body)
		t.remove(from)
		c.put(t, to, &it)
	}
	if absent {
		c.int(1)
		return
	}
	c.ok()
}

func (c *call) copyKey(t *txn) {
	replace := false
	for i := 3; i < len(c.args); i++ {
		switch {
		case foldEqual(c.args[i], "REPLACE"):
			replace = true
		case foldEqual(c.args[i], "DB") && i+1 < len(c.args):
			i++
			if n, ok := resp.ParseInt(c.args[i]); !ok {
				c.fail(errNotInt)
				return
			} else if n < 0 || n >= c.srv.set.Databases.Get() {
				c.fail(errDBIndex)
				return
			}
		default:
			c.fail(errSyntax)
			return
		}
	}
	if bytes.Equal(c.args[1], c.args[2]) {
		c.fail("ERR source and destination objects are the same")
		return
	}
	it := c.item(t, c.args[1])
	old := c.item(t, c.args[2])
	switch {
	case !it.exists():
		c.int(0)
	case !c.movable(&it):
	case old.exists() && !replace:
		c.int(0)
	case !c.replaceable(&old):
	default:
		it.body = bytes.Clone(it.body)
		c.put(t, c.args[2], &it)
		c.int(1)
	}
}

// object is OBJECT ENCODING, FREQ, IDLETIME and REFCOUNT.
func (c *call) object(t *txn) {
	it := c.item(t, c.args[2])
	switch {
	case !it.exists():
		c.null()
	case c.cmd.name == "REFCOUNT":
		c.int(1)
	case c.cmd.name != "ENCODING":
		c.int(0)
	case it.kind != 0:
		c.text("raw")
	case it.typ == value.String:
		c.text(value.StringEncoding(it.body))
	default:
		c.text(value.CollectionEncoding(it.typ, it.body))
	}
}
