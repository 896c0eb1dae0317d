package server

import (
	"limitdb/server/handler"
	"limitdb/server/keys"
	"limitdb/server/limits"
	"limitdb/server/spec"
	"limitdb/server/table"
	"limitdb/server/values"
)

// newCommands builds the table.
func (srv *Server) newCommands() *commands {
	t := new(table.Table)
	all := &commands{Table: t}
	for _, family := range srv.families(t) {
		for i := range family {
			c := &family[i]
			all.rows = append(all.rows, c)
			subs := make([]*spec.Command, len(c.subs))
			for j := range c.subs {
				subs[j] = &c.subs[j].Command
				all.rows = append(all.rows, &c.subs[j])
			}
			t.Add(&c.Command, subs)
		}
	}
	return all
}

// families are the tables of the cmd_*.go files and of the packages below, in the order of the reference.
func (srv *Server) families(t *table.Table) [][]command {
	var all [][]command
	for _, rows := range limits.Families() {
		all = append(all, adapted(rows, (*call).inner))
	}
	all = append(all, adapted(srv.rules.Rows(), (*call).inner), adapted(keys.Rows(), (*call).inner))
	for _, rows := range values.Families() {
		all = append(all, adapted(rows, func(c *call) *values.Call { return &c.Call }))
	}
	return append(all,
		multiCommands(),
		scriptCommands(),
		connectionCommands(),
		clientCommands(),
		serverCommands(),
		saveCommands(),
		configCommands(),
		debugCommands(),
		aclCommands(),
		adapted(srv.slowlog.Rows(), (*call).inner),
		adapted(srv.latency.Rows(), (*call).inner),
		memoryCommands(),
		adapted(t.Rows(), (*call).inner),
		adapted(srv.opts.Replication.Rows(srv.Snapshot), (*call).inner),
		waitCommands(),
		pubsubCommands(),
	)
}

// adapted returns the commands of a package below, whose handlers get a part of the call.
func adapted[C any](rows []handler.Row[C], part func(c *call) *C) []command {
	out := make([]command, len(rows))
	for i, r := range rows {
		c := &out[i]
		c.Command, c.plan, c.subs = r.Command, r.Plan, adapted(r.Rows, part)
		if r.Atomic != nil {
			c.run, c.atomic = (*call).atomically, func(c *call, t *handler.Txn) {
				c.Call.Command = &c.cmd.Command
				r.Atomic(part(c), t)
			}
		}
		if r.Resolve != nil {
			c.resolves = func(c *call) (any, [][]byte) { return r.Resolve(part(c)) }
		}
		switch {
		case r.Run != nil:
			c.run = func(c *call) {
				c.Call.Command = &c.cmd.Command
				r.Run(part(c))
			}
		case r.Atomic == nil && r.Rows == nil:
			c.run = (*call).help
		}
	}
	return out
}
