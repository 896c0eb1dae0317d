package server

import "limitdb/resp"

// SLOWLOG: the last commands that took long.
func slowlogCommands() []command {
	sub := func(name string, arity int, f flags, complexity, summary string, run func(*call), args ...argument) command {
		return command{
			name: name, arity: arity, flags: f | flagLoading | flagStale, group: "server", since: "1.0.0",
			complexity: complexity, summary: summary, args: args, run: run,
		}
	}
	return []command{{
		name: "SLOWLOG", arity: -2, group: "server", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "Container for commands about the slow log.",
		subs: []command{
			sub("GET", -2, flagAdmin, "O(n) for n entries", "Returns the newest entries, 10 by default; -1: all.", (*call).slowlogGet,
				argument{name: "count", kind: "integer", optional: true}),
			sub("LEN", 2, flagAdmin, "O(1)", "Counts the entries.", func(c *call) { c.int(c.srv.slowlog.len()) }),
			sub("RESET", 2, flagAdmin, "O(1)", "Forgets the entries.", func(c *call) {
				c.srv.slowlog.reset()
				c.ok()
			}),
			sub("HELP", 2, 0, "O(1)", "Lists the subcommands.", (*call).help),
		},
	}}
}

func (c *call) slowlogGet() {
	count := int64(10)
	switch {
	case len(c.args) > 3:
		c.fail("ERR wrong number of arguments for 'slowlog|get' command")
		return
	case len(c.args) == 3:
		var ok bool
		if count, ok = resp.ParseInt(c.args[2]); !ok || count < -1 {
			c.fail(errSlowlogCount)
			return
		}
	}
	entries := c.srv.slowlog.last(count)
	c.array(len(entries))
	for _, e := range entries {
		c.array(6)
		c.int(e.id)
		c.int(e.at)
		c.int(e.us)
		c.texts(e.args)
		c.text(e.addr)
		c.text(e.name)
	}
}
