package server

import (
	"strconv"

	"limitdb/server/clients"
	"limitdb/server/monitor"
	"limitdb/server/spec"
)

// monitorCommand is MONITOR.
func monitorCommand(c *call) {
	added := c.srv.monitors.Add(&c.client.pub, func() {
		if c.client.replies == replyOn {
			c.OK()
		}
		c.client.flush()
	})
	if !added {
		c.Fail("ERR MONITOR is refused: " + strconv.Itoa(monitor.Most) + " clients monitor already")
	}
}

// feed shows a command that has run, and what it has called if it was a script, to the clients that monitor.
func (c *call) feed(cmd *command, args [][]byte) {
	c.show(append(c.monitored(nil, cmd, args), c.called...))
	c.called = nil
}

// monitored appends the line of a command that has run.
func (c *call) monitored(b []byte, cmd *command, args [][]byte) []byte {
	from, s := httpAddr, c.client
	if s != nil {
		from = s.pub.Addr()
		if local := s.conn.LocalAddr(); clients.IsUnix(local) {
			from = "unix:" + local.String()
		}
	}
	return monitor.AppendLine(b, from, c.Began, c.srv.redact.Args(&cmd.Command, args))
}

// show sends lines to the clients that monitor. This one gets them after its reply.
func (c *call) show(lines []byte) {
	own := (*clients.Client)(nil)
	if c.client != nil {
		own = &c.client.pub
	}
	if c.srv.monitors.Send(lines, own) {
		c.Out = append(c.Out, lines...)
	}
}

// callable returns the command that args call, nil if there is none or the number of arguments is wrong.
func (t *commands) callable(args [][]byte) *spec.Command {
	cmd, text := t.resolve(args)
	if cmd == nil || text != "" {
		return nil
	}
	return &cmd.Command
}
