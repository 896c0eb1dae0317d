package values

import (
	"strconv"

	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
	"limitdb/value"
)

// HSCAN, SSCAN and ZSCAN return all elements in one call, as Redis does for small collections: the ones here are small, and
// a position in them would not stay right while others add and remove elements.

// scanRow makes the row of a command that scans a collection. scan calls reply for each element, with nil for what it has none of.
func scanRow(name, group, summary string, typ value.Type, scan func(body []byte, reply func(name, other []byte))) Row {
	return onKey(name, -3, spec.Readonly, group, summary, func(c *Call, t *Txn) { scanCollection(c, t, typ, scan) },
		spec.Integer("cursor"),
		spec.Optional(spec.Argument{Name: "pattern", Kind: "pattern", Token: "MATCH"}),
		spec.Optional(spec.Argument{Name: "count", Kind: "integer", Token: "COUNT"}))
}

func scanCollection(c *Call, t *Txn, typ value.Type, scan func(body []byte, reply func(name, other []byte))) {
	if _, err := strconv.ParseUint(string(c.Args[2]), 10, 64); err != nil {
		c.Fail(handler.ErrCursor)
		return
	}
	it, ok := c.of(t, c.Args[1], typ)
	if !ok {
		return
	}
	var a handler.ScanArgs
	if it.Exists() {
		var text string
		if a, text = handler.ParseScan(c.Args[3:], false); text != "" {
			c.Fail(text)
			return
		}
	}
	// The names take most of the body, and the worst pattern looks at all of them.
	if a.Match != nil && a.Match.Cost(len(it.Body)) > handler.MatchMost {
		c.Fail("ERR the collection is too large for so long a pattern")
		return
	}
	var found []byte
	n := 0
	scan(it.Body, func(name, other []byte) {
		if a.Match != nil && !a.Match.Match(name) {
			return
		}
		if found, n = resp.AppendBulk(found, name), n+1; other != nil {
			found, n = resp.AppendBulk(found, other), n+1
		}
	})
	c.Array(2)
	c.Text("0")
	c.Array(n)
	c.Out = append(c.Out, found...)
}
