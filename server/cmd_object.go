package server

import (
	"bytes"

	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/value"
)

// What keys hold, and under which name.
func objectCommands() []command {
	two := func(name string, arity int, summary string, run func(*call, *Txn), more ...spec.Argument) command {
		c := onKeys(name, arity, spec.Write, 1, "generic", summary, run,
			append([]spec.Argument{{Name: "key", Kind: "key"}, {Name: "newkey", Kind: "key"}}, more...)...)
		c.LastKey = 2
		return c
	}
	sub := func(name, summary string) command {
		c := onKey(name, 3, spec.Readonly, "generic", summary, (*call).object)
		c.FirstKey, c.LastKey = 2, 2
		return c
	}
	return []command{
		onKey("TYPE", 2, spec.Readonly|spec.Fast|spec.Ahead, "generic", "Returns a key's algorithm or type in lower case, or none.", (*call).typeOf),
		two("RENAME", 3, "Gives a key another name.", (*call).rename),
		two("RENAMENX", 3, "Gives a key another name that no key has.", (*call).renameNX),
		two("COPY", -3, "Copies a key.", (*call).copyKey, spec.Optional(spec.Argument{Name: "destination-db", Kind: "integer", Token: "DB"}), spec.Optional(spec.Word("REPLACE"))),
		{
			Command: spec.Command{
				Name: "OBJECT", Arity: -2, Group: "generic", Since: "1.0.0", Complexity: "O(1)", Summary: "Says how a key is kept.",
			},
			subs: []command{
				sub("ENCODING", "Returns how a value is kept, in Redis' words."),
				sub("FREQ", "Returns 0: limitdb does not count how often a key is used."),
				sub("IDLETIME", "Returns 0: limitdb does not keep when a key was used."),
				sub("REFCOUNT", "Returns 1."),
				{Command: spec.Command{Name: "HELP", Arity: 2, Group: "generic", Since: "1.0.0", Complexity: "O(1)", Summary: "Lists the subcommands."}, run: (*call).help},
			},
		},
	}
}

func (c *call) typeOf(t *Txn) {
	it := c.item(t, c.Args[1])
	if it.kind != 0 {
		c.Simple(it.kind.TypeName())
		return
	}
	c.Simple(it.typ.String())
}

func (c *call) rename(t *Txn) { c.move(t, false) }

func (c *call) renameNX(t *Txn) { c.move(t, true) }

// move gives the first key the name of the second one.
func (c *call) move(t *Txn, absent bool) {
	from, to := c.Args[1], c.Args[2]
	it := c.item(t, from)
	if !it.exists() {
		c.FailState(errNoSuchKey)
		return
	}
	old := c.item(t, to)
	switch {
	case !c.movable(&it):
		return
	case absent && old.exists():
		c.Int(0)
		return
	case !c.replaceable(&old):
		return
	}
	if !bytes.Equal(from, to) {
		it.body = bytes.Clone(it.body)
		t.Remove(from)
		c.put(t, to, &it)
	}
	if absent {
		c.Int(1)
		return
	}
	c.OK()
}

func (c *call) copyKey(t *Txn) {
	replace := false
	for i := 3; i < len(c.Args); i++ {
		switch {
		case resp.EqualFold(c.Args[i], "REPLACE"):
			replace = true
		case resp.EqualFold(c.Args[i], "DB") && i+1 < len(c.Args):
			i++
			if n, ok := resp.ParseInt(c.Args[i]); !ok {
				c.Fail(errNotInt)
				return
			} else if n < 0 || n >= c.srv.set.Databases.Get() {
				c.Fail(errDBIndex)
				return
			}
		default:
			c.Fail(errSyntax)
			return
		}
	}
	if bytes.Equal(c.Args[1], c.Args[2]) {
		c.Fail("ERR source and destination objects are the same")
		return
	}
	it := c.item(t, c.Args[1])
	old := c.item(t, c.Args[2])
	switch {
	case !it.exists():
		c.Int(0)
	case !c.movable(&it):
	case old.exists() && !replace:
		c.Int(0)
	case !c.replaceable(&old):
	default:
		it.body = bytes.Clone(it.body)
		c.put(t, c.Args[2], &it)
		c.Int(1)
	}
}

// object is OBJECT ENCODING, FREQ, IDLETIME and REFCOUNT.
func (c *call) object(t *Txn) {
	it := c.item(t, c.Args[2])
	switch {
	case !it.exists():
		c.Null()
	case c.cmd.Name == "REFCOUNT":
		c.Int(1)
	case c.cmd.Name != "ENCODING":
		c.Int(0)
	case it.kind != 0:
		c.Text("raw")
	case it.typ == value.String:
		c.Text(value.StringEncoding(it.body))
	default:
		c.Text(value.CollectionEncoding(it.typ, it.body))
	}
}
