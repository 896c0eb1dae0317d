package slowlog

import (
	"math"

	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

// Rows returns SLOWLOG, which shows the entries.
func (l *Log) Rows() []row {
	sub := handler.Rows[call]("server", "O(1)", spec.Admin|spec.Loading|spec.Stale)
	return []row{handler.Container("SLOWLOG", "server", "A container for commands about the slow log.",
		sub("GET", -2, spec.AllKeys, "Returns the newest entries, 10 by default; -1: all.", l.get, spec.Optional(spec.Integer("count"))).Takes("O(n) for n entries"),
		sub("LEN", 2, 0, "Counts the entries.", func(c *call) { c.Int(l.Len()) }),
		sub("RESET", 2, 0, "Forgets the entries.", func(c *call) {
			l.Reset()
			c.OK()
		}),
	)}
}

func (l *Log) get(c *call) {
	count := int64(10)
	switch {
	case len(c.Args) > 3:
		c.Fail("ERR wrong number of arguments for 'slowlog|get' command")
		return
	case len(c.Args) == 3:
		var ok bool
		if count, ok = resp.ParseInt(c.Args[2]); !ok || count < -1 {
			c.Fail("ERR count should be greater than or equal to -1")
			return
		}
	}
	if count < 0 {
		count = math.MaxInt64
	}
	var found []byte
	n, before := 0, int64(math.MaxInt64)
	c.InSteps(nil, func() bool {
		entries := l.Before(before, min(count-int64(n), getStep))
		out := c.Out
		c.Out = found // the head of the reply has their number
		for i := range entries {
			entries[i].reply(c)
			before = entries[i].ID
		}
		found, c.Out = c.Out, out
		n += len(entries)
		if c.Holds = int64(cap(found)); len(entries) == getStep {
			return false
		}
		c.Array(n)
		c.Out = append(c.Out, found...)
		return true
	})
}

// getStep is how many entries a step replies.
const getStep = 64

func (e *Entry) reply(c *call) {
	c.Array(6)
	c.Int(e.ID)
	c.Int(e.At)
	c.Int(e.Micros)
	c.Texts(e.Args)
	c.Text(e.Addr)
	c.Text(e.Name)
}
