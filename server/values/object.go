package values

import (
	"bytes"

	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
	"limitdb/value"
)

// What keys hold, and under which name.
func objectRows() []Row {
	two := func(name string, arity int, summary string, run func(*Call, *Txn), more ...spec.Argument) Row {
		c := onKeys(name, arity, spec.Write, 1, "generic", summary, run,
			append([]spec.Argument{spec.Key("key"), spec.Key("newkey")}, more...)...)
		c.LastKey = 2
		return c
	}
	sub := func(name, summary string) Row {
		c := onKey(name, 3, spec.Readonly, "generic", summary, object)
		c.FirstKey, c.LastKey = 2, 2
		return c
	}
	return []Row{
		onKey("TYPE", 2, spec.Readonly|spec.Fast, "generic", "Returns a key's algorithm or type in lower case, or none.", keyType).Uses("RO"),
		two("RENAME", 3, "Gives a key another name.", rename).Uses("RW access delete", "OW update"),
		two("RENAMENX", 3, "Gives a key another name that no key has.", renameNX).Uses("RW access delete", "OW insert"),
		two("COPY", -3, "Copies a key.", copyKey, spec.Optional(spec.Argument{Name: "destination-db", Kind: "integer", Token: "DB"}), spec.Optional(spec.Word("REPLACE"))).Uses("RO access", "OW update"),
		handler.Container("OBJECT", "generic", "Says how a key is kept.",
			sub("ENCODING", "Returns how a value is kept, in Redis' words.").Uses("RO"),
			sub("FREQ", "Returns 0: limitdb does not count how often a key is used.").Uses("RO"),
			sub("IDLETIME", "Returns 0: limitdb does not keep when a key was used.").Uses("RO"),
			sub("REFCOUNT", "Returns 1.").Uses("RO"),
		),
	}
}

func keyType(c *Call, t *Txn) {
	it := c.Item(t, c.Args[1])
	if it.Kind != 0 {
		c.Simple(it.Kind.TypeName())
		return
	}
	c.Simple(it.Type.String())
}

func rename(c *Call, t *Txn) { move(c, t, false) }

func renameNX(c *Call, t *Txn) { move(c, t, true) }

// move gives the first key the name of the second one.
func move(c *Call, t *Txn, absent bool) {
	from, to := c.Args[1], c.Args[2]
	it := c.Item(t, from)
	if !it.Exists() {
		c.Fail(errNoSuchKey)
		return
	}
	old := c.Item(t, to)
	switch {
	case !c.movable(&it):
		return
	case absent && old.Exists():
		c.Int(0)
		return
	case !c.replaceable(&old):
		return
	}
	if !bytes.Equal(from, to) {
		it.Body = bytes.Clone(it.Body)
		t.Remove(from)
		c.Put(t, to, &it)
	}
	if absent {
		c.Int(1)
		return
	}
	c.OK()
}

func copyKey(c *Call, t *Txn) {
	replace := false
	for i := 3; i < len(c.Args); i++ {
		switch {
		case resp.EqualFold(c.Args[i], "REPLACE"):
			replace = true
		case resp.EqualFold(c.Args[i], "DB") && i+1 < len(c.Args):
			i++
			if n, ok := resp.ParseInt(c.Args[i]); !ok {
				c.Fail(spec.ErrNotInt)
				return
			} else if n < 0 || n >= c.Settings.Databases.Get() {
				c.Fail(spec.ErrDBIndex)
				return
			}
		default:
			c.Fail(spec.ErrSyntax)
			return
		}
	}
	if bytes.Equal(c.Args[1], c.Args[2]) {
		c.Fail("ERR source and destination objects are the same")
		return
	}
	it := c.Item(t, c.Args[1])
	old := c.Item(t, c.Args[2])
	switch {
	case !it.Exists():
		c.Int(0)
	case !c.movable(&it):
	case old.Exists() && !replace:
		c.Int(0)
	case !c.replaceable(&old):
	default:
		it.Body = bytes.Clone(it.Body)
		c.Put(t, c.Args[2], &it)
		c.Int(1)
	}
}

// object is OBJECT ENCODING, FREQ, IDLETIME and REFCOUNT.
func object(c *Call, t *Txn) {
	it := c.Item(t, c.Args[2])
	switch {
	case !it.Exists():
		c.Null()
	case c.Command.Name == "REFCOUNT":
		c.Int(1)
	case c.Command.Name != "ENCODING":
		c.Int(0)
	default:
		c.Text(it.encoding())
	}
}

// encoding returns how a key is kept, in Redis' words.
func (it *Item) encoding() string {
	switch {
	case it.Kind != 0:
		return "raw"
	case it.Type == value.String:
		return value.StringEncoding(it.Body)
	}
	return value.CollectionEncoding(it.Type, it.Body)
}
