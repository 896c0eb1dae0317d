package server

import (
	"strconv"
	"time"

	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// The server as a whole.
func serverRows() []row {
	cmd := handler.Rows[call]("server", "O(1)", spec.Stale)
	clock := cmd("RL.CLOCK", -1, spec.Admin|spec.Client, "Returns how far the time of decisions is behind the machine's clock; ADOPT takes over the machine's time.", (*call).clock,
		spec.Optional(spec.Word("ADOPT")))
	clock.Example = "RL.CLOCK ADOPT"
	return []row{
		cmd("INFO", -1, spec.Loading|spec.Dangerous, "Describes the server, in sections.", (*call).info, spec.Optional(spec.Several(spec.Text("section")))),
		cmd("TIME", 1, spec.Script|spec.Fast|spec.Loading, "Returns the time of decisions: Unix seconds and microseconds.", func(c *call) {
			c.Texts([]string{strconv.FormatInt(c.Now/1e9, 10), strconv.FormatInt(c.Now/1e3%1e6, 10)})
		}),
		clock,
		cmd("MONITOR", 1, spec.Client|spec.Admin|spec.Loading, "Streams every command that the server runs from now on, to at most 32 clients at a time. It cuts long arguments and long lists of them.",
			(*call).monitor),
		cmd("SHUTDOWN", -1, spec.Client|spec.NoMulti|spec.Admin|spec.Loading, "Stops the server.", (*call).shutdown,
			spec.OneOf("save-selector", spec.Word("NOSAVE"), spec.Word("SAVE")), spec.Optional(spec.Word("NOW")), spec.Optional(spec.Word("FORCE"))),
	}
}

// clock is RL.CLOCK.
func (c *call) clock() {
	moved := int64(0)
	switch {
	case len(c.Args) == 1:
	case len(c.Args) == 2 && resp.EqualFold(c.Args[1], "ADOPT"):
		if c.srv.opts.Replication != nil {
			c.Fail("ERR no node can move the time of the cluster")
			return
		}
		if moved = c.srv.clock.Adopt(); moved > 0 {
			c.srv.log.Warn("decisions adopted the machine's clock, as a client asked", "addr", c.client.addr(), "forwards", time.Duration(moved))
		}
		c.Now = max(c.Now, c.srv.clock.Now())
	default:
		c.Fail(spec.ErrSyntax)
		return
	}
	c.Fields("time", c.Now/1e3, "behind", c.srv.clock.Behind()/1e3, "moved", moved/1e3)
}

func (c *call) monitor() {
	added := c.srv.monitors.add(c.client, func() {
		if c.client.replies == replyOn {
			c.OK()
		}
		c.client.flush()
	})
	if !added {
		c.Fail("ERR MONITOR is refused: " + strconv.Itoa(maxMonitors) + " clients monitor already")
	}
}

func (c *call) shutdown() {
	now, save, noSave := false, false, false
	for _, a := range c.Args[1:] {
		switch {
		case resp.EqualFold(a, "NOW"), resp.EqualFold(a, "FORCE"):
			now = true
		case resp.EqualFold(a, "NOSAVE"):
			noSave = true
		case resp.EqualFold(a, "SAVE"):
			save = true
		case resp.EqualFold(a, "ABORT"):
			c.Fail("ERR No shutdown in progress.")
			return
		default:
			c.Fail(spec.ErrSyntax)
			return
		}
	}
	switch {
	case save && noSave:
		c.Fail(spec.ErrSyntax)
		return
	case save && !c.keeps():
		return
	}
	if c.srv.opts.Shutdown == nil {
		c.Fail("ERR SHUTDOWN is not available here")
		return
	}
	c.srv.log.Warn("a client sent SHUTDOWN", "addr", c.client.addr())
	srv := c.srv
	go func() {
		if save {
			srv.Snapshot()
		}
		srv.opts.Shutdown(now)
	}()
}
