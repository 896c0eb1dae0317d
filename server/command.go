package server

import (
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/table"
)

// row is a row of the command table. The table is the only description of the commands.
type row = handler.Row[call]

// A command is a row in the table, with its subcommands.
type command struct {
	row
	subs []command
}

// newCommand makes the command of a row. Without a handler, a row is one atomic step, a container or HELP.
func newCommand(r row) command {
	switch {
	case r.Run != nil:
	case r.Atomic != nil:
		r.Run = (*call).atomically
	case r.Rows == nil:
		r.Run = (*call).help
	}
	c := command{row: r, subs: make([]command, len(r.Rows))}
	for i, sub := range r.Rows {
		c.subs[i] = newCommand(sub)
	}
	return c
}

// commands are the rows of the command table.
type commands struct {
	*table.Table
	rows []*command // by the id of a command
}

// find returns the command of that name, or nil.
func (t *commands) find(name []byte) *command {
	if c := t.Find(name); c != nil {
		return t.rows[c.ID]
	}
	return nil
}

// sub returns c's subcommand of that name, or nil.
func (c *command) sub(name []byte) *command {
	for i := range c.subs {
		if resp.EqualFold(name, c.subs[i].Name) {
			return &c.subs[i]
		}
	}
	return nil
}

// help lists the subcommands of the container that was called.
func (c *call) help() { c.srv.table.Help(c.inner()) }
