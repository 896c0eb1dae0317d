package server

import (
	"strconv"
	"time"
)

// The server as a whole.
func serverCommands() []command {
	return []command{
		{
			name: "INFO", arity: -1, flags: flagLoading | flagStale | flagDangerous, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Describes the server, in sections.", args: []argument{{name: "section", kind: "string", optional: true, multiple: true}},
			run: (*call).info,
		},
		{
			name: "TIME", arity: 1, flags: flagScript | flagFast | flagLoading | flagStale, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Returns the time of decisions: Unix seconds and microseconds.",
			run: func(c *call) {
				c.array(2)
				c.text(strconv.FormatInt(c.now/1e9, 10))
				c.text(strconv.FormatInt(c.now/1e3%1e6, 10))
			},
		},
		{
			name: "RL.CLOCK", example: "RL.CLOCK ADOPT", arity: -1, flags: flagAdmin | flagStale | flagClient, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Returns how far the time of decisions is behind the machine's clock; ADOPT takes over the machine's time.",
			args:    []argument{{name: "adopt", kind: "pure-token", token: "ADOPT", optional: true}},
			run:     (*call).clock,
		},
		{
			name: "MONITOR", arity: 1, flags: flagClient | flagAdmin | flagLoading | flagStale, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Streams every command that the server runs from now on, to at most 32 clients at a time. It cuts long arguments and long lists of them.",
			run:     (*call).monitor,
		},
		{
			name: "SHUTDOWN", arity: -1, flags: flagClient | flagNoMulti | flagAdmin | flagLoading | flagStale, group: "server", since: "1.0.0", complexity: "O(1)",
			summary: "Stops the server.",
			args: []argument{
				{name: "save-selector", kind: "oneof", optional: true, args: []argument{{name: "nosave", kind: "pure-token", token: "NOSAVE"}, {name: "save", kind: "pure-token", token: "SAVE"}}},
				{name: "now", kind: "pure-token", token: "NOW", optional: true},
				{name: "force", kind: "pure-token", token: "FORCE", optional: true},
			},
			run: (*call).shutdown,
		},
	}
}

// clock is RL.CLOCK.
func (c *call) clock() {
	moved := int64(0)
	switch {
	case len(c.args) == 1:
	case len(c.args) == 2 && foldEqual(c.args[1], "ADOPT"):
		if c.srv.opts.Replication != nil {
			c.fail("ERR the time is that of the cluster, which no node moves")
			return
		}
		if moved = c.srv.clock.Adopt(); moved > 0 {
			c.srv.log.Warn("decisions adopted the machine's clock, as a client asked", "addr", c.client.addr(), "forwards", time.Duration(moved))
		}
		c.now = max(c.now, c.srv.clock.Now())
	default:
		c.fail(errSyntax)
		return
	}
	c.mapOf(3)
	c.text("time")
	c.int(c.now / 1e3)
	c.text("behind")
	c.int(c.srv.clock.Behind() / 1e3)
	c.text("moved")
	c.int(moved / 1e3)
}

func (c *call) monitor() {
	added := c.srv.monitors.add(c.client, func() {
		c.ok()
		c.client.flush()
	})
	if !added {
		c.fail("ERR MONITOR is refused: " + strconv.Itoa(maxMonitors) + " clients monitor already")
	}
}

func (c *call) shutdown() {
	now, save := false, false
	for _, a := range c.args[1:] {
		switch {
		case foldEqual(a, "NOW"), foldEqual(a, "FORCE"):
			now = true
		case foldEqual(a, "NOSAVE"):
		case foldEqual(a, "SAVE"):
			if !c.keeps() {
				return
			}
			save = true
		case foldEqual(a, "ABORT"):
			c.fail("ERR No shutdown in progress.")
			return
		default:
			c.fail(errSyntax)
			return
		}
	}
	if c.srv.opts.Shutdown == nil {
		c.fail("ERR SHUTDOWN is not available here")
		return
	}
	c.srv.log.Warn("a client sent SHUTDOWN", "addr", c.client.addr())
	srv := c.srv
	go func() {
		if save {
			if err := srv.Snapshot(); err != nil {
				srv.log.Error("the snapshot before the stop failed", "err", err)
			}
		}
		srv.opts.Shutdown(now)
	}()
}
